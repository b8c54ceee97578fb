"""Labelled utterances of both forms are read, and what cannot be used is named with its line."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from callflow.call.urgency import Urgency
from callflow.lab.evaluation.dataset import (
    STDIN,
    LabelError,
    Labelled,
    Words,
    read,
    read_corpus,
    shipped,
)
from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import Example

GROUPS = {
    "stuck": "entrapment",
    "prying": "entrapment",
    "doors": "doors",
    "limb": "doors",
    "medical": "medical",
    "knife": "security",
}
URGENCIES: dict[str, Urgency] = {
    "stuck": "P3",
    "prying": "P2",
    "doors": "P4",
    "limb": "P1",
    "medical": "P1",
    "knife": "P1",
}
WORDS = Words(GROUPS, URGENCIES, frozenset({"en", "zh", "es"}))


def by_group(**changed: Any) -> dict[str, Any]:
    line = {"id": "U1", "lang": "en", "scenario": "entrapment", "gold": ["E-1"], "utterance": "hi"}
    return {**line, **changed}


def by_scenario(**changed: Any) -> dict[str, Any]:
    line = {"id": "en1", "lang": "en", "text": "hi", "scenario": "stuck", "also": []}
    return {**line, **changed}


def read_lines(*lines: Any, words: Words = WORDS) -> list[Labelled]:
    data = "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines)
    return read(STDIN, io.BytesIO(data.encode()), words)


def refused(*lines: Any, at: int = 1) -> str:
    with pytest.raises(LabelError) as caught:
        read_lines(*lines)
    assert caught.value.line == at
    assert str(caught.value) == f"stdin:{at}: {caught.value.reason}"
    return caught.value.reason


def test_both_forms_are_read_side_by_side() -> None:
    group, scenario = read_lines(by_group(), by_scenario(also=["prying"]))
    assert (group.where, group.id, group.utterance) == ("stdin:1", "U1", "hi")
    assert (group.scenario, group.group, group.gold) == (None, "entrapment", ("E-1",))
    assert (scenario.where, scenario.id, scenario.utterance) == ("stdin:2", "en1", "hi")
    assert (scenario.scenario, scenario.group, scenario.also) == (
        "stuck",
        "entrapment",
        ("prying",),
    )


def test_a_word_for_both_means_the_group_in_the_first_form_and_the_scenario_in_the_second() -> None:
    group, scenario = read_lines(by_group(scenario="doors"), by_scenario(scenario="doors"))
    assert (group.scenario, group.group, group.asked) == (None, "doors", "doors (group)")
    assert (scenario.scenario, scenario.group, scenario.asked) == ("doors", "doors", "doors")


def test_a_label_is_taken_for_what_it_is_in_either_form() -> None:
    scenario, group = read_lines(by_group(scenario="limb"), by_scenario(scenario="entrapment"))
    assert (scenario.scenario, scenario.group) == ("limb", "doors")
    assert (group.scenario, group.group) == (None, "entrapment")


def test_life_is_at_risk_where_the_urgency_or_all_that_the_label_means_says_so() -> None:
    lines: list[tuple[dict[str, Any], bool | None]] = [
        (by_scenario(urgency="P1"), True),
        (by_scenario(scenario="medical", urgency="P2"), False),
        (by_scenario(scenario="limb"), True),
        (by_scenario(scenario="stuck"), False),
        (by_group(scenario="security"), True),
        (by_group(scenario="entrapment"), False),
        (by_group(scenario="doors"), None),
    ]
    assert [read_lines(line)[0].danger for line, _ in lines] == [danger for _, danger in lines]


def test_gold_also_and_ids_may_be_left_out() -> None:
    first, second = by_group(gold=None), by_scenario()
    for key in ("id", "also"):
        second.pop(key)
    group, scenario = read_lines(first, "", second)
    assert group.gold == ()
    assert (scenario.also, scenario.id, scenario.where) == ((), "line 3", "stdin:3")


def test_languages_are_told_by_their_first_part() -> None:
    tags = ("zh-CN", "cmn-Hans-CN", "es_MX", "EN")
    found = read_lines(*(by_group(lang=tag) for tag in tags))
    assert [each.language for each in found] == ["zh", "zh", "es", "en"]


def test_marks_of_windows_and_lines_that_are_empty_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "u.jsonl"
    line = json.dumps(by_group(utterance="a\u2028b"), ensure_ascii=False)
    file.write_bytes(b"\xef\xbb\xbf\r\n" + line.encode() + b"\r\n \r\n")
    (found,) = read(file, io.BytesIO(), WORDS)
    assert found.where == f"{file}:2"
    assert found.utterance == "a\u2028b"


def test_groups_of_another_set_of_procedures_are_no_strangers() -> None:
    words = Words(GROUPS, URGENCIES, frozenset({"en"}), more_groups=frozenset({"weather"}))
    (found,) = read_lines(by_group(scenario="weather"), words=words)
    assert (found.scenario, found.group, found.danger) == (None, "weather", None)


def test_an_utterance_is_cleaned_as_a_caller_s_is() -> None:
    (found,) = read_lines('{"lang": "en", "scenario": "stuck", "text": " \\ud800\\u0000x "}')
    assert found.utterance == "\ufffd x"


BAD_LINES: list[tuple[Any, str]] = [
    ("{", "not valid JSON"),
    ("nonsense", "not valid JSON"),
    ("[" * 100_000, "not valid JSON"),
    ("[1]", "no JSON object"),
    ('"text"', "no JSON object"),
    ({**by_group(), "text": "hi"}, "one key: utterance, or text"),
    ({"id": "1", "lang": "en", "scenario": "stuck"}, "one key: utterance, or text"),
    (by_group(utterance=None), "utterance must be a text"),
    (by_scenario(text=4), "text must be a text"),
    (by_scenario(text="x" * 20_001), "longer than 20000 characters"),
    (by_group(scenario="entrapmnt"), "did you mean entrapment?"),
    (by_scenario(scenario="nowhere"), "no scenario or group is called 'nowhere'"),
    (by_scenario(scenario=["stuck"]), "scenario must be a text"),
    (by_scenario(also=["pry"]), "no scenario or group is called 'pry'"),
    (by_scenario(also="prying"), "also must be a list of texts"),
    (by_group(gold="E-1"), "gold must be a list of texts"),
    (by_group(gold=[1]), "gold must be a list of texts"),
    (by_group(lang="fr"), "no procedure speaks the language 'fr'"),
    (by_group(lang=None), "lang must be a text"),
    (by_scenario(urgency="P0"), "urgency must be one of P1, P2, P3, P4, P5"),
    (by_scenario(urgency=["P1"]), "urgency must be one of P1, P2, P3, P4, P5"),
    (by_scenario(id=7), "id must be a text"),
]


def test_a_line_that_cannot_be_used_is_named() -> None:
    missed = [
        (line, told)
        for line, reason in BAD_LINES
        if reason not in (told := refused(by_group(), "", line, at=3))
    ]
    assert missed == []


def test_a_file_in_which_there_is_nothing_is_refused() -> None:
    for data in (b"", b"\n\n  \n", b"\xef\xbb\xbf"):
        with pytest.raises(LabelError, match="stdin:1: the file is empty"):
            read(STDIN, io.BytesIO(data), WORDS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "gone", "No such file"), (tmp_path, "directory")):
        with pytest.raises(LabelError, match=reason) as caught:
            read(path, io.BytesIO(), WORDS)
        assert caught.value.path == path


def test_a_file_that_is_not_utf8_is_named_with_its_line() -> None:
    data = json.dumps(by_group()).encode() + b'\n{"text": "\xe9"}'
    with pytest.raises(LabelError, match="stdin:2: not UTF-8 text"):
        read(STDIN, io.BytesIO(data), WORDS)


def test_the_shipped_files_are_of_both_forms_and_fit_the_shipped_procedures() -> None:
    documents = SopLibrary.load().documents.values()
    words = Words(
        {each.id: each.front.group for each in documents},
        {each.id: each.front.urgency for each in documents},
        frozenset({"en", "zh", "es"}),
    )
    by_file = [read(path, io.BytesIO(), words) for path in shipped()]
    assert len(by_file) == 2
    assert {each.scenario is None for each in by_file[0]} == {True}
    assert {each.scenario is None for each in by_file[1]} == {False}
    assert {each.language for each in by_file[0]} == {"en", "zh", "es"}


CHUNK = {"id": "FLD-1", "scenario": "water", "title": "Water", "text": "Go to a higher floor."}
SAID = {"lang": "en", "chunk": "FLD-1", "utterance": "my shoes are getting wet"}


def other_set(folder: Path, chunks: list[Any], said: list[Any]) -> tuple[Path, Path]:
    paths = folder / "chunks.jsonl", folder / "examples.jsonl"
    for path, rows in zip(paths, (chunks, said), strict=True):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
    return paths


def test_another_set_of_procedures_is_read_from_json_lines(tmp_path: Path) -> None:
    corpus = read_corpus(*other_set(tmp_path, [CHUNK, "", CHUNK | {"id": "FLD-2"}], [SAID]))
    assert [passage.topic for passage in corpus.passages] == ["FLD-1", "FLD-2"]
    assert corpus.groups == {"FLD-1": "water", "FLD-2": "water"}
    assert corpus.examples == (Example("FLD-1", "en", "my shoes are getting wet"),)
    assert corpus.grave == frozenset()
    assert read_corpus(*other_set(tmp_path, [CHUNK], [])).examples == ()


BAD_SETS: list[tuple[list[Any], list[Any], str]] = [
    ([CHUNK, "{"], [SAID], "chunks.jsonl:2: not valid JSON"),
    ([CHUNK, "7"], [SAID], "chunks.jsonl:2: no JSON object"),
    ([CHUNK | {"text": " "}], [SAID], "chunks.jsonl:1: text is missing"),
    ([CHUNK | {"id": 7}], [SAID], "chunks.jsonl:1: id must be a text"),
    ([CHUNK, "", CHUNK], [SAID], "chunks.jsonl:3: the id FLD-1 is given twice"),
    ([], [SAID], "chunks.jsonl:1: the file is empty"),
    ([CHUNK], [SAID, SAID | {"chunk": "FLD-9"}], "examples.jsonl:2: chunk 'FLD-9' is not in"),
    ([CHUNK], [{"lang": "en", "chunk": "FLD-1"}], "examples.jsonl:1: utterance must be a text"),
    ([CHUNK | {"text": "x" * 20_001}], [SAID], "chunks.jsonl:1: text is longer than 20000"),
]


def test_a_line_of_another_set_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    for chunks, said, reason in BAD_SETS:
        with pytest.raises(LabelError) as caught:
            read_corpus(*other_set(tmp_path, chunks, said))
        assert reason in str(caught.value)
    with pytest.raises(LabelError, match=r"nowhere\.jsonl:1: cannot be read"):
        read_corpus(tmp_path / "nowhere.jsonl", tmp_path / "examples.jsonl")
