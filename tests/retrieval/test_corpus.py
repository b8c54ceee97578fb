"""A corpus holds what can be found and how callers put it."""

from __future__ import annotations

from dataclasses import replace

from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import NOTHING, Corpus, of_library
from tests.word_encoder import small_corpus


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
    assert set(library.documents["medical"].front.cues["en"]) <= {
        example.text for example in corpus.examples
    }


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
