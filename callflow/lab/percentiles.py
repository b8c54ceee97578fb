"""Computes percentiles by nearest rank: each of them is a number that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


def nearest_rank(ranked: Sequence[float], hundredths: int) -> float:
    """The smallest of these, which are in order, that so many hundredths of them do not exceed."""
    return ranked[-(-hundredths * len(ranked) // 100) - 1]


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of `count` measured numbers; None where there were none."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, numbers: Iterable[float | None], digits: int = 3) -> Percentiles:
        """Rounded to so many digits; a number that is None was not measured."""
        ranked = sorted(number for number in numbers if number is not None)
        if not ranked:
            return cls()
        ranks = (round(nearest_rank(ranked, rank), digits) for rank in (50, 95, 99, 100))
        return cls(len(ranked), *ranks)

    def pick(self, *names: str) -> dict[str, float | None]:
        """Some of them by name, for JSON."""
        return {name: getattr(self, name) for name in names}
