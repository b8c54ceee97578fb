"""Reads one sentence as the rules do: plain forms, where patterns are found, what is denied.

`.` ends a statement, `?` a question, `,` a clause; each stands as a word of its own where the
script puts blanks between words. What is replaced (contractions, words that only look like a
denial, politeness between commas) stands in the lexicon.

A denial reaches to the end of its clause, over "or" but not over "but", "then" or "and": "don't
force the doors" is good advice. "Don't stop pulling" denies twice, and "don't open them unless …"
or "… too hard" forbids nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from callflow.language.lexicon import CLAUSE_MARKS, Pattern
from callflow.language.text import simplified, without_accents
from callflow.responder.guard.rules import Rule, Rulebook

_END: Final = re.compile(r"\s*([.?!。…])[.?!。…]*\s*")
# The only use of a full stop within a word that a caller hears: 3.15, 2.5.
_DECIMAL: Final = re.compile(r"(?<=\d)[.:](?=\d)")
_PAUSE: Final = re.compile(r"\s*[,;:()\"“”«»—–¿¡]+\s*|\s+-+\s+")
_APOSTROPHE: Final = re.compile(r"[’‘ʼ`´]")
_GLUE: Final = re.compile(r"[-/·]")
_BLANKS: Final = re.compile(r"\s+")
_MARKS_IN_A_ROW: Final = re.compile(r"[,.?](?: ?[,.?])* ?")
_SENTENCE_MARKS: Final = ".?"
# A list before a comma is no longer than this: "don't push, pull or pry".
_LONGEST_LISTED: Final = 60


class Reading:
    """One sentence, as the rules of one language read it. Remembers which fields are in it."""

    def __init__(self, text: str, known: Rulebook) -> None:
        """Take a text that `normalised` gave, or a clause of one."""
        self.text = text
        self.known = known
        self._present: dict[str, bool] = {}

    def has(self, name: str) -> bool:
        """True when an entry of the field stands anywhere in the text."""
        found = self._present.get(name)
        if found is None:
            found = self._present[name] = self.known.present[name].search(self.text) is not None
        return found

    def may_match(self, pattern: Pattern) -> bool:
        """False when a field that the pattern needs is not in the text at all."""
        return all(self.has(name) for name in pattern.needs)

    def clause_has(self, start: int, end: int, *names: str) -> bool:
        """True when one of the fields stands in the clause around `text[start:end]`."""
        part = _clause(self.text, start, end)
        return any(self.has(name) and self.known.present[name].search(part) for name in names)

    def caught(self, rule: Rule) -> Iterator[tuple[int, int, bool]]:
        """Yield (start, end, whatever the facts) of what the rule forbids in this sentence."""
        for pattern in rule.always:
            for start, end in self._matches(pattern):
                yield start, end, True
        for patterns, whatever in ((rule.unsupported, True), (rule.catch, False)):
            for pattern in patterns:
                for start, end in self._matches(pattern):
                    if rule.denial and denied(self.text, start, end, self.known):
                        continue
                    if not self._excused(rule, start, end):
                        yield start, end, whatever

    def _matches(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        if self.may_match(pattern):
            for found in pattern.regex.finditer(self.text):
                yield found.span()

    def _excused(self, rule: Rule, start: int, end: int) -> bool:
        for patterns, part in ((rule.excuse, _clause), (rule.pardon, _sentence)):
            text = part(self.text, start, end)
            if any(each.regex.search(text) for each in patterns if self.may_match(each)):
                return True
        return False


def lower(text: str) -> str:
    """Return `text` in lower case, without accents and variants of width."""
    return without_accents(text).casefold()


def normalised(sentence: str, known: Rulebook) -> str:
    """Return what the rules of `known` look at; it begins and ends with a mark."""
    text = _APOSTROPHE.sub("'", lower(sentence))
    text = _DECIMAL.sub("_", text)
    blank = " " if known.spaced else ""
    text = _END.sub(lambda end: f"{blank}{'?' if '?' in end[0] else '.'}{blank}", text)
    text = _PAUSE.sub(f"{blank},{blank}", text)
    if known.spaced:
        text = " " + _BLANKS.sub(" ", _GLUE.sub(" ", text)).strip() + " "
    else:
        text = _BLANKS.sub("", text).translate(simplified())
    for pattern, new in known.replacements:
        text = pattern.sub(new, text)
    text = f".{blank}{text.strip()}{blank}.{blank}"
    return _MARKS_IN_A_ROW.sub(lambda marks: next(m for m in "?.," if m in marks[0]) + blank, text)


def denied(text: str, start: int, end: int, known: Rulebook) -> bool:
    """True when what stands at `text[start:end]` is forbidden by the sentence itself."""
    # The last word of what is caught must not be cut off from the blank that ends it.
    segment = text[_reach(text, start, known) : end]
    last = _last(known.present["denial"], segment)
    stop = _last(known.present["stopping"], segment)
    if last is None and stop is None:
        return False
    behind = " " + segment[min(found.end() for found in (last, stop) if found) :]
    if last is not None and (stop is None or last.start() > stop.start()):
        behind = " " + segment[last.end() :]
    elif known.denied_twice.search(segment):
        return False
    if known.present["breaks"].search(known.pair.sub("", behind)):
        return False
    sentence = _sentence(text, start, end)
    after = " " + sentence[sentence.find(text[start:end]) :]
    lifted = known.present["unless"].search(sentence) or known.present["weakened"].search(after)
    return not lifted


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(reversed(list(pattern.finditer(text))), None)


def _reach(text: str, start: int, known: Rulebook) -> int:
    """Return where the clause begins; in a list ("don't push, pull or pry") the list's clause."""
    left = _mark_before(text, CLAUSE_MARKS, start)
    while left > 0 and text[left] == "," and len(text[left + 1 : start].split()) <= 1:
        before = _mark_before(text, CLAUSE_MARKS, left)
        listed = text[before + 1 : left]
        if not known.present["either"].search(text[left:]) or len(listed) > _LONGEST_LISTED:
            break
        if not known.present["denial"].search(listed) and "," not in text[max(before, 0)]:
            break
        left = before
    return max(left, 0)


def _mark_before(text: str, marks: str, place: int) -> int:
    return max(text.rfind(mark, 0, place) for mark in marks)


def _mark_after(text: str, marks: str, place: int) -> int:
    """The first mark from `place` on, or the last letter."""
    return min((at for mark in marks if (at := text.find(mark, place)) >= 0), default=len(text) - 1)


def _clause(text: str, start: int, end: int) -> str:
    """Return the clause, or the clauses, that hold `text[start:end]`, with their marks.

    It ends with `?` where its sentence does, for "is it the pit, the roof or the car?" asks thrice.
    """
    left = max(_mark_before(text, CLAUSE_MARKS, start), 0)
    right = _mark_after(text, CLAUSE_MARKS, end)
    asks = text[_mark_after(text, _SENTENCE_MARKS, right)] == "?"
    return text[left:right] + ("?" if asks else text[right]) + (" " if " " in text else "")


def _sentence(text: str, start: int, end: int) -> str:
    """Return the sentence, or the sentences, that hold `text[start:end]`, with their marks."""
    left = max(_mark_before(text, _SENTENCE_MARKS, start), 0)
    right = _mark_after(text, _SENTENCE_MARKS, end)
    return text[left : right + 1] + (" " if " " in text else "")
