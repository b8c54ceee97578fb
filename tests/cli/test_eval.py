"""`callflow eval` measures, tells people and programs, and holds bounds for CI."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import Cli, Ran
from tests.engines import keep_engines

STUCK = {
    "id": "1",
    "lang": "en",
    "scenario": "entrapment_standard",
    "text": "the lift stopped between floors and we are stuck in here",
}
FIRE = {"id": "2", "lang": "es", "scenario": "fire_smoke", "text": "hay fuego y mucho humo"}
GROUP = {
    "id": "3",
    "lang": "zh",
    "scenario": "fire_smoke",
    "gold": ["FIR-01"],
    "utterance": "着火了",
}
PRANK = {"id": "4", "lang": "en", "scenario": "earthquake", "text": "there is smoke in here"}

PROMISED = {
    *("n", "scenario_accuracy", "danger_recall", "danger_false_alarms"),
    *("recall_at_1", "recall_at_3", "mrr"),
}


def written(path: Path, *lines: dict[str, Any]) -> str:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return str(path)


def report(ran: Ran) -> Any:
    """The object on the last line of stdout."""
    return json.loads(ran.out.splitlines()[-1])


@pytest.fixture(autouse=True)
def found_by_words(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The search that needs no extra, built once."""
    cli.set("CALLFLOW_RETRIEVAL", "lexical")
    keep_engines(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path / "u.jsonl", STUCK, FIRE, GROUP, PRANK)


def test_the_last_line_is_one_object_with_all_that_was_promised(cli: Cli, file: str) -> None:
    ran = cli.run("eval", "--json", file)
    assert ran.code == 0, ran
    found = report(ran)
    assert found.keys() >= {*PROMISED, "per_language", "latency_ms"}
    assert (found["n"], found["scenario_accuracy"]) == (4, 0.75)
    assert (found["danger_recall"], found["danger_false_alarms"]) == (1.0, 0.5)
    assert list(found["per_language"]) == ["en", "es", "zh"]
    assert all(each.keys() >= PROMISED for each in found["per_language"].values())
    assert found["per_language"]["es"]["n"] == 1
    assert found["per_language"]["es"]["danger_false_alarms"] is None
    assert found["latency_ms"].keys() == {"p50", "p95", "p99", "max"}
    assert 0 < found["latency_ms"]["p50"] <= found["latency_ms"]["max"]


def test_several_files_and_stdin_are_taken_together(cli: Cli, tmp_path: Path) -> None:
    first = written(tmp_path / "first.jsonl", STUCK)
    ran = cli.run("eval", "--json", first, "-", said=json.dumps(GROUP))
    assert report(ran)["n"] == 2
    assert cli.run("eval", "-", "-").code == 2


def test_people_see_a_row_for_each_language_and_only_what_was_confused(cli: Cli, file: str) -> None:
    ran = cli.run("eval", file)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert any(line.split()[:3] == ["all", "4", "75.0"] for line in lines)
    assert any(line.split()[:2] == ["zh", "1"] for line in lines)
    confused = lines[next(i for i, line in enumerate(lines) if line.startswith("label")) :]
    assert any(line.split()[0] == "earthquake" and "fire_smoke 1×" in line for line in confused)
    assert not any(line.startswith("entrapment_standard") for line in confused)
    assert "there is smoke in here" not in ran.out


def test_the_wrongly_answered_are_shown_when_asked_for(cli: Cli, file: str) -> None:
    ran = cli.run("eval", "--wrong", file)
    (shown,) = (line for line in ran.out.splitlines() if "there is smoke in here" in line)
    assert "false alarm" in shown
    assert "stuck in here" not in ran.out
    (told,) = report(cli.run("eval", "--wrong", "--json", file))["wrong"]
    assert told["where"] == f"{file}:4"
    assert (told["label"], told["scenario"]) == ("earthquake", "fire_smoke")
    assert (told["danger"], told["utterance"]) == ("false alarm", "there is smoke in here")


def test_nothing_that_was_said_can_move_the_cursor(cli: Cli, tmp_path: Path) -> None:
    line = {**PRANK, "id": "\x9b2J", "text": "smoke \u202e\x1b[2J"}
    ran = cli.run("eval", "--wrong", written(tmp_path / "u.jsonl", line))
    assert "smoke" in ran.out
    assert not {"\x1b", "\x9b", "\u202e"} & set(ran.out)


def test_each_number_out_of_its_bounds_is_named_and_no_other(cli: Cli, file: str) -> None:
    held = ("--floor", "es.scenario_accuracy=1", "--ceiling", "danger_false_alarms=0.5")
    assert cli.run("eval", file, *held).code == 0
    bounds = ("--floor", "scenario_accuracy=0.85", "--floor", "en.scenario_accuracy=0.6")
    ran = cli.run(
        "eval", "--json", file, *bounds, "--floor", "danger_recall=0.97",
        "--ceiling", "danger_false_alarms=0.05", "--ceiling", "guard.false_catches=0",
    )  # fmt: skip
    assert ran.code == 1
    assert report(ran)["n"] == 4
    assert ran.err.splitlines() == [
        "callflow: scenario_accuracy is 0.75, below its floor of 0.85",
        "callflow: en.scenario_accuracy is 0.5, below its floor of 0.6",
        "callflow: danger_false_alarms is 0.5, above its ceiling of 0.05",
    ]


def test_a_number_without_a_basis_keeps_to_no_bound(cli: Cli, tmp_path: Path) -> None:
    file = written(tmp_path / "u.jsonl", STUCK)
    ran = cli.run("eval", file, "--floor", "danger_recall=0.97")
    assert ran.code == 1
    assert "danger_recall has no basis in these utterances" in ran.err


MISUSES: list[tuple[tuple[str, ...], str]] = [
    (("--floor", "scenario_acuracy=0.8"), "did you mean scenario_accuracy?"),
    (("--floor", "scenario_accuracy"), "write one like scenario_accuracy=0.85"),
    (("--floor", "mrr=high"), "write one like"),
    (("--floor", "mrr=nan"), "write one like"),
    (("--floor", "danger_false_alarms=0.05"), "hold it with --ceiling"),
    (("--floor", "latency_ms.p50=10"), "hold it with --ceiling"),
    (("--floor", "fr.mrr=0.5"), "no number of the report"),
]


def test_a_bound_that_is_none_is_a_misuse(cli: Cli, file: str) -> None:
    for args, sentence in MISUSES:
        ran = cli.run("eval", file, *args)
        assert (ran.code, ran.out) == (2, ""), args
        assert sentence in ran.err


UNREADABLE = [
    ("", "u.jsonl:1: the file is empty"),
    ('{"lang": "en"}', "u.jsonl:1: write what the caller says under one key"),
    (json.dumps(STUCK) + "\nnonsense", "u.jsonl:2: not valid JSON"),
    (json.dumps({**STUCK, "scenario": "fire_smok"}), "u.jsonl:1: no scenario or group"),
    (json.dumps({**STUCK, "lang": "tlh"}), "u.jsonl:1: no procedure speaks"),
]


def test_what_cannot_be_read_ends_with_2_and_its_place(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "u.jsonl"
    for content, sentence in UNREADABLE:
        file.write_text(content)
        ran = cli.run("eval", "--json", str(file))
        assert (ran.code, ran.out) == (2, ""), content
        assert sentence in ran.err
        assert len(ran.err.splitlines()) == 1
    gone = cli.run("eval", str(tmp_path / "gone.jsonl"))
    assert (gone.code, gone.out) == (2, "")
    assert "gone.jsonl:1: cannot be read (No such file or directory)" in gone.err


def test_labelled_sentences_for_the_guard_give_a_catch_rate(
    cli: Cli, file: str, tmp_path: Path
) -> None:
    engineer = "An engineer has been sent and is on the way."
    sentences = written(
        tmp_path / "guard.jsonl",
        {"lang": "en", "sentence": "Force the doors open now.", "forbidden": True, "facts": {}},
        {"lang": "en", "sentence": engineer, "forbidden": True},
        {"lang": "en", "sentence": "Please do not force the doors open.", "forbidden": False},
        {"lang": "es", "sentence": "Quédese dentro, por favor.", "forbidden": True},
    )
    ran = cli.run("eval", "--json", file, "--guard", sentences)
    guard = report(ran)["guard"]
    assert (guard["forbidden"], guard["caught"], guard["catch_rate"]) == (3, 2, 0.6667)
    assert (guard["harmless"], guard["harmless_caught"], guard["false_catch_rate"]) == (1, 0, 0.0)
    shown = cli.run("eval", "--wrong", file, "--guard", sentences).out
    assert f"{sentences}:4 (es) not caught: Quédese dentro, por favor." in shown


CHUNKS = [
    {"id": "W-1", "scenario": "weather", "title": "Rain", "text": "Say that it rains."},
    {"id": "W-2", "scenario": "weather", "title": "Snow", "text": "Say that it snows."},
    {"id": "T-1", "scenario": "trains", "title": "Trains", "text": "Say when the train leaves."},
]
EXAMPLES = [
    {"lang": "en", "chunk": "W-1", "utterance": "is it raining outside"},
    {"lang": "en", "chunk": "W-1", "utterance": "do i need an umbrella"},
    {"lang": "en", "chunk": "W-2", "utterance": "is there snow on the ground"},
    {"lang": "en", "chunk": "W-2", "utterance": "will it snow tomorrow"},
    {"lang": "en", "chunk": "T-1", "utterance": "when does the train leave"},
    {"lang": "en", "chunk": "T-1", "utterance": "which platform for the train"},
]


def other_set(folder: Path) -> list[str]:
    return [
        *("--chunks", written(folder / "chunks.jsonl", *CHUNKS)),
        *("--examples", written(folder / "examples.jsonl", *EXAMPLES)),
    ]


def test_another_set_of_procedures_is_scored_by_its_own_chunks(cli: Cli, tmp_path: Path) -> None:
    file = written(
        tmp_path / "u.jsonl",
        {"id": "1", "lang": "en", "scenario": "weather", "gold": ["W-2"],
         "utterance": "so much snow today"},
        {"id": "2", "lang": "en", "scenario": "trains", "gold": ["T-1"],
         "utterance": "has the train left"},
        {"id": "3", "lang": "en", "scenario": "weather", "gold": ["T-1"],
         "utterance": "is it raining do i need an umbrella"},
    )  # fmt: skip
    found = report(cli.run("eval", "--json", file, *other_set(tmp_path)))
    assert (found["n"], found["gold_known"], found["scenario_accuracy"]) == (3, 3, 1.0)
    assert found["recall_at_1"] == 0.6667
    assert found["danger_recall"] is None


def test_chunks_and_examples_belong_together(cli: Cli, file: str, tmp_path: Path) -> None:
    for pair in (other_set(tmp_path)[:2], other_set(tmp_path)[2:]):
        ran = cli.run("eval", file, *pair)
        assert ran.code == 2
        assert "belong together" in ran.err
    (tmp_path / "chunks.jsonl").write_text("{}")
    ran = cli.run("eval", file, *other_set(tmp_path)[:2], "--examples", str(tmp_path / "none"))
    assert ran.code == 2


def test_the_operator_s_procedures_bring_labels_of_their_own(cli: Cli, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "ice.md").write_text(
        "---\nid: dry_ice\ntitle: Dry ice\nversion: 1\ngroup: dry_ice\nurgency: P1\n"
        "cues: {en: [dry ice, leak of dry ice]}\n---\n\n## en\n\n### Callers\n\n"
        "- the dry ice box is leaking in here\n- a leak of dry ice\n\n### Ask\n\n- Is there fog?\n"
    )
    line = {"lang": "en", "scenario": "dry_ice", "text": "a strong leak of dry ice"}
    file = written(tmp_path / "u.jsonl", line)
    assert "no scenario or group" in cli.run("eval", file).err
    found = report(cli.run("eval", "--json", file, "--sop-dir", str(own)))
    assert (found["scenario_accuracy"], found["danger_recall"]) == (1.0, 1.0)
    cli.set("CALLFLOW_SOP_DIR", str(own))
    assert cli.run("eval", file).code == 0
    (own / "ice.md").write_text("none")
    ran = cli.run("eval", file)
    assert (ran.code, ran.out) == (2, "")
    assert "ice.md:1: " in ran.err


CALL = {
    "id": "a",
    "lang": "en",
    "lines": ["we are stuck in the lift", {"says": "how long", "asks": ["how_long"]}],
    "needs": [],
}


def test_whole_calls_are_scored_for_people_and_for_programs(cli: Cli, tmp_path: Path) -> None:
    bad = {**CALL, "id": "b\x1b[2J", "never": ["automated"]}
    file = written(tmp_path / "calls.jsonl", CALL, bad)
    found = report(cli.run("eval", "calls", "--json", "--runs", "2", file))
    assert (found["calls"], found["runs"], found["pass_at_1"]) == (2, 2, 0.5)
    assert (found["answered"], found["empty_replies"]) == (1.0, 0)
    ran = cli.run("eval", "calls", file, "--runs", "1", "--wrong")
    assert ran.code == 0
    assert "forbidden spoken: automated" in ran.out
    assert "caller: we are stuck in the lift" in ran.out
    assert "\x1b" not in ran.out


def test_bounds_of_whole_calls_are_held_and_what_cannot_be_read_is_refused(
    cli: Cli, tmp_path: Path
) -> None:
    file = written(tmp_path / "calls.jsonl", CALL)
    held = ("--floor", "pass_all=1", "--ceiling", "en.asked_again=0")
    assert cli.run("eval", "calls", file, "--runs", "1", *held).code == 0
    ran = cli.run(
        "eval", "calls", "-", "--runs", "1", "--ceiling", "turns=1", said=json.dumps(CALL)
    )
    assert ran.code == 1
    assert "turns is 2, above its ceiling of 1" in ran.err
    for wrong in (("--floor", "asked_again=1"), ("--floor", "pass_al=1"), (str(tmp_path),)):
        assert cli.run("eval", "calls", "--runs", "1", file, *wrong).code == 2
    assert "callflow eval calls" in cli.run("eval", "calls", "--help").out


def test_without_a_file_the_shipped_set_is_tried(cli: Cli) -> None:
    found = report(cli.run("eval", "--json"))
    assert found["n"] == 99
    assert list(found["per_language"]) == ["en", "es", "zh"]
    assert found["replies"]["n"] == 99
    assert (found["replies"]["empty_replies"], found["replies"]["caught_in_replies"]) == (0, 0)
    guard = found["guard"]
    assert (guard["own_sentences"] > 300, guard["false_catches"]) == (True, 0)
    assert 0 < guard["waiting_sentences"] == guard["waiting_caught"]


def test_transcripts_are_shown_by_bands_and_held_to_bounds(cli: Cli, tmp_path: Path) -> None:
    heard = {**STUCK, "said": STUCK["text"], "text": STUCK["text"].replace("lift", "left")}
    file = written(tmp_path / "heard.jsonl", heard, {**FIRE, "said": FIRE["text"], "text": "hay"})
    good = cli.run("eval", "--heard", file, "--floor", "up_to_25.scenario_accuracy=1")
    assert good.code == 0
    assert "up to 25 %" in good.out
    bad = cli.run("eval", "--heard", file, "--json", "--floor", "all.danger_recall=0.5")
    assert bad.code == 1
    assert "below its floor" in bad.err
    assert (bad.json["up_to_25"]["n"], bad.json["all"]["n"]) == (1, 2)
