"""`callflow chaos` on the command line: what it refuses, and what its ends mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from callflow.chaos import run, witness
from callflow.chaos.judge import judge
from callflow.chaos.run import ChaosFailed
from callflow.cli import app
from tests.chaos_judge.testimonies import CONDITIONS

KEYS = {
    *("strikes", "per_kind", "lost", "repeated", "out_of_order", "silence_s", "takeover_s"),
    *("promises", "seed", "replay"),
}

KEPT = witness.Testimony(CONDITIONS, 1000.0, ())
BROKEN = witness.Testimony(CONDITIONS, 1000.0, (), leaked=("callflow:x",))


def chaos(*args: str) -> Result:
    return CliRunner().invoke(app, ["chaos", *args])


def test_an_unknown_strike_is_refused_with_those_that_are_known() -> None:
    ran = chaos("--strikes", "worker-kill,earthquake")

    assert ran.exit_code == 2
    words = " ".join(ran.stderr.replace("│", " ").split())
    assert "there is no strike called earthquake" in words
    assert "broker-freeze" in words


@pytest.mark.parametrize(
    "args",
    [("--calls", "0"), ("--seconds", "0"), ("--every", "-1"), ("--min-replicas", "2")],
    ids=" ".join,
)
def test_what_makes_no_run_is_refused(args: tuple[str, ...]) -> None:
    assert chaos(*args).exit_code == 2


@pytest.mark.parametrize(("testimony", "code"), [(KEPT, 0), (BROKEN, 1)], ids=["kept", "broken"])
def test_what_was_kept_is_judged_again(
    testimony: witness.Testimony, code: int, tmp_path: Path
) -> None:
    kept, report = tmp_path / "kept.json", tmp_path / "report.html"
    kept.write_text(testimony.to_json())

    ran = chaos("--judge", str(kept), "--report", str(report), "--json")

    assert ran.exit_code == code, ran.output
    last = json.loads(ran.stdout.splitlines()[-1])
    assert last.keys() >= KEYS
    assert last == json.loads(judge(testimony).as_json())
    assert report.read_text().lstrip().lower().startswith("<!doctype html")


def test_without_json_the_last_line_is_for_people(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(BROKEN.to_json())

    ran = chaos("--judge", str(kept))

    assert "callflow:x" in ran.stdout
    assert "{" not in ran.stdout.splitlines()[-1]


def test_a_file_that_is_no_testimony_is_the_machines_failure(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text("[]")

    assert chaos("--judge", str(kept)).exit_code == 3


def test_a_run_is_kept_before_it_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "run", lambda plan, watcher: BROKEN)
    kept = tmp_path / "kept.json"

    ran = chaos("--testimony", str(kept), "--json")

    assert ran.exit_code == 1
    assert witness.Testimony.from_json(kept.read_bytes()) == BROKEN


@pytest.mark.parametrize("error", [ChaosFailed("no servers here"), ValueError("a mistake")])
def test_a_machine_that_failed_does_not_say_that_a_promise_was_broken(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> witness.Testimony:
        raise error

    monkeypatch.setattr(run, "run", fail)

    ran = chaos("--json")

    assert ran.exit_code == 3
    assert str(error) in ran.stderr
    assert ran.stdout == ""
