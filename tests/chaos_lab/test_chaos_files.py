"""The files of `callflow chaos`: refused before a run where they cannot be of use, and no verdict
is lost with them."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from callflow.cli import app
from callflow.lab.chaos import chaos_run
from callflow.lab.chaos.run_evidence import RunEvidence
from tests.chaos_lab.made_evidence import clean_call, run_of, strike

KEPT = run_of([clean_call()], strikes=[strike()])

FULL = Path("/dev/full")
"""Can be opened for writing, and then has no room for anything."""


def chaos(*args: object) -> Result:
    return CliRunner().invoke(app, ["chaos", *map(str, args)])


def squeezed(text: object) -> str:
    """Without blanks, and without the frame that may break a path anywhere."""
    return re.sub(r"[\s│]", "", str(text))


@pytest.fixture
def no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def began(*_: Any) -> RunEvidence:
        raise AssertionError("a run was begun")

    monkeypatch.setattr(chaos_run, "run", began)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.json"
    path.write_text(KEPT.to_json())
    return path


@pytest.mark.usefixtures("no_run")
def test_what_cannot_be_written_is_refused_before_anything_is_done(kept: Path) -> None:
    ways = itertools.product(
        ("--report", "--testimony"), ("", "nowhere/x", "kept.json/x", "x" * 300), (False, True)
    )
    for option, where, judged in ways:
        path = kept.parent / where

        ran = chaos(option, path, *(["--judge", kept] if judged else []))

        assert ran.exit_code == 2, ran.output
        assert squeezed(f"{path} cannot be written") in squeezed(ran.stderr)
        assert squeezed("in a directory that exists and may be written") in squeezed(ran.stderr)
        assert ran.stdout == ""


@pytest.mark.usefixtures("no_run")
def test_one_file_is_not_written_over_another(kept: Path) -> None:
    same = kept.parent / "same"

    assert chaos("--report", same, "--testimony", same).exit_code == 2
    assert chaos("--judge", kept, "--report", kept.parent / "." / "kept.json").exit_code == 2
    assert kept.read_text() == KEPT.to_json()
    assert not same.exists()


def test_asking_whether_a_file_can_be_written_leaves_it_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("as it was")

    def look(*_: Any) -> RunEvidence:
        seen.extend([old.read_text(), new.exists()])
        return KEPT

    monkeypatch.setattr(chaos_run, "run", look)

    assert chaos("--report", old, "--testimony", new).exit_code == 0
    assert seen == ["as it was", False]
    assert RunEvidence.from_json(new.read_bytes()) == KEPT
    assert "<title>" in old.read_text()


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full device")
@pytest.mark.parametrize("option", ["--report", "--testimony"])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_verdict_outlives_a_disk_that_filled_up(
    option: str, as_json: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_run, "run", lambda plan, watcher: KEPT)

    ran = chaos(option, FULL, *(["--json"] if as_json else []))

    assert ran.exit_code == 3
    assert f"{FULL} could not be written (No space left on device)" in ran.stderr
    if as_json:
        assert json.loads(ran.stdout)["good"] is True
    else:
        assert "every promise was kept" in ran.stdout


def changed(*at: str | int, to: Any) -> str:
    """The evidence, with something else at one place."""
    told = json.loads(KEPT.to_json())
    place = told
    for step in at[:-1]:
        place = place[step]
    place[at[-1]] = to
    return json.dumps(told)


def twice() -> str:
    """The evidence, in which one caller stands twice."""
    told = json.loads(KEPT.to_json())
    told["callers"] *= 2
    return json.dumps(told)


DAMAGED = {
    "empty": ("", "Invalid JSON: EOF"),
    "cut": (KEPT.to_json()[:500], "Invalid JSON: EOF"),
    "a list": ("[]", "Input should be an object"),
    "something else": ("{}", "conditions: Field required"),
    "earthquake": (changed("strikes", 0, "kind", to="earthquake"), "no strike called 'earthquake'"),
    "speed 0": (changed("conditions", "speed", to=0), "conditions.speed: with 0"),
    "no time": (changed("conditions", "seconds", to=0), "conditions.seconds: with 0"),
    "ages": (changed("conditions", "seconds", to=1e14), "conditions.seconds: no number from 0"),
    "no letters": (changed("conditions", "letters_per_s", to=0), "conditions.letters_per_s: with"),
    "nan": (changed("began_at", to=float("nan")), "began_at: no number from 0"),
    "nan in words": (changed("began_at", to="NaN"), "began_at: no number"),
    "inf": (changed("strikes", 0, "until_s", to=float("inf")), "strikes.0.until_s: no number"),
    "negative": (changed("strikes", 0, "at_s", to=-1.5), "strikes.0.at_s: no number from 0"),
    "beyond all": (changed("strikes", 0, "at_ms", to=10**400), "strikes.0.at_ms: no number from 0"),
    "a year": (changed("strikes", 0, "until_s", to=3e7), "strikes.0.until_s: no number from 0"),
    "two replicas": (changed("conditions", "min_replicas", to=9), "no run has more than 1"),
    "twice": (twice(), "callers.1.report.call_sid: the same call twice"),
    "backwards": (changed("strikes", 0, "until_s", to=0.5), "until_s: over before it began"),
    "true": (changed("conditions", "seconds", to=True), "conditions.seconds: no number"),
    "true deep": (changed("strikes", 0, "at_s", to=True), "strikes.0.at_s: no number"),
    "no such kind": (changed("conditions", "kinds", to=["x"]), "conditions.kinds: there is no"),
    "another run": (
        changed("callers", 0, "report", "began_at", to=1e9),
        "callers.0.report.began_at: in another run",
    ),
    "deep": (
        changed("callers", 0, "report", "silences", 0, "length_s", to=-1),
        "callers.0.report.silences.0.length_s: no number from 0",
    ),
}


def test_a_damaged_testimony_is_refused_in_one_sentence(kept: Path) -> None:
    for name, (text, reason) in DAMAGED.items():
        kept.write_text(text)

        ran = chaos("--judge", kept, "--json")

        assert ran.exit_code == 2, name
        assert ran.stdout == ""
        assert ran.stderr.startswith(f"callflow: {kept} is no testimony of callflow chaos: ")
        assert reason in ran.stderr
        assert len(ran.stderr.splitlines()) == 1


def test_bytes_that_are_no_text_are_no_testimony(kept: Path) -> None:
    kept.write_bytes(b'{"\xff\xfe": 1}')

    ran = chaos("--judge", kept)

    assert ran.exit_code == 2
    assert len(ran.stderr.splitlines()) == 1


def test_any_whole_number_is_a_seed(kept: Path) -> None:
    kept.write_text(changed("conditions", "seed", to=-3))

    assert chaos("--judge", kept).exit_code == 0


def test_what_is_said_of_a_run_is_refused_where_nothing_is_run(kept: Path) -> None:
    """Even where it is what would be done anyway."""
    for option, value in (
        *(("--seed", 1), ("--seconds", 60), ("--calls", 30), ("--strikes", "all")),
        *(("--every", 1.5), ("--min-replicas", 0), ("--logs", "logs")),
    ):
        ran = chaos("--judge", kept, option, value)

        assert ran.exit_code == 2
        assert squeezed(f"leave out {option}") in squeezed(ran.stderr)
