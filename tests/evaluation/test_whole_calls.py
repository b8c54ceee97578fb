"""Whole calls are rehearsed with labels, judged turn by turn, and passed or failed as a whole."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from callflow.lab.evaluation.call_scoring import FAULTS, heard_in_run, report_calls, try_calls
from callflow.lab.evaluation.dataset import LabelError
from callflow.lab.evaluation.rehearsal import Parts, Sources, assemble
from callflow.lab.evaluation.whole_calls import BANDS, WholeCall, mishear, read_calls, shipped_calls
from tests.engines import keep_engines

Faults = set[tuple[int, str]]

PLAIN: dict[str, Any] = {
    "id": "plain",
    "lang": "en",
    "site": {"lift": "Lift 4", "address": "1 High Street"},
    "needs": ["place", "injured"],
    "lines": [
        {"says": "we are stuck in the lift", "danger": False, "urgency": "P3"},
        {"says": "three of us, how long will it take", "asks": ["how_long"]},
    ],
}


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> Parts:
    """All that answers calls, by words."""
    keep_engines(monkeypatch)
    return assemble(Sources.read(), "lexical")


def written(folder: Path, *calls: dict[str, Any]) -> list[WholeCall]:
    path = folder / "calls.jsonl"
    path.write_text("".join(f"{json.dumps(call)}\n" for call in calls), encoding="utf-8")
    return read_calls(path, sys.stdin.buffer, Sources.read().words())


def faults(folder: Path, parts: Parts, **changed: Any) -> Faults:
    (tried,) = try_calls(written(folder, {**PLAIN, **changed}), parts, 1)
    return {(each.turn, each.kind) for each in tried.faults}


def test_nothing_is_wrong_about_a_good_call(tmp_path: Path, parts: Parts) -> None:
    ends = {"urgency": "P3", "scenario": "entrapment_standard", "facts": {"people": 3}}
    assert faults(tmp_path, parts, ends=ends) == set()


def test_each_fault_is_found_in_its_turn(tmp_path: Path, parts: Parts) -> None:
    stuck = "we are stuck in the lift"
    smoke = {"says": "there is smoke in here"}
    bad: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"lines": [{"says": "the doors won't open", "asks": ["may_smoke"]}]}, (1, "unanswered")),
        ({"lines": [{"says": stuck, "tells": {"injured": False}}]}, (1, "asked_again")),
        ({"lines": [stuck, {**smoke, "danger": False}]}, (2, "false_up")),
        ({"lines": [stuck, {**smoke, "danger": False}]}, (2, "moved")),
        ({"lines": [{"says": stuck, "danger": True}]}, (1, "false_down")),
        ({"lines": [{"says": stuck, "urgency": "P4"}]}, (1, "false_up")),
        ({"lines": [{"says": stuck, "scenario": "fire_smoke"}]}, (1, "wrong_procedure")),
        ({"never": ["automated"]}, (1, "forbidden_spoken")),
        ({"human": 1}, (0, "late_human")),
        ({"lines": [stuck], "site": {}, "needs": ["people"]}, (0, "never_asked")),
        ({"ends": {"urgency": "P1"}}, (0, "ended_wrongly")),
        ({"ends": {"facts": {"people": 4}}}, (0, "ended_wrongly")),
    ]
    missed = [
        (changed, fault)
        for changed, fault in bad
        if fault not in faults(tmp_path, parts, **changed)
    ]
    assert not missed


def test_what_people_record_is_known_from_its_turn_on(tmp_path: Path, parts: Parts) -> None:
    eta = {"dispatch.confirmed_with_eta": True, "eta_minutes": 20}
    ask = {"says": "how long will it take", "asks": ["how_long"]}
    call = {**PLAIN, "lines": [ask, ask], "recorded": {"2": eta}}
    ((first, second),) = try_calls(written(tmp_path, call), parts, 1)[0].runs
    assert "20 minutes" not in first.turn.reply
    assert "20 minutes" in second.turn.reply


def test_a_person_is_rung_for_who_asks_for_one(tmp_path: Path, parts: Parts) -> None:
    lines = ["let me talk to a person", "i am stuck in the lift"]
    assert (0, "late_human") not in faults(tmp_path, parts, lines=lines, human=1)


def test_one_call_is_misheard_in_the_same_way_each_time_and_otherwise_in_each_run() -> None:
    (call,) = [
        each
        for each in read_calls(shipped_calls(), sys.stdin.buffer, Sources.read().words())
        if each.id == "en-plain"
    ]
    heard = [[line.says for line in heard_in_run(call, run).lines] for run in range(1, 6)]
    assert heard[0] == [line.says for line in call.lines]
    assert all(lines != heard[0] for lines in heard[2:])
    assert heard == [[line.says for line in heard_in_run(call, run).lines] for run in range(1, 6)]


def test_about_as_many_words_are_misheard_as_were_asked_for() -> None:
    words = "the lift stopped and the doors can't open and there's water in here please " * 40
    for share in BANDS[1:]:
        heard = mishear(words, "en", share, "seed")
        assert heard != words
        lost = 1 - len(set(enumerate(heard.split())) & set(enumerate(words.split()))) / 560
        assert lost > 0
    assert mishear("我们被困在电梯里了", "zh", 0.4, "1") != "我们被困在电梯里了"
    assert mishear("zzz", "en", 1.0, "1") == "zzz"


def test_pass_at_1_is_of_the_clean_run_and_pass_all_of_every_run(
    tmp_path: Path, parts: Parts
) -> None:
    bad = {**PLAIN, "id": "bad", "never": ["automated"]}
    tried = try_calls(written(tmp_path, PLAIN, bad), parts, 2)
    report = report_calls(tried, wrong=True)
    assert (report["calls"], report["runs"], report["pass_at_1"]) == (2, 2, 0.5)
    assert report["pass_all"] <= 0.5
    assert report["per_language"]["en"]["questions"] == 2
    assert [each["word_error"] for each in report["per_run"]] == [0.0, 0.05]
    failed = report["failed"][-1]
    assert (failed["id"], failed["failed_runs"]) == ("bad", [1, 2])
    assert failed["why"][0]["fault"] == "forbidden_spoken"
    assert failed["transcripts"]["1"][0][0] == "we are stuck in the lift"
    assert {*FAULTS} - {"unanswered"} <= report.keys()


def test_what_no_call_can_have_is_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"lines": []}, "lines must be a list"),
        ({"lines": [3]}, "must be a text or an object"),
        ({"lines": [{"says": "a", "asks": ["how_lang"]}]}, "did you mean how_long?"),
        ({"lines": [{"says": "a", "tells": {"persons": 1}}]}, "'persons'"),
        ({"lines": [{"says": "a", "danger": "no"}]}, "true or false"),
        ({"lines": [{"says": "a", "urgency": "P9"}]}, "'P9'"),
        ({"recorded": {"one": {}}}, "recorded must name facts by turn"),
        ({"recorded": {"1": {"dispatch": True}}}, "'dispatch'"),
        ({"human": True}, "number of a turn"),
        ({"needs": ["name"]}, "'name'"),
        ({"site": []}, "site must be an object"),
        ({"lnes": []}, "'lnes'"),
    ]
    for changed, reason in wrong:
        with pytest.raises(LabelError, match=r"calls\.jsonl:1: ") as refused:
            written(tmp_path, {**PLAIN, **changed})
        assert reason in refused.value.reason, changed
    with pytest.raises(LabelError, match="given twice"):
        written(tmp_path, PLAIN, PLAIN)


def test_an_array_is_read_as_lines_are(tmp_path: Path) -> None:
    path = tmp_path / "calls.json"
    path.write_text(json.dumps([PLAIN]), encoding="utf-8")
    words = Sources.read().words()
    assert read_calls(path, sys.stdin.buffer, words)[0].id == "plain"
    for text in ("[]", "[3]", ""):
        path.write_text(text)
        with pytest.raises(LabelError):
            read_calls(path, sys.stdin.buffer, words)


def test_sixty_calls_are_shipped_and_many_in_each_language() -> None:
    calls = read_calls(shipped_calls(), sys.stdin.buffer, Sources.read().words())
    assert len(calls) == 60
    for language in ("en", "es", "zh"):
        assert sum(call.language == language for call in calls) >= 18
