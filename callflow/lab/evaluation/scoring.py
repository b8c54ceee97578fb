"""From labels and answers to numbers. Pure: the same pairs give the same figures.

Each utterance is judged by the finest label that it has: a scenario where it names one, else a
group, to which any scenario of that group is a right answer. A number that nothing was counted for
is None: no recall of danger is better than 100 % of nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from callflow.lab.evaluation.dataset import Labelled

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
