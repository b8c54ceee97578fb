"""What one caller heard, taken apart: sentences of replies, phrases, people, words of other origin.

The replies are `responder/counted.py`'s, so each sentence says itself what it belongs to. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final

from callflow.lab.carrier.report import CallReport, Heard
from callflow.responder.phrases import generic
from callflow.responder.synthetic import SENTENCE, Counted

LANGUAGES: Final = ("en", "zh", "es")

_SPOKEN: Final = ("say", "gather", "relay")
_NAMED: Final = re.compile(r"Reply (?P<turn>\d+), part (?P<part>\d+) of")
_UNNAMED: Final = re.compile(
    "".join(f"(?:{part}" for part in ("R", "e", "p", "l", "y", r" \d*", ",", r" [part]*", r" \d*"))
    + "(?: o?f?)?"
    + ")?" * 8
    + ")"
)
"""What may be heard of a sentence before it can be told which one it is."""

_OPENS: Final = ("line", "disclosure", "disclosure_alerting")


class Sound(StrEnum):
    """What was heard."""

    PART = "part"
    """A whole sentence of a reply."""
    BEGUN = "begun"
    """The beginning of one: the line broke, or the caller spoke."""
    STILL_HERE = "still_here"
    """What is said when a line has broken: a sentence that broke off comes again behind it."""
    ASKED_AGAIN = "asked_again"
    """The caller is asked to say their words once more."""
    OPENING = "opening"
    """Words with which a call begins."""
    PHRASE = "phrase"
    """Any other sentence that is no reply."""
    PLAIN = "plain"
    """Words of a procedure: the ladder's rung below the responder."""
    HUMAN = "human"
    STOCK = "stock"
    """The carrier's own: something went wrong."""
    TONE = "tone"


@dataclass(frozen=True, slots=True)
class Event:
    """One sound. Times are those of the report: real seconds since the call began."""

    sound: Sound
    at_s: float
    after: int
    """How many turns the caller had begun by then."""
    said: Counted | None = None
    """PART."""
    turn: int = 0
    part: int = 0
    """PART, and BEGUN where so much of it was heard that it tells; 0 where not."""
    letters: int = 0
    """How many of them were heard."""
    cut: bool = False
    """The line fell silent right behind it, or in it."""
    until_s: float | None = None
    """None: to the end of the call."""


def listen(report: CallReport) -> list[Event]:
    """Everything that was heard, in order."""
    found = [event for heard in report.greeting for event in _events(heard, 0)]
    for count, turn in enumerate(report.turns, 1):
        found += [event for heard in turn.heard for event in _events(heard, count)]
    return found


def _events(heard: Heard, after: int) -> Iterator[Event]:
    if heard.kind in _SPOKEN:
        ends_s = heard.at_s if heard.until_s is None else heard.until_s
        speech = _Speech(heard.at_s, (ends_s - heard.at_s) / max(1, len(heard.text)), after)
        yield from speech.taken_apart(heard)
    else:
        sound = _UNSPOKEN.get(heard.kind, Sound.TONE)
        yield Event(sound, heard.at_s, after, until_s=heard.until_s)


_UNSPOKEN: Final = {"human": Sound.HUMAN, "stock": Sound.STOCK}


@dataclass(frozen=True, slots=True)
class _Speech:
    """Words that were heard from `at_s` on, each letter `letter_s` long."""

    at_s: float
    letter_s: float
    after: int

    def taken_apart(self, heard: Heard) -> Iterator[Event]:
        text, begin = heard.text, 0
        for found in SENTENCE.finditer(text):
            yield from self._others(text, begin, found.start(), cut=False)
            said, begin = Counted.of_match(found), found.end()
            cut = heard.cut and not text[begin:].strip()
            yield self._event(
                *(Sound.PART, found.start(), begin),
                cut=cut,
                said=said,
                turn=said.turn,
                part=said.part,
            )
        yield from self._others(text, begin, len(text), cut=heard.cut)

    def _others(self, text: str, begin: int, end: int, *, cut: bool) -> Iterator[Event]:
        """Phrases, the beginning of a sentence, or words of another origin."""
        while begin < end and text[begin].isspace():
            begin += 1
        rest = text[begin:end].rstrip()
        if not rest:
            return
        known = next((one for one in _phrases() if rest.startswith(one[0])), None)
        if known is not None:
            behind = begin + len(known[0])
            yield self._event(known[1], begin, behind)
            yield from self._others(text, behind, end, cut=cut)
        elif cut and _is_beginning(rest):
            named = _NAMED.match(rest)
            turn, part = (int(named["turn"]), int(named["part"])) if named else (0, 0)
            yield self._event(Sound.BEGUN, begin, end, cut=True, turn=turn, part=part)
        elif cut and any(phrase.startswith(rest) for phrase, _ in _phrases()):
            # A phrase that was cut off is a phrase all the same.
            yield self._event(Sound.PHRASE, begin, end, cut=True)
        else:
            yield self._event(Sound.PLAIN, begin, end, cut=cut)

    def _event(
        self,
        sound: Sound,
        begin: int,
        end: int,
        *,
        cut: bool = False,
        said: Counted | None = None,
        turn: int = 0,
        part: int = 0,
    ) -> Event:
        at_s, until_s = (self.at_s + self.letter_s * letter for letter in (begin, end))
        return Event(sound, at_s, self.after, said, turn, part, end - begin, cut, until_s)


def _is_beginning(rest: str) -> bool:
    """True for the beginning of a sentence of a reply, long enough to tell which one or not."""
    return _NAMED.match(rest) is not None or _UNNAMED.fullmatch(rest) is not None


@cache
def _phrases() -> tuple[tuple[str, Sound], ...]:
    """Every sentence that is said without a procedure, longest first."""
    sounds = {"still_here": Sound.STILL_HERE, "say_again": Sound.ASKED_AGAIN}
    sounds |= dict.fromkeys(_OPENS, Sound.OPENING)
    found = {
        text: sounds.get(name, Sound.PHRASE)
        for language in LANGUAGES
        for name, text in generic(language).items()
    }
    return tuple(sorted(found.items(), key=lambda one: -len(one[0])))
