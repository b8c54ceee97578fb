"""Who asks for a person is heard, and who reports that there are people is not taken for one."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from callflow.call.utterance import MAX_UTTERANCE_CHARS
from callflow.language.requests import asks_for_human

CASES = Path(__file__).with_name("requests_cases.txt").read_text(encoding="utf-8").splitlines()
ASKED = [line[2:] for line in CASES if line.startswith("+ ")]
REPORTED = [line[2:] for line in CASES if line.startswith("- ")]
PIECES = (
    *(
        "speak ",
        "talk to ",
        "a ",
        "real ",
        "human ",
        "live ",
        "person ",
        "get me ",
        "not ",
        "is this ",
    ),
    *(
        "hablar con ",
        "una ",
        "me puede ",
        "no ",
        "por favor ",
        "转",
        "人工",
        "服务",
        "跟",
        "人",
        "叫",
        "你们",
    ),
    *(" ", "\n", "'", "’", "e\u0301", "um ", "0", ".", "人 工 "),
)


def noisy(text: str) -> list[str]:
    """The same, and as recognisers write it."""
    return [
        text,
        text.upper(),
        f"  {text}. ",
        text.replace("'", "’"),
        text.replace("'", ""),
        text.replace(" ", "  "),
        f"um {text}",
        text.replace(" ", ", "),
        text.replace(" a ", " a a ").replace("我", "我 我 "),
        " ".join(text) if text[0] > "\u4dff" else text,
    ]


def test_a_caller_who_asks_for_a_person_is_heard_however_it_is_spelt() -> None:
    assert len(ASKED) > 507
    assert [said for text in ASKED for said in noisy(text) if not asks_for_human(said)] == []


def test_a_report_about_people_is_no_request_however_it_is_spelt() -> None:
    assert len(REPORTED) > 460
    assert [said for text in REPORTED for said in noisy(text) if asks_for_human(said)] == []


def test_nothing_said_is_no_request() -> None:
    for text in ("", " ", "...", "um", "？", "\0", "\ud83d"):
        assert not asks_for_human(text)


def test_a_request_is_heard_at_the_end_of_a_report() -> None:
    assert asks_for_human("there is a person hurt in here, please let me talk to a human")
    assert asks_for_human("hay una persona herida, quiero hablar con alguien")
    assert asks_for_human("有人受伤了，快帮我转人工")


def test_first_aid_is_no_request() -> None:
    for text in ("他需要人工呼吸", "要人工呼吸吗", "外面有人工作", "人工湖旁边", "上面有人工作業"):
        assert not asks_for_human(text)


def seconds(text: str) -> float:
    """The best of three, unless the first is quick: a shared machine has its pauses."""
    taken: list[float] = []
    while len(taken) < 3 and (not taken or taken[-1] >= 1):
        start = time.process_time()
        asks_for_human(text)
        taken.append(time.process_time() - start)
    return min(taken)


@settings(max_examples=50)
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.booleans())
def test_a_long_text_takes_no_long_time(pieces: list[str], ends_well: bool) -> None:
    unit = "".join(pieces)
    text = (unit * MAX_UTTERANCE_CHARS)[:MAX_UTTERANCE_CHARS] + ("" if ends_well else "§x")
    assert seconds(text) < 1


@given(st.text(max_size=2_000))
def test_any_text_has_an_answer(text: str) -> None:
    assert asks_for_human(text) in (True, False)
