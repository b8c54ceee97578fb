"""`callflow chaos` finds out: copies of callflow that break a promise are told from the one that
keeps it, under the same strikes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.chaos_lab.mutant import chaos, copy
from tests.chaos_lab.mutants import MUTANTS, RUNS

AT_ONCE = 2
"""Each run waits more than it works."""

Verdicts = dict[str, "Future[dict[str, Any]]"]


@pytest.fixture(scope="module")
def verdicts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Verdicts]:
    """The verdict on each copy that a selected test asks about; a few are made at the same time."""
    asked = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.module is request.module
    ]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        started: Verdicts = {}
        for name in dict.fromkeys(asked):
            folder = tmp_path_factory.mktemp("copy")
            if name in RUNS:
                started[name] = threads.submit(chaos, folder, RUNS[name])
            else:
                mutant = MUTANTS[name]
                started[name] = threads.submit(chaos, folder, mutant.run, mutant.patches)
        yield started
        for future in started.values():
            future.cancel()


@pytest.mark.night
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", RUNS)
def test_callflow_as_it_is_keeps_every_promise(name: str, verdicts: Verdicts) -> None:
    verdict = verdicts[name].result()
    assert verdict["faults"] == []
    assert verdict["good"]
    assert set(verdict["per_kind"]) == set(RUNS[name].strikes.split(","))


@pytest.mark.night
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MUTANTS)
def test_a_promise_that_is_broken_on_purpose_is_found_broken(name: str, verdicts: Verdicts) -> None:
    verdict = verdicts[name].result()
    assert not verdict["good"]
    assert verdict["broken"] & MUTANTS[name].promises, verdict["faults"]


def test_every_change_fits_the_code_as_it_is(tmp_path: Path) -> None:
    for number, mutant in enumerate(MUTANTS.values()):
        copy(tmp_path / str(number), mutant.run, mutant.patches)
