"""Finds what a question is about by the words that stand in it, in whatever order.

Callers ask in more ways than phrases can be listed, and recognisers leave words out. So a stretch
that has the form of a question (`lexicons/question_forms.txt`) is looked through for the words of
what callers ask (`lexicons/question_topics.txt`); a long word may have one letter wrong.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import product
from typing import Final

from callflow.language.lexicon import load_lexicon
from callflow.language.text import MARKS, Tokens, is_han, lexicon_lines, listed

UNLISTED: Final = "other"
"""What is asked, but in no list: answered by saying so."""

NEAR: Final = 9
_NEAR_HAN: Final = 14
"""So many words (characters) a question is long at the most."""
_OPENERS: Final = frozenset(
    listed(
        "so and but ok okay please or no yes well then now also hey hello right y pero o vale si "
        "oiga entonces ya yeah just sorry look listen mate bueno oye"
    )
)
_BEFORE: Final = 2
_AT_ONCE: Final = 4
_DENYING: Final = frozenset(("no", "nunca", "不"))
_LONG: Final = 6
_REMEMBERED: Final = 4_096
_PREFIX: Final = 3
_OF_ADVICE: Final = (
    "may_",
    "pull_",
    "should_",
    "how_b",
    "how_u",
    "how_f",
    "how_c",
    "how_m",
    "how_p",
)
_Where = dict[int, list[int]]  # the places of the words of a group


@dataclass(frozen=True, slots=True)
class _Rule:
    topic: str
    groups: tuple[int, ...]
    needed: frozenset[int]
    without: tuple[int, ...]
    bare: bool


class _Topics:
    """The rules, and the groups that a word belongs to: whole, by its beginning, and in Chinese."""

    def __init__(self) -> None:
        self.rules: list[_Rule] = []
        self.whole: dict[tuple[str, ...], list[int]] = defaultdict(list)
        self.begun: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        self.han: dict[str, list[int]] = defaultdict(list)
        self.long: dict[str, set[str]] = defaultdict(set)
        self._remembered = lru_cache(maxsize=_REMEMBERED)(self._meant)
        count, topic = 0, ""
        for line in lexicon_lines("question_topics"):
            if line.startswith("["):
                topic = line[1:-1]
            elif line:
                wanted, _, unwanted = line.removeprefix("!").partition(" - ")
                groups = [*wanted.split("+"), *filter(None, [unwanted])]
                for number, group in enumerate(groups, count):
                    for word in group.split("|"):
                        self._add(word.strip(), number)
                last = count + len(groups)
                numbers = tuple(range(count, last))
                split = len(wanted.split("+"))
                needed = frozenset(numbers[:split])
                self.rules.append(
                    _Rule(topic, numbers[:split], needed, numbers[split:], line.startswith("!"))
                )
                count = last

    def _add(self, word: str, group: int) -> None:
        if is_han(word) or word.isdecimal():
            self.han[word].append(group)
            if not word.isdecimal():
                return
        parts = tuple(word.split("_"))
        if word.endswith("*"):
            self.begun[parts[0].rstrip("*")[:_PREFIX]].append((parts, group))
        else:
            self.whole[parts].append(group)
        for part in parts:
            if len(part) >= _LONG and not part.endswith("*"):
                self.long[part[0]].add(part)

    def places(self, tokens: Sequence[str]) -> _Where:
        """Where the words of each group stand."""
        words = [self._remembered(token) for token in tokens]
        found: _Where = defaultdict(list)
        for at, word in enumerate(words):
            for size in (1, 2, 3, 4):
                for group in self.whole.get(tuple(words[at : at + size]), ()):
                    found[group].append(at)
            for parts, group in self.begun.get(word[:_PREFIX], ()):
                if _fits(parts, words[at : at + len(parts)]):
                    found[group].append(at)
        if any(map(is_han, tokens)):
            letters = "".join(
                token if is_han(token) or token.isdecimal() else " " * len(token)
                for token in tokens
            )
            at_letter = [at for at, token in enumerate(tokens) for _ in token]
            for key, groups in self.han.items():
                place = letters.find(key)
                while place >= 0:
                    for group in groups:
                        found[group].append(at_letter[place])
                    place = letters.find(key, place + 1)
        return found

    def among(self, where: _Where) -> list[_Rule]:
        """The rules of which every group has a word that stands somewhere."""
        return [rule for rule in self.rules if where.keys() >= rule.needed]

    def _meant(self, token: str) -> str:
        """The word itself, or the one long word that is a letter away from it."""
        begun = any(_fits(parts[:1], [token]) for parts, _ in self.begun.get(token[:_PREFIX], ()))
        if len(token) < _LONG or begun or token in self.long[token[0]]:
            return token
        if token.endswith("s") and token[:-1] in self.long[token[0]]:
            return token[:-1]
        near = [word for word in self.long[token[0]] if _is_one_off(token, word)]
        return near[0] if len(near) == 1 else token


def _fits(parts: Sequence[str], words: Sequence[str]) -> bool:
    return len(parts) == len(words) and all(
        word.startswith(part[:-1]) if part.endswith("*") else word == part
        for part, word in zip(parts, words, strict=True)
    )


def _is_one_off(one: str, other: str) -> bool:
    """True when one letter is left out, put in, or another."""
    if abs(len(one) - len(other)) > 1:
        return False
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), None)
    if same is None:
        return True
    return one[same + 1 :] in (other[same:], other[same + 1 :]) or one[same:] == other[same + 1 :]


def topics(heard: Tokens) -> list[tuple[int, str]]:
    """Return what is asked by place, in the order of speech; UNLISTED where that is in no list."""
    sure, advice, states = _forms(heard)
    where = _rules().places(heard.tokens)
    rules = _rules().among(where)
    clauses = _clauses(heard.tokens)
    # A recogniser's commas stand anywhere, so what is found in no clause is looked for over all.
    for before, bounds in ((_BEFORE, clauses), (NEAR, clauses), (NEAR, [0] * len(clauses))):
        if named := _named(rules, heard, where, (sure, advice, states), before, bounds):
            return named
    return [(sure[0], UNLISTED)] if sure else []


def _named(
    rules: Sequence[_Rule],
    heard: Tokens,
    where: _Where,
    forms: Sequence[Sequence[int]],
    before: int,
    bounds: Sequence[int],
) -> list[tuple[int, str]]:
    """What the words are about; `before`: so many of them may stand before the form."""
    sure, advice, states = forms
    found: dict[str, tuple[int, int, int]] = {}
    for rule in rules:
        span = _nearest([where[group] for group in rule.groups], heard.tokens, bounds)
        if span is None or any(
            span[0] <= at <= span[1] + _BEFORE
            for group in rule.without
            for at in where.get(group, ())
        ):
            continue
        at_work = [*sure, *advice, *(() if rule.topic.startswith(_OF_ADVICE) else states)]
        if rule.bare or any(_reaches(at, span, heard.tokens, bounds, before) for at in at_work):
            # What stands right behind the form of the question is what it is about.
            at_once = any(at <= span[0] <= at + _AT_ONCE for at in at_work)
            worth = len(rule.groups) + at_once + rule.bare
            if rule.topic not in found or worth > found[rule.topic][2]:
                found[rule.topic] = (*span, worth)
    best = max((worth for *_, worth in found.values()), default=0)
    return sorted(
        (low, topic) for topic, (low, _, worth) in found.items() if worth == best or worth > 1
    )


def _clauses(tokens: Sequence[str]) -> list[int]:
    """The number of the clause that each token stands in."""
    clause, found = 0, []
    for token in tokens:
        found.append(clause)
        clause += token in MARKS
    return found


def _reach(tokens: Sequence[str], at: int) -> int:
    return _NEAR_HAN if is_han(tokens[at]) else NEAR


def _nearest(
    places: Sequence[list[int]], tokens: Sequence[str], clauses: Sequence[int]
) -> tuple[int, int] | None:
    """The shortest stretch of one clause in which all of these stand near to one another."""
    spans = ((min(chosen), max(chosen)) for chosen in product(*places))
    near = [
        (low, high)
        for low, high in spans
        if high - low <= _reach(tokens, low) and clauses[low] == clauses[high]
    ]
    return min(near, key=lambda span: (span[1] - span[0], span), default=None)


def _reaches(
    form: int,
    span: tuple[int, int],
    tokens: Sequence[str],
    clauses: Sequence[int],
    before: int,
) -> bool:
    """True when a form of a question stands before these words (in Chinese: near to them)."""
    low, high = span
    if is_han(tokens[form]):
        return min(abs(low - form), abs(high - form)) <= _NEAR_HAN and clauses[form] == clauses[low]
    return form - before <= high <= form + NEAR + 1 and clauses[form] == clauses[low]


def _forms(heard: Tokens) -> tuple[list[int], list[int], list[int]]:
    """Where words have the form of a question: surely, perhaps, and perhaps one of facts."""
    matches = load_lexicon("question_forms").find(heard)
    telling = [(m.start, m.end) for m in matches if m.section == "tells"]
    asked = [m.end for m in matches if m.section == "asks of"]
    found: dict[str, list[int]] = {"asks": [], "may ask": [*asked], "is it": []}
    for match in matches:
        kind = match.section.removeprefix("start ")
        if kind != match.section and not _begins(heard.tokens, match.start):
            continue
        told = any(start <= match.start <= end for start, end in telling)
        if told and not any(end <= match.start for end in asked):
            continue
        word, before = heard.tokens[match.start], heard.tokens[max(0, match.start - 1)]
        denied = before in _DENYING and (kind != "asks" or word.startswith(("pued", "pod")))
        if kind in found and not denied:
            found[kind].append(match.start)
    said = heard.tokens
    # "Nos tiramos": Spanish asks by the voice alone.
    we_do = [at for at, word in enumerate(said) if word.endswith(("amos", "emos", "imos"))]
    twice = [
        at
        for at in range(len(said) - 2)
        if said[at] == said[at + 2] and said[at + 1] in ("不", "没")  # 走不走
    ]
    marks = [max(0, at - 1) for at, token in enumerate(heard.tokens) if token == "?"]
    return [*found["asks"], *marks, *twice], [*found["may ask"], *we_do], found["is it"]


def _begins(tokens: Sequence[str], at: int) -> bool:
    return at == 0 or tokens[at - 1] in MARKS or tokens[at - 1] in _OPENERS


@cache
def _rules() -> _Topics:
    return _Topics()
