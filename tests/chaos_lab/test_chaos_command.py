"""`callflow chaos` on the command line: what it refuses, what its ends mean, and its files."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from callflow.cli import app
from callflow.lab.chaos import chaos_run
from callflow.lab.chaos.chaos_plan import Plan
from callflow.lab.chaos.environment import RunFailed
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.run_evidence import RunEvidence
from tests.chaos_lab.made_evidence import Talk, clean_call, run_of, strike

KEYS = {
    *("strikes", "per_kind", "lost", "repeated", "out_of_order", "silence_s", "takeover_s"),
    *("promises", "seed", "replay"),
}

KEPT = run_of([clean_call()], strikes=[strike()])
BROKEN = run_of([clean_call()], leaked=("callflow:x",))


def chaos(*args: object) -> Result:
    return CliRunner().invoke(app, ["chaos", *map(str, args)])


def words_of(ran: Result) -> str:
    """What is said on stderr, without the frame around it."""
    return " ".join(ran.stderr.replace("│", " ").split())


@pytest.fixture(autouse=True)
def _no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What should have been refused fails at once, and starts no servers."""

    def began(*_: Any) -> RunEvidence:
        raise AssertionError("a run was begun")

    monkeypatch.setattr(chaos_run, "run", began)


def test_an_unknown_strike_is_refused_with_those_that_are_known() -> None:
    ran = chaos("--strikes", "worker-kill,earthquake")

    assert ran.exit_code == 2
    assert "there is no strike called earthquake" in words_of(ran)
    assert "broker-freeze" in words_of(ran)


def test_what_makes_no_run_is_refused() -> None:
    for names in ("", ",", " , "):
        ran = chaos("--strikes", names)
        assert ran.exit_code == 2
        assert "name one or more" in words_of(ran)
    for args in (
        *(("--calls", "0"), ("--seconds", "0"), ("--every", "-1"), ("--min-replicas", "2")),
        *(("--seconds", "nan"), ("--seconds", "inf")),
        *(("--every", "nan"), ("--every", "inf"), ("--every", "0")),
    ):
        assert chaos(*args).exit_code == 2, args


@pytest.mark.parametrize(("evidence", "code"), [(KEPT, 0), (BROKEN, 1)], ids=["kept", "broken"])
def test_what_was_kept_is_judged_again(evidence: RunEvidence, code: int, tmp_path: Path) -> None:
    kept, report = tmp_path / "kept.json", tmp_path / "report.html"
    kept.write_text(evidence.to_json())

    ran = chaos("--judge", str(kept), "--report", str(report), "--json")

    assert ran.exit_code == code, ran.output
    last = json.loads(ran.stdout.splitlines()[-1])
    assert last.keys() >= KEYS
    assert last == json.loads(judge(evidence).as_json())
    assert report.read_text().lstrip().lower().startswith("<!doctype html")


def test_without_json_the_last_line_is_for_people(tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    kept.write_text(BROKEN.to_json())

    ran = chaos("--judge", str(kept))

    assert "callflow:x" in ran.stdout
    assert "{" not in ran.stdout.splitlines()[-1]


def test_a_run_is_kept_before_it_is_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_run, "run", lambda plan, watcher: BROKEN)
    kept = tmp_path / "kept.json"

    ran = chaos("--testimony", str(kept), "--json")

    assert ran.exit_code == 1
    assert RunEvidence.from_json(kept.read_bytes()) == BROKEN


@pytest.mark.parametrize("error", [RunFailed("no servers here"), ValueError("a mistake")])
def test_a_machine_that_failed_does_not_say_that_a_promise_was_broken(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> RunEvidence:
        raise error

    monkeypatch.setattr(chaos_run, "run", fail)

    ran = chaos("--json")

    assert ran.exit_code == 3
    assert str(error) in ran.stderr
    assert ran.stdout == ""


def test_ctrl_c_says_that_nothing_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> RunEvidence:
        raise KeyboardInterrupt

    monkeypatch.setattr(chaos_run, "run", interrupted)

    ran = chaos("--json")

    assert ran.exit_code == 130
    words = "interrupted: nothing was judged, and what was heard so far was dropped"
    assert words in ran.stderr
    assert ran.stdout == ""


@pytest.mark.parametrize("talks", [(), (Talk(),)], ids=["no call", "no turn"])
def test_where_nobody_spoke_nothing_was_tried(
    talks: tuple[Talk, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_run, "run", lambda plan, watcher: run_of(talks))

    ran = chaos("--json")

    assert ran.exit_code == 3
    assert "nothing was tried: nobody said a word" in ran.stderr
    assert json.loads(ran.stdout)["good"] is False


def test_where_nothing_was_struck_nothing_was_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chaos_run, "run", lambda plan, watcher: run_of([clean_call()]))

    ran = chaos("--strikes", "worker-kill", "--json")

    assert ran.exit_code == 3
    assert "nothing was tried: nothing was struck" in ran.stderr
    assert "every promise was kept" not in ran.stderr
    assert json.loads(ran.stdout)["good"] is False


def test_what_broke_without_a_strike_is_broken_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        chaos_run, "run", lambda plan, watcher: run_of([clean_call()], leaked=("callflow:x",))
    )

    assert chaos("--json").exit_code == 1


def test_kinds_that_were_asked_for_and_not_made_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    told = run_of([clean_call()], strikes=[strike()])
    kinds = ("worker-kill", "web-kill", "failover")
    told = replace(told, conditions=replace(told.conditions, kinds=kinds))
    monkeypatch.setattr(chaos_run, "run", lambda plan, watcher: told)

    ran = chaos("--json")

    assert ran.exit_code == 0
    assert "asked for, and not made: web-kill, failover" in ran.stderr
    assert json.loads(ran.stdout)["not_made"] == ["web-kill", "failover"]


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e"


@pytest.mark.parametrize("as_json", [False, True])
def test_what_a_file_says_moves_no_cursor(as_json: bool, tmp_path: Path) -> None:
    told = run_of([clean_call()], strikes=[strike()], fallen=(f"w1: {EVIL}",), leaked=(EVIL,))
    kept = tmp_path / "kept.json"
    command = f"callflow chaos --seed 1 {EVIL}"
    kept.write_text(replace(told, conditions=replace(told.conditions, command=command)).to_json())

    ran = chaos("--judge", str(kept), *(["--json"] if as_json else []))

    assert ran.exit_code == 1
    assert not set(EVIL) & set("\x1b\x07\x9b\u202e") & set(ran.output)
    assert "owned" in ran.output


def test_no_command_of_others_is_offered_out_of_a_file(tmp_path: Path) -> None:
    told = run_of([clean_call()], strikes=[strike()])
    kept, report = tmp_path / "kept.json", tmp_path / "report.html"
    for command in (
        *("rm -rf /", "callflow chaos; rm -rf /", "callflow chaos --seed $(id)", "callflow up"),
    ):
        conditions = replace(told.conditions, command=command)
        kept.write_text(replace(told, conditions=conditions).to_json())

        ran = chaos("--judge", str(kept), "--report", str(report))

        assert ran.exit_code == 0
        assert command not in ran.output + report.read_text()
        assert "again:" not in ran.output


def test_every_command_of_a_plan_is_offered_again() -> None:
    for plan in (
        Plan(),
        Plan(seed=-3, seconds=1e5, strikes=("web-kill", "poison"), min_replicas=1),
    ):
        told = run_of([clean_call()], strikes=[strike()])
        told = replace(told, conditions=replace(told.conditions, command=plan.command))
        assert judge(told).replay == plan.command


def test_the_help_tells_every_exit_code_and_how_long_a_run_lasts() -> None:
    told = " ".join(chaos("--help").stdout.replace("│", " ").split())
    assert "2 where what was asked for was refused, such as a file that is no testimony" in told
    assert "nothing was tried (nobody spoke, or nothing was struck)" in told
    assert "up to 40 s longer" in told


FULL = Path("/dev/full")
"""Can be opened for writing, and then has no room for anything."""


def squeezed(text: object) -> str:
    """Without blanks, and without the frame that may break a path anywhere."""
    return re.sub(r"[\s│]", "", str(text))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    path = tmp_path / "kept.json"
    path.write_text(KEPT.to_json())
    return path


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
