"""The benchmarks run through their real command and give what they promise; times are no matter."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

CONTESTANTS = {"callflow", "bare", "seed", "callflow-threads", "bare-threads"}


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    """A tiny run: one round of two levels, and sweeps of 1,000 and 2,000 calls."""
    small = ("--calls", "1,3", "--turns", "2", "--rounds", "1", "--slots", "2", "--at-least", "6")
    return _last_line("--json", *small, "--sweep", "1000,2000")


@pytest.mark.benchmark
@pytest.mark.timeout(240)
def test_every_contestant_answers_every_turn(result: dict[str, Any]) -> None:
    assert result["contestants"].keys() == CONTESTANTS
    for name, scored in result["contestants"].items():
        for calls, turns in (("1", 6), ("3", 6)):
            level = scored["levels"][calls]
            assert (level["turns"], level["failed"]) == (turns, 0), (name, calls)
            assert 0 < level["p50_ms"] <= level["p95_ms"] <= level["p99_ms"]
            assert level["turns_per_s"] > 0
            assert level["commands_per_turn"] >= 3
        assert (scored["bytes_per_call"] > 0) == (not name.startswith("bare")), name


@pytest.mark.benchmark
@pytest.mark.timeout(240)
def test_a_turn_is_one_claim_and_one_commit(result: dict[str, Any]) -> None:
    for name in ("callflow", "callflow-threads"):
        asked = result["contestants"][name]["requests_per_turn"]
        assert (asked["script:claim"], asked["script:commit"]) == (1, 1), asked


@pytest.mark.benchmark
@pytest.mark.timeout(240)
def test_the_ratios_that_matter_are_there(result: dict[str, Any]) -> None:
    assert result["sweep"].keys() == {"callflow_ms", "seed_ms"}
    assert all(times.keys() == {"1000", "2000"} for times in result["sweep"].values())
    assert {
        "turn_p50_vs_bare_celery",
        "throughput_vs_seed_3",
        "cpu_per_turn_vs_seed_3",
        "sweep_2k_vs_1k",
    } <= result["ratios"].keys()
    assert all(ratio > 0 for ratio in result["ratios"].values())
    assert {"cores", "cpu", "python", "server"} <= result["machine"].keys()


@pytest.mark.benchmark
@pytest.mark.timeout(120)
def test_the_telephone_answers_every_waiting_call_and_every_socket_without_more_threads() -> None:
    small = ("--calls", "40", "--sockets", "3", "--rounds", "2", "--turns", "2", "--hold", "0.2")
    found = _last_line("telephone", "--json", *small)
    for one in found["gather"]["rounds"]:
        assert (one["answered"], one["held"]) == (40, 0)
        assert max(one["threads"]) <= 16 + 2, "the desk's threads, the main one, and one to spare"
        assert min(one["rss_mb"]) > 0
    for spread in (found["gather"], found["bare"], *found["relay"].values()):
        assert 0 < spread["p50_ms"] <= spread["p99_ms"] <= spread["max_ms"]
    assert {name: row["tokens"] for name, row in found["relay"].items()} == {
        "at_once": 6,
        "over_1_s": 6,
    }


@pytest.mark.benchmark
@pytest.mark.timeout(120)
def test_open_boards_are_told_what_is_said_and_the_store_is_asked_by_one_reader() -> None:
    small = ("--calls", "30", "--boards", "3", "--seconds", "3", "--every", "2")
    found = _last_line("board", "--json", *small)
    assert 0 < found["boards"]["p50_ms"] <= found["boards"]["p99_ms"] <= found["boards"]["max_ms"]
    assert found["boards"]["words"] > 3 * 30
    assert found["quiet"]["looks_per_s"] == 0
    assert 0 < found["busy"]["looks_per_s"] <= 4.1
    assert found["busy"]["web_rss_mb"] > 0


def _last_line(*arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found
