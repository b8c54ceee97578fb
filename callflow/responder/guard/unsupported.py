"""Holds claims of help and times of arrival against what humans have recorded.

The service that is named decides which fact a claim takes. "Help" and "somebody" may be any of
them. Who was asked is not on the way yet: that takes a confirmed time. What no fact can support,
that they have arrived, stands under `unsupported` in the lexicon.

A length of time is innocent where it is asked for, where it has passed, and where it says how long
to press a button; all else is read as an arrival. What is vague ("a few minutes") has no minutes.

Answers that say nothing by themselves ("Sure, go ahead", "Ten", "不会的") mean what was asked. They
are written out and judged like any other sentence; what callers ask in words that
language/questions.py does not know is neither confirmed nor denied by a mere yes or no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal

from callflow.language.lexicon import longest_first
from callflow.responder.guard.rules import Rule, Rulebook
from callflow.responder.guard.sentence import Reading, normalised

CONFIRMED: Final = "dispatch.confirmed_with_eta"
# "Soon" is no lie where the time that was recorded is at most this many minutes.
SOON_MINUTES: Final = 10

_DISPATCH: Final = ("dispatch.requested", CONFIRMED)
_PEOPLE: Final = ("human.alert_started", "handover.started")
_SERVICES: Final[Mapping[str, tuple[str, ...]]] = {
    "engineer": _DISPATCH,
    "fire": ("emergency.fire.requested",),
    "ems": ("emergency.ems.requested",),
    "police": ("emergency.police.requested",),
    "person": _PEOPLE,
}
_ANY_HELP: Final = tuple(
    fact for service, facts in _SERVICES.items() if service != "person" for fact in facts
)
_HAN_DIGITS: Final = {
    **{char: value for value, char in enumerate("零一二三四五六七八九")}, "两": 2, "〇": 0
}  # fmt: skip
_HAN_NUMBER: Final = re.compile(r"[零〇一二两三四五六七八九十百几多数]+")
_HAN_VAGUE: Final = re.compile(r"[来多几数]")


def unsupported_claim(rule: Rule, reading: Reading, facts: Mapping[str, Any]) -> bool:
    """True when the sentence claims help that no fact supports."""
    return any(
        always or not _supported(reading, start, end, facts)
        for start, end, always in reading.caught(rule)
    )


def _supported(reading: Reading, start: int, end: int, facts: Mapping[str, Any]) -> bool:
    if reading.clause_has(start, end, "way") and not facts.get(CONFIRMED):
        return False
    named = [name for name in _SERVICES if reading.clause_has(start, end, name)]
    if not named:
        joining = reading.clause_has(start, end, "joining")
        return _one_of(_PEOPLE if joining else _ANY_HELP, facts)
    return all(_one_of(_SERVICES[name], facts) for name in named)


def _one_of(names: Iterable[str], facts: Mapping[str, Any]) -> bool:
    return any(bool(facts.get(name)) for name in names)


def unsupported_time(rule: Rule, reading: Reading, facts: Mapping[str, Any]) -> bool:
    """True when the sentence gives a time of arrival that differs from the recorded one."""
    eta = confirmed_minutes(facts)
    words = _time_words(reading.known)
    spans = [_span(found, words) for found in words.lengths.finditer(reading.text)]
    if any(not _innocent(span, reading) and not _agrees(span, eta) for span in spans):
        return True
    for start, end, always in reading.caught(rule):
        if any(span.start < end and start < span.end for span in spans):
            continue
        if always or eta is None:
            return True
        inside = [
            _value(found[0], words.numbers)
            for found in words.number.finditer(reading.text)
            if start <= found.start() < end
        ]
        if inside != [eta] and (inside or eta > SOON_MINUTES):
            return True
    return False


def confirmed_minutes(facts: Mapping[str, Any]) -> float | None:
    """Return the recorded minutes, or None where no human has confirmed any."""
    minutes = facts.get("eta_minutes")
    if not facts.get(CONFIRMED) or minutes is None or isinstance(minutes, bool):
        return None
    try:
        return float(minutes)
    except (TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class _Span:
    """A length of time at `text[start:end]`; `minutes` is None where nobody could say how many."""

    start: int
    end: int
    minutes: float | None
    unit: float


def _agrees(span: _Span, eta: float | None) -> bool:
    return eta is not None and span.minutes is not None and abs(span.minutes - eta) < 0.01


def _innocent(span: _Span, reading: Reading) -> bool:
    names = ["asked_time", "passed"]
    if span.unit < 1.0:
        names.append("holding")
    if reading.clause_has(span.start, span.end, "arrival"):
        # "Ten minutes" in "you have waited, they come in ten minutes" has not passed.
        names = ["asked_time"]
    return reading.clause_has(span.start, span.end, *names)


@dataclass(frozen=True, slots=True)
class _TimeWords:
    """How one language says numbers and lengths of time, and what its words are worth."""

    lengths: re.Pattern[str]
    number: re.Pattern[str]
    numbers: Mapping[str, float]
    units: Mapping[str, float]
    fixed: Mapping[str, float]


@lru_cache(maxsize=8)
def _time_words(known: Rulebook) -> _TimeWords:
    numbers, units, fixed = (
        {word: float(value) for word, value in known.tables[name].items()}
        for name in ("numbers", "units", "lengths")
    )
    one_unit, one_fixed = (longest_first(map(re.escape, words)) for words in (units, fixed))
    if not known.spaced:
        number = rf"(?:\d+(?:_\d+)?|{_HAN_NUMBER.pattern})"
        unit = rf"(?:来|多|几)?个?(?:半)?(?P<unit>{one_unit})"
        lengths = rf"(?P<fixed>{one_fixed})|(?P<number>{number}){unit}"
        return _TimeWords(re.compile(lengths), re.compile(number), numbers, units, fixed)
    joint = r"(?: and| y| or so| more| mas| o asi)?"
    one = rf"(?:\d+(?:_\d+)?|{longest_first(map(re.escape, numbers))})"
    number = rf"{one}(?:(?: and| y)? {one})*"
    lengths = (
        rf"(?<= )(?:(?P<fixed>{one_fixed})|"
        rf"(?P<number>{number}){joint}(?: \w+)? (?P<unit>{one_unit}))(?= )"
    )
    whole = re.compile(rf"(?<= ){number}(?= )")
    return _TimeWords(re.compile(lengths), whole, numbers, units, fixed)


def _span(found: re.Match[str], words: _TimeWords) -> _Span:
    start, end = found.span()
    if found["fixed"]:
        return _Span(start, end, words.fixed[found["fixed"]] or None, 1.0)
    unit = words.units[found["unit"]]
    number = _value(found["number"], words.numbers)
    if number is None or _HAN_VAGUE.search(found[0]):
        return _Span(start, end, None, unit)
    return _Span(start, end, (number + 0.5 * ("半" in found[0])) * unit, unit)


def _value(text: str, words: Mapping[str, float]) -> float | None:
    """Return the number that `text` spells, or None: a vague one ("a few" is 0 in the table)."""
    if _HAN_NUMBER.fullmatch(text):
        return _han_value(text)
    total = 0.0
    # "Unos quince" is fifteen; "unos minutos" is any number.
    plain = re.sub(r"^(?:unos|unas|some) (?=\S)", "", text)
    for part in re.sub(r" (?:and|y)(?= )", "", plain).split():
        if part.replace("_", "").isdecimal():
            if len(part) > 6:
                return None
            total = total * 10 ** len(part) + float(part.replace("_", "."))
        elif words.get(part, 0.0) == 0.0:
            return None
        elif words[part] >= 100 and total:
            total *= words[part]
        else:
            total += words[part]
    return total


def _han_value(text: str) -> float | None:
    if _HAN_VAGUE.search(text):
        return None
    total, digit = 0, 0
    for char in text:
        if char in _HAN_DIGITS:
            digit = _HAN_DIGITS[char]
        else:
            total += (digit or 1) * (10 if char == "十" else 100)
            digit = 0
    return float(total + digit)


# Written in front of the name of a rule: this answer is never right, whatever is known.
_NEVER: Final = "!"
_UNNAMED: Final = "other"
_GAP: Final = "{}"
_ELLIPTIC: Final = 6
"""So many words and marks answer by themselves, if none of them makes a sentence of its own."""
_MARKS: Final = re.compile(r"[,.?]")

_Kind = Literal["yes", "no", "amount"]
_OPPOSITE: Final[dict[_Kind, _Kind]] = {"yes": "no", "no": "yes", "amount": "amount"}


def unfit_answer(
    reading: Reading, said: str, asked: Sequence[str], judge: Callable[[str], str | None]
) -> str | None:
    """Return the rule that forbids a sentence as an answer, or None.

    `said` are the caller's last words and `asked` the names of the questions in them; `judge` says
    which rule forbids a sentence that is written out.
    """
    answer = _short_answer(reading)
    if answer is None:
        return None
    kind, alone = answer
    for meaning in _meanings(reading, kind, said, asked, alone):
        if meaning.startswith(_NEVER):
            return meaning[1:]
        if found := judge(meaning):
            return found
    return None


def _short_answer(reading: Reading) -> tuple[_Kind, bool] | None:
    """Return what a sentence answers and whether that is all it says; None for no short answer."""
    words = reading.known.answers
    text = reading.text
    light = words.light.fullmatch(text.lstrip(".").lstrip())
    first = next((part for part in _MARKS.split(text) if part.strip()), "").lstrip()
    agrees = words.yes.fullmatch(first) is not None
    if not (light or agrees or words.no_only.fullmatch(first)):
        elliptic = len(text.split()) <= _ELLIPTIC and not words.clause.search(text)
        return ("yes", True) if elliptic and "?" not in text and reading.known.spaced else None
    if any(pattern.regex.search(text) for pattern in words.unknowing):
        return None
    denies = words.no.search(text) is not None and not words.assent.search(text)
    if light:
        if agrees:
            return "yes", True
        if denies:
            return "no", True
        return ("amount" if words.amount.search(text) else "yes"), True
    if agrees:
        # "Yes, I know, but please do not": it is taken back. "All right, I am listening" assents
        # to nothing.
        return None if denies or words.mild.fullmatch(first) else ("yes", False)
    return "no", False


def _meanings(
    reading: Reading, kind: _Kind, said: str, asked: Sequence[str], alone: bool
) -> Iterator[str]:
    """Yield what the answer means, by each of the questions, written out."""
    known = reading.known
    words = known.answers
    heard = normalised(said, known)
    if not asked and alone and any(pattern.regex.search(heard) for pattern in words.asks):
        asked = (_UNNAMED,)
    for name in asked:
        means = words.means.get(name, {})
        turned = name in words.reversible and words.reversed.search(heard)
        # "Is it dangerous?" – "No problem": that denies.
        answer = kind if not turned or words.assent.search(reading.text) else _OPPOSITE[kind]
        meaning = means.get(answer, means.get("yes", "") if answer == "amount" else "")
        if _GAP in meaning:
            for amount in words.amount.findall(reading.text):
                yield meaning.replace(_GAP, amount)
        elif meaning:
            yield meaning
