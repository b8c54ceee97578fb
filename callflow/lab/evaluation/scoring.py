"""Turns labels and answers into numbers, and holds bounds against them.

Pure: the same pairs give the same figures. Each utterance is judged by the finest label that it
has: a scenario where it names one, else a group, to which any scenario of that group is a right
answer. A number that nothing was counted for is None: no recall of danger is better than 100 % of
nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

from callflow.errors import CallflowError, did_you_mean
from callflow.lab.evaluation.dataset import Labelled
from callflow.lab.percentiles import Percentiles

_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Found:
    """A chunk that was retrieved, with the scenario and the group that it belongs to."""

    chunk_id: str
    scenario: str
    group: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What was made of one utterance.

    `scenario` is the likeliest, with its `probability`, None where nothing spoke for any.
    `worked_on` is what a call that begins with these words is answered for: the gravest of what is
    likely or dangerous, None while that is unknown. `danger`: life is thought to be at risk.
    `found` are the chunks, best first.
    """

    scenario: str | None
    group: str | None
    probability: float
    worked_on: str | None
    worked_on_group: str | None
    danger: bool
    found: tuple[Found, ...]
    took_ms: float


Judged = tuple[Labelled, Answer]


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares from 0 to 1 of `n` utterances; the false alarms are a share of those without danger.

    `scenario_accuracy` is that of the likeliest scenario, `call_accuracy` of what the call is then
    worked on. Recall@k: the share of utterances with a right chunk among the first k. `mrr`: the
    mean of 1/rank of the first right chunk, 0 where none was found.
    """

    n: int
    scenario_accuracy: float | None
    call_accuracy: float | None
    danger_recall: float | None
    danger_false_alarms: float | None
    recall_at_1: float | None
    recall_at_3: float | None
    mrr: float | None

    def as_dict(self) -> dict[str, Any]:
        """For programs. Field names are a promise."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Confusion:
    """One label, how often it stood, how often it was answered rightly, and what it was taken for
    instead, the most frequent first; None stands for nothing that was understood."""

    label: str
    n: int
    right: int
    taken_for: tuple[tuple[str | None, int], ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A sentence that was judged wrongly, and the rule that was named; None: it was let pass."""

    where: str
    language: str
    sentence: str
    rule: str | None


@dataclass(frozen=True, slots=True)
class GuardFigures:
    """What the guard did with `own` sentences of the procedures and with those of a file.

    `own_caught` are false catches. `waiting` of the own sentences wait for a fact; `waiting_caught`
    were caught while it was not known, as they must. `forbidden`, `caught`, `harmless` and
    `harmless_caught` are of a file.
    """

    own: int = 0
    own_caught: int = 0
    waiting: int = 0
    waiting_caught: int = 0
    forbidden: int = 0
    caught: int = 0
    harmless: int = 0
    harmless_caught: int = 0
    mistakes: tuple[Mistake, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For programs. Field names are a promise; shares are null where nothing was tried."""
        return {
            "own_sentences": self.own,
            "false_catches": self.own_caught,
            "waiting_sentences": self.waiting,
            "waiting_caught": self.waiting_caught,
            "forbidden": self.forbidden,
            "caught": self.caught,
            "catch_rate": share(self.caught, self.forbidden),
            "harmless": self.harmless,
            "harmless_caught": self.harmless_caught,
            "false_catch_rate": share(self.harmless_caught, self.harmless),
        }


@dataclass(frozen=True, slots=True)
class ReplyFigures:
    """What the responder said: `n` replies of `sentences` together, `empty` ones where something
    should have been said, and the sentences that the guard would have caught."""

    n: int = 0
    sentences: int = 0
    empty: int = 0
    caught: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What came of it. `chunk_ids` are those of all chunks that could be found."""

    judged: tuple[Judged, ...]
    chunk_ids: frozenset[str]
    replies: ReplyFigures
    guard: GuardFigures


def right(labelled: Labelled, answer: Answer) -> bool:
    """True when the likeliest scenario is what the label says, or `also` right."""
    return answer.scenario is not None and _fits(labelled, answer.scenario, answer.group)


def rank(labelled: Labelled, found: Sequence[Found], known: Collection[str]) -> int | None:
    """Return the place (from 1) of the first right chunk, or None when there is none.

    Gold chunks that are among `known` are asked for themselves; where none is, any chunk of what
    the label names is right.
    """
    gold = set(labelled.gold) & set(known)
    for place, each in enumerate(found, start=1):
        if each.chunk_id in gold if gold else _fits(labelled, each.scenario, each.group):
            return place
    return None


def figures(judged: Sequence[Judged], known: Collection[str] = ()) -> Figures:
    """Return the numbers for these utterances; `known` are the ids of all chunks that there are."""
    at_risk = [answer.danger for labelled, answer in judged if labelled.danger is True]
    safe = [answer.danger for labelled, answer in judged if labelled.danger is False]
    ranks = [rank(labelled, answer.found, known) for labelled, answer in judged]
    return Figures(
        n=len(judged),
        scenario_accuracy=_mean(right(labelled, answer) for labelled, answer in judged),
        call_accuracy=_mean(
            answer.worked_on is not None
            and _fits(labelled, answer.worked_on, answer.worked_on_group)
            for labelled, answer in judged
        ),
        danger_recall=_mean(at_risk),
        danger_false_alarms=_mean(safe),
        recall_at_1=_mean(place is not None and place <= 1 for place in ranks),
        recall_at_3=_mean(place is not None and place <= 3 for place in ranks),
        mrr=_mean(1 / place if place else 0.0 for place in ranks),
    )


def by_language(judged: Sequence[Judged], known: Collection[str] = ()) -> dict[str, Figures]:
    """Return the numbers of each language that occurs, in alphabetical order."""
    languages = sorted({labelled.language for labelled, _ in judged})
    return {
        language: figures([pair for pair in judged if pair[0].language == language], known)
        for language in languages
    }


def by_group(judged: Sequence[Judged]) -> dict[str, float | None]:
    """Return the share of each group's utterances for which a scenario of that group was found."""
    groups = sorted({labelled.group for labelled, _ in judged})
    return {
        group: _mean(
            answer.group == group for labelled, answer in judged if labelled.group == group
        )
        for group in groups
    }


def confusions(judged: Sequence[Judged]) -> list[Confusion]:
    """Return the labels that were not always answered rightly, the most often missed first."""
    total = Counter(labelled.asked for labelled, _ in judged)
    wrong: dict[str, Counter[str | None]] = {}
    for labelled, answer in judged:
        if not right(labelled, answer):
            wrong.setdefault(labelled.asked, Counter())[answer.scenario] += 1
    found = [
        Confusion(label, total[label], total[label] - taken.total(), tuple(taken.most_common()))
        for label, taken in wrong.items()
    ]
    return sorted(found, key=lambda each: (each.right - each.n, each.label))


def share(part: int, whole: int) -> float | None:
    """Return `part` of `whole`, or None of nothing."""
    return round(part / whole, _DIGITS) if whole else None


def _mean(values: Iterable[float]) -> float | None:
    every = list(values)
    return round(sum(every) / len(every), _DIGITS) if every else None


def _fits(labelled: Labelled, scenario: str, group: str | None) -> bool:
    own = scenario == labelled.scenario if labelled.scenario else group == labelled.group
    return own or scenario in labelled.also or group in labelled.also


Side = Literal["floor", "ceiling"]

_SMALL_IS_GOOD: Final = (
    *("false", "latency_ms", "unknown"),
    *("caught_in_replies", "empty_replies", "harmless_caught", "asked_again", "forbidden_spoken"),
    *("late_human", "never_asked", "ended_wrongly", "moved", "wrong_procedure", "repeated"),
    *("mixed_address", "long_replies"),
)
"""Parts of the names of numbers that a floor would praise for being bad."""


class BoundError(CallflowError):
    """A bound that cannot be held against anything; nothing was measured."""

    def __init__(self, given: str, reason: str) -> None:
        self.given = given
        self.reason = reason
        super().__init__(f"{given}: {reason}")


@dataclass(frozen=True, slots=True)
class Bound:
    """A number of the report that must not be below (floor) or above (ceiling) a value."""

    name: str
    side: Side
    value: float

    @classmethod
    def of(cls, side: Side, given: str) -> Bound:
        """Read `NAME=VALUE`. Raises BoundError."""
        name, equals, text = (part.strip() for part in given.partition("="))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not name or not equals or not math.isfinite(value):
            raise BoundError(given, f"no {side}; write one like scenario_accuracy=0.85")
        small = any(part in name for part in _SMALL_IS_GOOD)
        if small and side == "floor":
            raise BoundError(given, "the smaller the better: hold it with --ceiling")
        return cls(name, side, value)

    def missed(self, report: Mapping[str, Any]) -> str | None:
        """Return what is wrong in one sentence, or None. Raises BoundError for an unknown name.

        A number that has no basis in these utterances keeps to no bound: what CI wants to be sure
        of was not measured.
        """
        numbers = dict(_numbers(report))
        if self.name not in numbers:
            hint = did_you_mean(self.name, numbers)
            raise BoundError(self.name, f"no number of the report{hint}")
        number = numbers[self.name]
        if number is None:
            return f"{self.name} has no basis in these utterances: its {self.side} is {self.value}"
        if self.side == "floor" and number < self.value:
            return f"{self.name} is {number}, below its floor of {self.value}"
        if self.side == "ceiling" and number > self.value:
            return f"{self.name} is {number}, above its ceiling of {self.value}"
        return None


def as_dict(result: Evaluation, *, wrong: bool = False) -> dict[str, Any]:
    """Return the whole report. Field names are a promise; null is a number without a basis.

    `wrong`: with the utterances that were wrongly answered, and what was made of them.
    """
    judged, known = result.judged, result.chunk_ids
    replies = result.replies
    report = {
        **figures(judged, known).as_dict(),
        "per_language": {
            language: found.as_dict() for language, found in by_language(judged, known).items()
        },
        "per_group": by_group(judged),
        "latency_ms": Percentiles.of(answer.took_ms for _, answer in judged).pick(
            "p50", "p95", "p99", "max"
        ),
        "unknown": sum(answer.worked_on is None for _, answer in judged),
        "gold_known": sum(bool(known.intersection(each.gold)) for each, _ in judged),
        "confusions": [
            {
                "label": each.label,
                "n": each.n,
                "right": each.right,
                "taken_for": [{"scenario": name, "n": n} for name, n in each.taken_for],
            }
            for each in confusions(judged)
        ],
        "replies": {
            "n": replies.n,
            "sentences": replies.sentences,
            "empty_replies": replies.empty,
            "caught_in_replies": len(replies.caught),
        },
        "guard": result.guard.as_dict(),
    }
    if wrong:
        report["wrong"] = [_as_row(pair, result) for pair in mistaken(result)]
    return report


def mistaken(result: Evaluation) -> list[Judged]:
    """Return the utterances whose scenario or danger to life was not told rightly, in order."""
    return [
        (labelled, answer)
        for labelled, answer in result.judged
        if not right(labelled, answer) or labelled.danger is (not answer.danger)
    ]


def fault(labelled_danger: bool | None, answered_danger: bool) -> str:
    """Return what is wrong about the danger that was heard: `missed`, `false alarm` or nothing."""
    if labelled_danger is None or labelled_danger is answered_danger:
        return ""
    return "missed" if labelled_danger else "false alarm"


def _as_row(pair: Judged, result: Evaluation) -> dict[str, Any]:
    labelled, answer = pair
    return {
        "where": labelled.where,
        "id": labelled.id,
        "lang": labelled.language,
        "label": labelled.label,
        "scenario": answer.scenario,
        "worked_on": answer.worked_on,
        "probability": round(answer.probability, 4),
        "danger": fault(labelled.danger, answer.danger) or None,
        "rank": rank(labelled, answer.found, result.chunk_ids),
        "utterance": labelled.utterance,
    }


def _numbers(report: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield each number by its path; those of a language also without `per_language.`."""
    for key, value in report.items():
        path = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{path}.")
        elif value is None or isinstance(value, int | float):
            yield path, value
            yield path.removeprefix("per_language."), value
