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


def unspoken(text: str, left_s: float, letters_per_s: float) -> str:
    """What of `text` cannot have been spoken when saying the rest of it takes `left_s` more.

    Whole sentences: one that broke off in the middle is said again, since half an instruction is
    none. Empty when there was time for all of it.
    """
    left_s -= EARSHOT_LETTERS / letters_per_s
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


def unplayed(text: str, played: int) -> str:
    """What of `text` is to be said again when its first `played` letters were heard: the sentence
    that broke off there, and all that comes after it."""
    begin = 0
    for sentence in _SENTENCE.findall(text):
        end = begin + len(sentence)
        if played < begin + len(sentence.rstrip()):
            break
        begin = end
    return text[begin:]


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
    heard: dict[int, int] = field(default_factory=dict)
    """How much of what was sent the carrier tells to have been heard, in letters."""
    tells: bool = False
    """The carrier tells at all: then what it has not told was not heard."""
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

    def left_s(self, now: float) -> float:
        """How long it takes to say what has been sent and not been said yet."""
        return max(0.0, self.quiet_at - now)

    def resumed(self, turn: int, text: str, since: int | None = None) -> None:
        """`text` of the reply to `turn` was sent before this socket opened, and heard as far as
        `since`, or as a whole."""
        self.sent[turn] = text
        self.heard[turn] = len(text) if since is None else since

    def played(self, text: str) -> tuple[int, int] | None:
        """These words were heard: of the reply to which turn, and how much of it was heard by now.
        None for a phrase that is no part of a reply."""
        self.tells = True
        words = text.strip()
        for turn in sorted(self.sent):
            sent, heard = self.sent[turn], self.heard.get(turn, 0)
            at = sent.find(words, heard) if words else -1
            # Some carriers tell the new words, some all of them.
            if at < 0 and len(words) > heard and sent.lstrip().startswith(words):
                at = sent.find(words)
            if at >= 0:
                self.heard[turn] = at + len(words)
                return turn, self.heard[turn]
        return None

    def interrupted(self, until: str, now: float) -> tuple[int, str] | None:
        """The caller spoke into it: in the reply to which turn, and what they had heard of it."""
        self.quiet_at = now
        for turn in sorted(self.sent, reverse=True):
            heard = heard_of(self.sent[turn], until)
            if heard is not None:
                self.cut.add(turn)
                return turn, heard
        return None
