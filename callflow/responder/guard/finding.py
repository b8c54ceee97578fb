"""Where a rule's patterns are found in a sentence, less what is denied or excused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from callflow.responder.guard.denial import denied
from callflow.responder.guard.lexicon import Lexicon, Rule
from callflow.responder.guard.pattern import Pattern
from callflow.responder.guard.wording import clause, whole


@dataclass(slots=True)
class Reading:
    """One sentence, as the rules of one language read it. Remembers which fields are in it."""

    text: str
    known: Lexicon
    _present: dict[str, bool] = field(default_factory=dict)

    def has(self, name: str) -> bool:
        """True when an entry of the field stands anywhere in the text."""
        found = self._present.get(name)
        if found is None:
            found = self.known.present[name].regex.search(self.text) is not None
            self._present[name] = found
        return found

    def may_match(self, pattern: Pattern) -> bool:
        """False when a field that the pattern needs is not in the text at all."""
        return all(self.has(name) for name in pattern.needs)

    def matches(self, pattern: Pattern) -> Iterator[tuple[int, int]]:
        """Yield the places where `pattern` is found."""
        if self.may_match(pattern):
            for found in pattern.regex.finditer(self.text):
                yield found.span()

    def clause_has(self, start: int, end: int, *names: str) -> bool:
        """True when one of the fields stands in the clause around `text[start:end]`."""
        part = clause(self.text, start, end)
        return any(self.has(name) and self.known.present[name].regex.search(part) for name in names)


def caught(rule: Rule, reading: Reading) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whatever the facts) of what the rule forbids in this sentence."""
    for pattern in rule.always:
        for start, end in reading.matches(pattern):
            yield start, end, True
    for patterns, whatever in ((rule.unsupported, True), (rule.catch, False)):
        for pattern in patterns:
            for start, end in reading.matches(pattern):
                if rule.denial and denied(reading.text, start, end, reading.known.language):
                    continue
                if not _excused(rule, reading, start, end):
                    yield start, end, whatever


def _excused(rule: Rule, reading: Reading, start: int, end: int) -> bool:
    for patterns, part in ((rule.excuse, clause), (rule.pardon, whole)):
        text = part(reading.text, start, end)
        if any(p.regex.search(text) for p in patterns if reading.may_match(p)):
            return True
    return False
