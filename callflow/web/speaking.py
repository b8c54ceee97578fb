"""What one relay socket has sent to be spoken, and how much of it a caller can have heard.

The carrier speaks what it is sent, one after the other, and tells us only of an interruption what
was heard. For the rest we know how long it takes to say so many letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SENTENCE = re.compile(r".*?(?:[.!?。！？…]+[\"'”’»)]*\s*|$)", re.DOTALL)
_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")

WIDE_LETTERS = 3.0
"""A Chinese letter takes as long to say as so many Latin ones."""


EARSHOT_LETTERS = 4
"""A sentence that lacks no more than these counts as heard: clocks and wires are no more exact."""


def spoken_s(text: str, letters_per_s: float) -> float:
    """How long it takes to say `text`, s."""
    wide = len(_WIDE.findall(text))
    return (len(text) - wide + wide * WIDE_LETTERS) / letters_per_s


def unheard(text: str, since_s: float, letters_per_s: float) -> str:
    """What of `text`, whose last part was sent `since_s` ago, cannot have been spoken by now.

    Whole sentences: one that broke off in the middle is said again, since half an instruction is
    none. Empty when there was time for all of it.
    """
    left_s = spoken_s(text, letters_per_s) - since_s - EARSHOT_LETTERS / letters_per_s
    if left_s <= 0:
        return ""
    sentences = [found for found in _SENTENCE.findall(text) if found]
    tail: list[str] = []
    for sentence in reversed(sentences):
        if left_s <= 0:
            break
        tail.insert(0, sentence)
        left_s -= spoken_s(sentence, letters_per_s)
    return "".join(tail)


def heard_of(sent: str, until: str) -> str | None:
    """How much of `sent` was heard when the carrier says that `until` was spoken last; None when
    those words are not from it (a holding phrase was interrupted)."""
    until = until.strip()
    if not until:
        return ""
    found = sent.find(until)
    return None if found < 0 else sent[: found + len(until)]


@dataclass
class Spoken:
    """What was sent for each turn by this socket. Times are monotonic, s."""

    letters_per_s: float
    sent: dict[int, str] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    last_turn: int = 0
    quiet_at: float = 0.0
    """When the caller will have heard everything that was sent."""

    def said(self, turn: int, text: str, now: float) -> None:
        """`text` more of the reply to `turn` was sent."""
        self.sent[turn] = self.sent.get(turn, "") + text
        self.last_turn = turn
        self.aloud(text, now)

    def aloud(self, text: str, now: float) -> None:
        """Something was sent to be spoken, part of a reply or not."""
        self.quiet_at = max(self.quiet_at, now) + spoken_s(text, self.letters_per_s)

    def interrupted(self, until: str, now: float) -> tuple[int, str] | None:
        """The caller spoke into it: in the reply to which turn, and what they had heard of it."""
        self.quiet_at = now
        for turn in sorted(self.sent, reverse=True):
            heard = heard_of(self.sent[turn], until)
            if heard is not None:
                self.cut.add(turn)
                return turn, heard
        return None
