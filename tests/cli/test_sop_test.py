"""`callflow sop test` shows what words lead to, as people read it and as programs do."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Cli
from tests.engines import keep_engines


@pytest.fixture(autouse=True)
def found_by_words(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search that needs no extra, built once."""
    cli.set("CALLFLOW_RETRIEVAL", "lexical")
    keep_engines(monkeypatch)


def test_the_scenario_its_urgency_and_the_reply_are_shown(cli: Cli) -> None:
    ran = cli.run("sop", "test", "there is smoke coming into the lift")
    assert (ran.code, ran.err) == (0, "")
    shown = {line.split()[0]: line for line in ran.out.splitlines() if line.strip()}
    assert shown["scenario"].split() == ["scenario", "fire_smoke"]
    assert "P1, life at risk now" in shown["urgency"]
    assert "smoke" in shown["danger"]
    assert "fire_smoke P1" in shown["likely"]
    assert "fire_smoke." in shown["chunks"]
    assert "fire_smoke is P1" in shown["human"]
    assert "?" in shown["reply"]


def test_programs_get_one_object(cli: Cli) -> None:
    told = cli.run("sop", "test", "hay mucho humo aquí", "--language", "es", "--json").json
    assert (told["scenario"], told["urgency"], told["language"]) == ("fire_smoke", "P1", "es")
    best = told["likely"][0]
    assert (best["scenario"], best["urgency"]) == ("fire_smoke", "P1")
    assert 0 < best["probability"] <= 1
    assert told["dangers"] == ["smoke"]
    assert told["chunks"][0]["scenario"] == "fire_smoke"
    assert "¿" in told["reply"]
    assert told["turn"] == 1


def test_what_was_said_before_counts(cli: Cli) -> None:
    first = cli.run("sop", "test", "we are stuck in the lift", "--json").json
    later = cli.run(
        "sop", "test", "three of us", "--json",
        "--after", "we are stuck in the lift", "--after", "no nobody is hurt",
    ).json  # fmt: skip
    assert later["turn"] == 3
    assert later["reply"] != first["reply"]
    assert not later["reply"].startswith(first["reply"][:20])


def test_a_danger_that_was_heard_before_is_not_over(cli: Cli) -> None:
    told = cli.run(
        "sop", "test", "we are on the third floor", "--after", "there is smoke here", "--json"
    ).json
    assert told["urgency"] == "P1"


def test_a_procedure_of_the_operator_s_is_tried_before_it_goes_live(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "ice.md").write_text(
        "---\nid: dry_ice\ntitle: Dry ice\nversion: 1\ngroup: dry_ice\nurgency: P1\n"
        "cues: {en: [dry ice]}\n---\n\n## en\n\n### Callers\n\n"
        "- the dry ice box is leaking\n\n### Ask\n\n- How strong is the leak of dry ice?\n"
    )
    ran = cli.run("sop", "test", "the dry ice box is leaking", "--dir", str(tmp_path), "--json")
    assert ran.json["scenario"] == "dry_ice"
    assert "How strong is the leak of dry ice?" in ran.json["reply"]
    (tmp_path / "ice.md").write_text("none")
    cli.run("sop", "test", "ice", "--dir", str(tmp_path)).failed_with("ice.md:1: ")


def test_what_is_no_language_is_a_misuse(cli: Cli) -> None:
    assert cli.run("sop", "test", "help", "--language", "").code == 2
    assert cli.run("sop", "test", "help", "--language", "en;zh").code == 2
    assert cli.run("sop", "test").code == 2


def test_silence_and_symbols_are_answered_too(cli: Cli) -> None:
    for words in ("", "🙂 \x1b[2J"):
        ran = cli.run("sop", "test", words)
        assert ran.code == 0
        assert "reply" in ran.out
        assert "\x1b" not in ran.out
