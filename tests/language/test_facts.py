"""What callers tell about themselves is learned, and nothing that they do not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.facts import CALLER_FACTS, DANGERS, VULNERABLE
from callflow.language.caller_facts import INJURIES, learn

CASES = Path(__file__).with_name("facts_cases.txt").read_text(encoding="utf-8").splitlines()
KINDS: dict[str, type] = {"whole": int, "flag": bool, "text": str, "words": list}

ONES = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
CEROS = "cero uno dos tres cuatro cinco seis siete ocho nueve".split()  # noqa: SIM905
QUESTIONS = st.sampled_from(
    [None, "ask_count", "ask_callback", "ask_floor", "ask_lift_id", "ask_injury", "ask_danger"]
)


def well_formed(learned: dict[str, Any]) -> bool:
    return all(
        name in CALLER_FACTS and type(value) is KINDS[CALLER_FACTS[name]]
        for name, value in learned.items()
    )


def test_the_table_of_what_callers_say_is_learned() -> None:
    wrong = []
    for line in CASES:
        if not line or line.startswith("#"):
            continue
        asked, said, wanted = (cell.strip() for cell in line.split("|"))
        learned = learn(said, "en", None if asked == "-" else asked)
        facts = json.loads(wanted.lstrip("~"))
        if wanted.startswith("~"):
            right = all(learned.get(name) == value for name, value in facts.items())
        else:
            right = learned == facts
        if not right:
            wrong.append((asked, said, learned, wanted))
    assert not wrong


@pytest.mark.parametrize("text", ["", "   ", "?!", "🙂", "\x00", "the", "请"])
def test_nothing_said_is_nothing_learned(text: str) -> None:
    assert learn(text, "en", "ask_count") == {}


@pytest.mark.parametrize(
    "text",
    [
        "is it safe for four people",
        "what if there were five of us",
        "yesterday three people were stuck",
        "can two people fit",
        "the other day my mother was hurt in here",
        "si hubiera tres personas",
        "如果有三个人呢",
        "上次有两个人受伤",
    ],
)
def test_supposed_asked_and_past_things_are_no_facts(text: str) -> None:
    learned = learn(text, "en", None)
    assert "people" not in learned
    assert "injured" not in learned


@given(st.integers(1, 20))
def test_a_count_in_digits_reads_back(count: int) -> None:
    assert learn(f"there are {count} of us", "en", None)["people"] == count
    assert learn(str(count), "en", "ask_count")["people"] == count
    assert learn(f"somos {count}", "es", None)["people"] == count
    assert learn(f"我们{count}个人", "zh", None)["people"] == count


@given(st.text("0123456789", min_size=9, max_size=12))
def test_a_dictated_telephone_number_reads_back(digits: str) -> None:
    english = " ".join(ONES[int(digit)] for digit in digits)
    spanish = " ".join(CEROS[int(digit)] for digit in digits)
    chinese = "".join("零幺二三四五六七八九"[int(digit)] for digit in digits)
    for said in (english, spanish, chinese, digits, " ".join(digits)):
        assert learn(said, "en", "ask_callback")["callback_number"] == digits


@given(st.integers(1, 60))
def test_a_floor_reads_back(level: int) -> None:
    assert learn(f"we are on floor {level}", "en", None)["floor"] == str(level)
    assert learn(f"我们在{level}楼", "zh", None)["floor"] == str(level)
    assert learn(f"estamos en la planta {level}", "es", None)["floor"] == str(level)


@given(st.text(), QUESTIONS)
def test_any_text_gives_well_formed_facts(text: str, asked: str | None) -> None:
    assert well_formed(learn(text, "en", asked))


WORDS = " ".join(line.split("|")[1] for line in CASES if line.count("|") == 2).split()


@given(st.lists(st.sampled_from(WORDS), max_size=30), QUESTIONS)
def test_any_jumble_of_words_gives_well_formed_facts(words: list[str], asked: str | None) -> None:
    learned = learn(" ".join(words), "en", asked)
    assert well_formed(learned)
    assert set(learned.get("vulnerable", ())) <= set(VULNERABLE)
    assert set(learned.get("danger", ())) <= set(DANGERS)
    assert learned.get("injury", "pain") in INJURIES


def test_the_same_words_are_learned_the_same_twice() -> None:
    said = "there's three of us and my wife is pregnant"
    assert learn(said, "en", None) == learn(said, "en", None)
