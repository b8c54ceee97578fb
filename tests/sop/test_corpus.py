"""A corpus holds what can be found and how callers put it; a bad line is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import NOTHING, Corpus, CorpusError, Example, of_library, read_corpus
from tests.word_encoder import small_corpus

CHUNK = {"id": "FLD-1", "scenario": "water", "title": "Water", "text": "Go to a higher floor."}
SAID = {"lang": "en", "chunk": "FLD-1", "utterance": "my shoes are getting wet"}


def files(tmp_path: Path, chunks: list[Any], said: list[Any]) -> tuple[Path, Path]:
    paths = tmp_path / "chunks.jsonl", tmp_path / "examples.jsonl"
    for path, rows in zip(paths, (chunks, said), strict=True):
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        path.write_text("\n".join(lines), encoding="utf-8")
    return paths


def test_our_procedures_are_a_corpus_with_every_section_in_every_language() -> None:
    library = SopLibrary.load()
    corpus = of_library(library)
    ids = {passage.id for passage in corpus.passages}
    assert {passage.topic for passage in corpus.passages} == set(library.documents)
    for name, document in library.documents.items():
        for language in document.languages:
            for section in ("ask", "say"):
                if document.sections.get((language, section)):
                    assert f"{name}.{section}.{language}" in ids
    assert {"fire_smoke", "medical"} <= corpus.grave
    assert "entrapment_standard" not in corpus.grave
    assert all(example.text for example in corpus.examples)
    assert any(example.cue for example in corpus.examples)


def test_plain_answers_are_about_nothing_in_every_language() -> None:
    answers = [each for each in of_library(SopLibrary.load()).examples if each.topic == NOTHING]
    assert {answer.language for answer in answers} == {"en", "zh", "es"}
    assert {"yes", "是的", "sí"} <= {answer.text for answer in answers}


def test_the_ids_are_those_of_the_chunks_that_a_procedure_gives() -> None:
    library = SopLibrary.load()
    for passage in of_library(library).passages:
        chunk = library.document(passage.topic).chunk(passage.section, passage.language)  # type: ignore[arg-type]
        assert chunk is not None
        assert chunk.id == passage.id


def test_another_set_is_read_from_json_lines(tmp_path: Path) -> None:
    corpus = read_corpus(*files(tmp_path, [CHUNK, "", CHUNK | {"id": "FLD-2"}], [SAID]))
    assert [passage.topic for passage in corpus.passages] == ["FLD-1", "FLD-2"]
    assert corpus.groups == {"FLD-1": "water", "FLD-2": "water"}
    assert corpus.examples == (Example("FLD-1", "en", "my shoes are getting wet"),)
    assert corpus.grave == frozenset()


@pytest.mark.parametrize(
    ("chunks", "said", "file", "line", "rule"),
    [
        ([CHUNK, "{"], [SAID], "chunks", 2, "not JSON"),
        ([CHUNK, "7"], [SAID], "chunks", 2, "not a JSON object"),
        ([{**CHUNK, "text": " "}], [SAID], "chunks", 1, "text is missing"),
        ([{**CHUNK, "id": 7}], [SAID], "chunks", 1, "id is missing or is no text"),
        ([CHUNK, "", CHUNK], [SAID], "chunks", 3, "given twice"),
        ([], [SAID], "chunks", 1, "no chunk"),
        ([CHUNK], [SAID, {**SAID, "chunk": "FLD-9"}], "examples", 2, "'FLD-9' is not in"),
        ([CHUNK], [{"lang": "en", "chunk": "FLD-1"}], "examples", 1, "utterance is missing"),
        ([CHUNK], ['{"utterance": "\\ud800"'], "examples", 1, "not JSON"),
        ([CHUNK], [{**SAID, "utterance": "\ud800"}], "examples", 1, "surrogate"),
        ([{**CHUNK, "text": "x" * 20_001}], [SAID], "chunks", 1, "split it"),
    ],
)
def test_a_bad_line_is_named_with_the_rule_it_breaks(
    tmp_path: Path, chunks: list[Any], said: list[Any], file: str, line: int, rule: str
) -> None:
    with pytest.raises(CorpusError) as caught:
        read_corpus(*files(tmp_path, chunks, said))
    assert caught.value.path.stem == file
    assert caught.value.line == line
    assert rule in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"nowhere\.jsonl:1: cannot be read"):
        read_corpus(tmp_path / "nowhere.jsonl", tmp_path / "examples.jsonl")
    (tmp_path / "latin.jsonl").write_bytes("{}\nñ".encode("latin-1"))
    with pytest.raises(CorpusError, match="UTF-8"):
        read_corpus(tmp_path / "latin.jsonl", tmp_path / "examples.jsonl")


def test_the_fingerprint_changes_with_the_content_alone() -> None:
    corpus = small_corpus()
    assert corpus.fingerprint == small_corpus().fingerprint
    assert len(corpus.fingerprint) == 32
    first = replace(corpus.passages[0], text="other words")
    changed: list[Corpus] = [
        replace(corpus, passages=(first, *corpus.passages[1:])),
        replace(corpus, examples=corpus.examples[1:]),
        replace(corpus, grave=frozenset()),
    ]
    assert len({corpus.fingerprint, *(each.fingerprint for each in changed)}) == 4
