"""The retriever brings the whole procedure of one scenario, in the caller's language."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.procedures.library import SopLibrary
from callflow.retrieval.retriever import LexicalRetriever

LIBRARY = SopLibrary.load()
RETRIEVER = LexicalRetriever(LIBRARY)


@pytest.mark.parametrize("language", ["en", "zh", "es", "zh-CN", "cmn-Hans-CN", "es_MX", "pl"])
def test_the_questions_and_the_rules_are_always_there(language: str) -> None:
    for name, document in LIBRARY.documents.items():
        chunks = {chunk.section: chunk for chunk in RETRIEVER.chunks(name, language)}
        assert "never" in chunks
        if not document.front.silent:
            english = document.sections[("en", "ask")]
            assert len(chunks["ask"].sentences) == len(english)
        assert {chunk.sop for chunk in chunks.values()} == {name}


def test_a_section_nobody_translated_comes_in_english(tmp_path: Path) -> None:
    (tmp_path / "stairlift.md").write_text(
        "---\nid: stairlift\ntitle: Ours\nversion: 2\ngroup: entrapment\nurgency: P3\n---\n"
        "## en\n### Ask\n- Are you safe?\n### Say\n- Hold on.\n## es\n### Say\n- Agárrese.\n",
        encoding="utf-8",
    )
    retriever = LexicalRetriever(SopLibrary.load(tmp_path))
    chunks = {chunk.section: chunk for chunk in retriever.chunks("stairlift", "es")}
    assert (chunks["say"].language, chunks["ask"].language) == ("es", "en")


def test_an_unknown_scenario_is_served_by_the_default() -> None:
    chunks = RETRIEVER.chunks("gone_since_2019", "en")
    assert {chunk.sop for chunk in chunks} == {"entrapment_standard"}
