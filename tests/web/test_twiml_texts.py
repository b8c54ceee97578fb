"""Whatever a reply is made of, its words reach the carrier in a document that it can read."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from xml.etree import ElementTree

from tests.exchange import Exchange, Line

MOST_SAY_CHARS = 4_096
MOST_BYTES = 64_000
LONG = 20_000

CONTROLS = "".join(chr(code) for code in (*range(0x20), *range(0x7F, 0xA0)))

TEXTS = {
    "emoji": "Help is near 👍🏽 👨‍👩‍👧‍👦 🇬🇧 🛗.",
    "controls": "".join(f"word{control}" for control in CONTROLS) + "end",
    "markup": """Press <1> & "hold" </Say></Response><Dial>999</Dial> ]]> <!-- &amp; '-->""",
    "right to left": "ابقوا في المصعد. \u202eالمساعدة\u202c في الطريق. הישארו במעלית.",
    "chinese": "请留在电梯里。不要强行开门，救援人员正在路上！您那边有几个人？",
    "combining": "e\u0301 n\u0303 Z\u0351\u036b\u0343 \u200b\u200d\ufeff ﷽",
    "last of the planes": "\U0001f600 \U00020000 \U000e0041 \U0010fffd \ue000",
    "noncharacters": "one\ufffetwo\uffffthree\ufdd0four\U0001fffffive",
}

LONG_TEXTS = {
    "sentences": ("Stay inside the lift. " * LONG)[:LONG].strip(),
    "words": ("inside " * LONG)[:LONG].strip(),
    "one word": "a" * LONG,
    "markup": "<&>" * (LONG // 3),
    "chinese": ("请留在电梯里。" * LONG)[:LONG],
    "chinese without an end": "请" * LONG,
    "right to left": ("ابقوا في المصعد. " * LONG)[:LONG].strip(),
    "emoji": "👍" * LONG,
    "controls": "a\x00" * (LONG // 2),
}


def _spoken(text: str) -> str:
    """`text` with a space for what XML forbids, controls, noncharacters."""

    def lost(char: str) -> bool:
        code = ord(char)
        return (
            unicodedata.category(char) in ("Cc", "Cs")
            or code & 0xFFFE == 0xFFFE
            or 0xFDD0 <= code <= 0xFDEF
        )

    return "".join(" " if lost(char) else char for char in text)


def _says(text: str) -> list[str]:
    """The Says of a document, each within the carrier's limits."""
    assert len(text.encode()) <= MOST_BYTES
    says = [say.text or "" for say in ElementTree.fromstring(text).iter("Say")]
    assert all(0 < len(say) <= MOST_SAY_CHARS for say in says)
    return says


def _calls(exchange: Exchange, texts: Mapping[str, str]) -> Iterator[tuple[Line, str]]:
    """A call for each text."""
    for number, text in enumerate(texts.values(), 1):
        line = exchange.arrived(call_sid=f"CA{number}")
        yield line, text


def test_the_words_of_a_reply_reach_the_carrier_unchanged(exchange: Exchange) -> None:
    for line, text in _calls(exchange, TEXTS):
        with exchange.worker(text):
            answer = line.says(1, "we are stuck")
        assert answer.names == ["Gather", "Redirect"]
        (gather, _) = answer.verbs
        assert {inner.tag for inner in gather} == {"Say"}
        assert " ".join(_says(answer.text)).split() == _spoken(text).split()


def test_a_very_long_reply_is_said_in_parts_that_the_carrier_takes(exchange: Exchange) -> None:
    for line, text in _calls(exchange, LONG_TEXTS):
        with exchange.worker(text):
            answer = line.says(1, "we are stuck")
        assert answer.names == ["Gather", "Redirect"]
        says = _says(answer.text)
        assert len(says) > 1
        if text in (LONG_TEXTS["sentences"], LONG_TEXTS["words"], LONG_TEXTS["right to left"]):
            assert " ".join(says).split() == text.split(), "a word is cut in two"
        # A word or a script without spaces may be cut: between two Says is a space at most.
        spoken, whole = "".join("".join(says).split()), "".join(_spoken(text).split())
        assert whole.startswith(spoken)
        # What is more than a document may hold is kept, and not said.
        assert spoken == whole or len(answer.text.encode()) > 45_000
        assert exchange.parts.record(line.call_sid).said(1, "agent") == text


def test_a_reply_that_comes_piece_by_piece_is_the_same_reply(exchange: Exchange) -> None:
    for line, text in _calls(exchange, TEXTS):
        with exchange.worker(*text):
            answer = line.says(1, "we are stuck")
        assert " ".join(_says(answer.text)).split() == _spoken(text).split()


def test_what_a_caller_said_may_ride_in_an_address_and_be_answered(exchange: Exchange) -> None:
    for line, text in _calls(exchange, TEXTS):
        with exchange.worker("Stay inside."):
            answer = line.post("/voice/wait", {"n": 1, "k": 1, "since": 1, "u": text})
        assert answer.says == "Stay inside."
        kept = exchange.parts.record(line.call_sid).said(1, "caller") or ""
        assert _spoken(kept).split() == _spoken(text).split()
