"""Percentiles are numbers that were measured."""

from __future__ import annotations

from callflow.lab.percentiles import Percentiles, nearest_rank


def test_percentiles_are_numbers_that_were_measured() -> None:
    assert Percentiles.of([3.0, None, 1.0, 2.0]) == Percentiles(3, 2.0, 3.0, 3.0, 3.0)
    assert Percentiles.of(range(1, 101)) == Percentiles(100, 50, 95, 99, 100)
    assert Percentiles.of([]) == Percentiles()
    assert nearest_rank([7.0], 1) == nearest_rank([7.0], 100) == 7.0
