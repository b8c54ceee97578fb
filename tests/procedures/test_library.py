"""An operator's own folder adds procedures and replaces shipped ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.procedures.document import DEFAULT_SCENARIO
from callflow.procedures.library import SopLibrary, check

OWN = "---\nid: {id}\ntitle: Ours\nversion: 2\ngroup: entrapment\nurgency: P3\n---\n"


def texts(library: SopLibrary, scenario: str, language: str = "en") -> list[str]:
    document = library.document(scenario)
    return [
        line.text
        for section in ("ask", "say")
        for line in document.sections.get((language, section), ())
    ]


def test_an_own_document_replaces_the_shipped_one(tmp_path: Path) -> None:
    text = OWN.format(id="power_failure") + "## en\n### Ask\n- Is it dark?\n"
    (tmp_path / "our power cuts.md").write_text(text, encoding="utf-8")
    library = SopLibrary.load(tmp_path)
    assert texts(library, "power_failure") == ["Is it dark?"]
    assert len(library.documents) == len(SopLibrary.load().documents)
    assert check(tmp_path) == []


def test_an_own_document_adds_a_scenario(tmp_path: Path) -> None:
    text = OWN.format(id="stairlift") + "## en\n### Say\n- [stay_inside]\n- Hold on.\n"
    (tmp_path / "stairlift.md").write_text(text, encoding="utf-8")
    library = SopLibrary.load(tmp_path)
    assert len(library.documents) == len(SopLibrary.load().documents) + 1
    assert texts(library, "stairlift")[-1] == "Hold on."


def test_an_own_shared_phrase_is_said_in_every_procedure_that_uses_it(tmp_path: Path) -> None:
    text = "## en\n### Phrases\n- [fire_called] Brigade called.\n### Never\n- [ours] Whistle.\n"
    (tmp_path / "_common.md").write_text(text, encoding="utf-8")
    library = SopLibrary.load(tmp_path)
    sentence = next(
        line
        for line in library.document("fire_smoke").sections[("en", "say")]
        if line.id == "fire_called"
    )
    assert (sentence.text, sentence.only_after) == ("Brigade called.", "emergency.fire.requested")
    never = library.document("medical").chunk("never", "zh")
    assert never is not None
    assert {"ours", "never_force"} <= {rule.id for rule in never.sentences}


def test_other_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("How we work.\n", encoding="utf-8")
    (tmp_path / ".draft.md").write_text("soon\n", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("notes\n", encoding="utf-8")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "draft.md").write_text("soon\n", encoding="utf-8")
    assert check(tmp_path) == []
    assert set(SopLibrary.load(tmp_path).documents) == set(SopLibrary.load().documents)


def test_a_scenario_that_a_release_no_longer_knows_is_answered_by_the_default() -> None:
    assert SopLibrary.load().document("gone_since_2019").id == DEFAULT_SCENARIO


@pytest.mark.parametrize("language", ["en", "zh-CN", "cmn-Hans-CN", "es_MX", "pl"])
def test_a_procedure_is_given_whole_in_the_language_of_the_call(language: str) -> None:
    library = SopLibrary.load()
    for name, document in library.documents.items():
        chunks = {chunk.section: chunk for chunk in library.chunks(name, language)}
        assert "never" in chunks
        if not document.front.silent:
            assert list(chunks) == ["ask", "say", "never", "escalate"]
            assert len(chunks["ask"].sentences) == len(document.sections[("en", "ask")])
        assert {chunk.sop for chunk in chunks.values()} == {name}


def test_a_section_nobody_translated_comes_in_english(tmp_path: Path) -> None:
    text = OWN.format(id="stairlift") + (
        "## en\n### Ask\n- Are you safe?\n### Say\n- Hold on.\n## es\n### Say\n- Agárrese.\n"
    )
    (tmp_path / "stairlift.md").write_text(text, encoding="utf-8")
    chunks = {each.section: each for each in SopLibrary.load(tmp_path).chunks("stairlift", "es")}
    assert (chunks["say"].language, chunks["ask"].language) == ("es", "en")


def test_chunks_of_an_unknown_scenario_are_those_of_the_default() -> None:
    chunks = SopLibrary.load().chunks("gone_since_2019", "en")
    assert {chunk.sop for chunk in chunks} == {DEFAULT_SCENARIO}
