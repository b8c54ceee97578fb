"""A run as one object for programs, and the bounds that a run in CI must stay within."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from callflow.errors import CallflowError, did_you_mean
from callflow.lab.evaluation.run import Result
from callflow.lab.evaluation.scoring import (
    Judged,
    by_group,
    by_language,
    confusions,
    figures,
    rank,
    right,
)
from callflow.lab.percentiles import Percentiles

Side = Literal["floor", "ceiling"]

_SMALL_IS_GOOD: Final = (
    *("false", "latency_ms", "unknown"),
    *("caught_in_replies", "empty_replies", "harmless_caught"),
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


def as_dict(result: Result, *, wrong: bool = False) -> dict[str, Any]:
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
        report["wrong"] = [_told(pair, result) for pair in mistaken(result)]
    return report


def mistaken(result: Result) -> list[Judged]:
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


def _told(pair: Judged, result: Result) -> dict[str, Any]:
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
