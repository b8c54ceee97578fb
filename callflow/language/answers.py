"""What a plain yes or no says of the fact that was asked about.

A "no" answers where it stands by itself at the beginning: before a pause, a repetition, or a few
words that fit the question. "There is no fire" and "no respira" deny something of their own.
"""

from __future__ import annotations

from typing import Final

from callflow.language.lexicon import Match, shipped
from callflow.language.text import MARKS, Heard

# Nobody and nothing answer where people or things were asked about; not "are you inside?".
_OF_THINGS: Final = frozenset(("injured", "danger", "vulnerable", "people", "lights"))
_OF_PEOPLE: Final = frozenset(("injured", "vulnerable", "people"))
_SAID: Final = {
    "yes": True, "yes_phrase": True,
    "no": False, "no_phrase": False, "no_thing": False, "no_body": False,
}  # fmt: skip
_LONGEST: Final = 8

_Cues = dict[int, dict[str, int]]  # by first token: the section and its end


def plain_answer(heard: Heard, fact: str, elsewhere: set[int]) -> bool | None:
    """Return what a yes or no at the beginning of `heard` answers to a question about `fact`.

    Where the speaker corrects it ("no, yes"), the last one stands. `elsewhere`: the tokens that
    tell of other things; a "no" that runs into them says nothing, nor does a "yes" of injuries.
    None where nothing is answered.
    """
    cues: _Cues = {}
    for match in shipped("answers").find(heard):
        cues.setdefault(match.start, {})[match.section] = match.end
    reader = _Reader(heard, fact, elsewhere, cues)
    said: bool | None = None
    place = reader.after_openers(0)
    while (word := reader.word_at(place)) is not None and reader.stands(word):
        if said is False and word.section == "yes_phrase":
            break  # "no estoy" and "no, we are …" take nothing back
        said = _SAID[word.section]
        place = reader.after_openers(word.end)
    return said


class _Reader:
    def __init__(self, heard: Heard, fact: str, elsewhere: set[int], cues: _Cues) -> None:
        self._tokens, self._fact = heard.tokens, fact
        self._elsewhere, self._cues = elsewhere, cues

    def after_openers(self, place: int) -> int:
        """The first token from `place` on that is no opener, or that may be an answer alone."""
        while place < len(self._tokens):
            if self._tokens[place] in MARKS:
                place += 1
                continue
            word, end = self.word_at(place), self._cues.get(place, {}).get("opener", 0)
            if not end or (word is not None and self.stands(word)):
                return place
            place = end
        return place

    def word_at(self, place: int) -> Match | None:
        """The longest word at `place` that may answer this question."""
        found = [
            Match(section, place, end)
            for section, end in self._cues.get(place, {}).items()
            if section in _SAID and self._may_answer(section)
        ]
        return max(found, key=lambda match: match.end, default=None)

    def stands(self, word: Match) -> bool:
        """True when nothing behind `word` makes it a part of another statement."""
        end = self._clause_end(word.end)
        rest = range(word.end, end)
        if not rest:
            return True
        again = self.word_at(word.end)
        turned = _SAID[word.section] is False and again and again.section == "yes_phrase"
        if again is not None and not turned and self.stands(again):
            return True
        if word.section == "yes":
            return self._fact != "injured" or self._elsewhere.isdisjoint(rest)
        if len(rest) <= _LONGEST and self._fits(word.end, end):
            return True
        return (
            word.section == "no"
            and "subject" in self._cues.get(word.end, {})
            and self._elsewhere.isdisjoint(rest)
            and not any(self._denies(place) for place in rest)
        )

    def _may_answer(self, section: str) -> bool:
        if section == "no_body":
            return self._fact in _OF_PEOPLE
        return section != "no_thing" or self._fact in _OF_THINGS

    def _denies(self, place: int) -> bool:
        return any(section.startswith("no") for section in self._cues.get(place, {}))

    def _fits(self, place: int, end: int) -> bool:
        """True when the tokens from `place` to `end` are small words and words of the question."""
        reached = {place}
        for at in range(place, end):
            here = self._cues.get(at, {})
            if at in reached:
                reached |= {here[kind] for kind in ("close", f"fit:{self._fact}") if kind in here}
        return end in reached

    def _clause_end(self, place: int) -> int:
        while place < len(self._tokens) and self._tokens[place] not in MARKS:
            place += 1
        return place
