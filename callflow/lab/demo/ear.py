"""Compares what a caller heard with what the record says was said: once each, whole, in order.

A reply is heard in pieces. A piece must begin where the one before it ended; where the line broke
in between, the sentence that was broken off may be said again, and nothing more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from callflow.call.record import CallRecord
from callflow.lab.carrier.report import CallReport, Heard

_SENTENCE_END = re.compile(r"[.!?。！？…]+[\"'”’»)]*\s*")


@dataclass(frozen=True, slots=True)
class Piece:
    """Something that was heard of a reply. `broken`: the line broke, or the caller spoke, in it."""

    text: str
    broken: bool
    resumed: bool
    """It followed a phrase that is said when a line has broken."""


def pieces(report: CallReport, fillers: Sequence[str]) -> Iterator[Piece]:
    """What was heard of replies, in order, without the holding phrases."""
    for turn in report.turns:
        for heard in turn.heard:
            text = whole = _plain(heard.text)
            for filler in fillers:
                text = text.removeprefix(_plain(filler)).strip()
            # A holding phrase that was cut off is none of a reply either.
            if _counts(heard) and text and not any(f.startswith(text) for f in fillers):
                yield Piece(text, heard.cut, text != whole)


def misheard(
    report: CallReport, record: CallRecord, fillers: Sequence[str], slack: float = 0
) -> list[tuple[str, str]]:
    """What must not happen, as (`lost` or `repeated`, sentence). `fillers`: the holding phrases.

    `slack`: letters that a voice says in the tenth of a second by which nobody knows better where
    a line broke.
    """
    replies = [
        (entry.turn, _plain(entry.text), entry.heard is not None)
        for entry in record.conversation_thread
        if entry.role == "agent" and entry.turn > 0 and entry.text
    ]
    faults: list[tuple[str, str]] = []
    at = heard_to = 0
    broken = False
    for piece in pieces(report, fillers):
        found = _where(replies, at, heard_to, piece.text)
        if found is None:
            kind = "repeated" if any(piece.text in text for _, text, _ in replies) else "lost"
            faults.append((kind, f"heard out of its place: {piece.text[:60]!r}"))
            continue
        index, start = found
        if index > at:
            at, heard_to, broken = index, 0, False
        turn, text, _ = replies[at]
        again = heard_to - start
        mended = broken or piece.resumed
        if again > 0 and not (mended and _only_the_broken_sentence(text, start, heard_to - slack)):
            faults.append(("repeated", f"{again} letters of the reply to turn {turn}"))
        if text[heard_to:start].strip() and not (mended and start - heard_to <= slack):
            faults.append(("lost", f"{start - heard_to} letters of the reply to turn {turn}"))
        heard_to, broken = max(heard_to, start + len(piece.text)), piece.broken
    return faults


def _where(
    replies: Sequence[tuple[int, str, bool]], at: int, heard_to: int, text: str
) -> tuple[int, int] | None:
    """Which reply, not before `at`, the words are from, and where in it they begin.

    Replies may begin alike: once one has been heard to its end, its beginning is the next one's.
    """
    heard_whole = at < len(replies) and heard_to >= len(replies[at][1])
    if heard_whole and at + 1 < len(replies) and replies[at + 1][1].startswith(text):
        return at + 1, 0
    for index in range(at, len(replies)):
        whole = replies[index][1]
        start = whole.find(text, heard_to if index == at else 0)
        if start < 0 and index == at:
            start = whole.rfind(text)
        if start >= 0:
            return index, start
    return None


def _only_the_broken_sentence(text: str, start: int, heard_to: float) -> bool:
    """True when everything that was said again belongs to the sentence that broke off."""
    ends = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    begin = max(end for end in ends if end < heard_to or end == 0)
    return start >= begin


def _counts(heard: Heard) -> bool:
    return heard.kind in ("gather", "relay") and not heard.filler and bool(heard.text.strip())


def _plain(text: str) -> str:
    return " ".join(text.split())
