"""What is counted of words is counted once per machine, and gives the same answers when read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.procedures.library import SopLibrary
from callflow.retrieval import bayes
from callflow.retrieval.bayes import NaiveBayes
from callflow.retrieval.corpus import Corpus
from callflow.retrieval.engine import engine
from callflow.retrieval.kept import IndexFolderUnusable
from callflow.retrieval.lexical import LexicalSearch
from tests.word_encoder import small_corpus

SAID = st.text(max_size=40) | st.sampled_from(
    ["there is smoke", "the lift has stopped", "testing", "no smoke, we are stuck", "agua"]
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[LexicalSearch, LexicalSearch]:
    folder = tmp_path_factory.mktemp("kept")
    LexicalSearch.kept(small_corpus(), folder)
    return LexicalSearch(small_corpus()), LexicalSearch.kept(small_corpus(), folder)


@given(said=SAID)
def test_what_is_read_back_answers_as_what_was_counted(
    both: tuple[LexicalSearch, LexicalSearch], said: str
) -> None:
    counted, read = both
    assert read.score(said, "en") == counted.score(said, "en")
    assert read.search(said, "en", 3, {}) == counted.search(said, "en", 3, {})


def counted_by(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of texts that are counted from now on."""
    counts: list[int] = []

    class Counts(NaiveBayes):
        def __init__(self, examples: Sequence[tuple[str, int, float]], topics: int) -> None:
            if examples:
                counts.append(len(examples))
            super().__init__(examples, topics)

    monkeypatch.setattr(bayes, "NaiveBayes", Counts)
    return counts


def test_the_words_of_a_machine_are_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted_by(monkeypatch)
    for _ in range(3):
        LexicalSearch.kept(small_corpus(), tmp_path)
    assert len(counts) == 1


def test_other_content_and_another_way_of_counting_are_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = counted_by(monkeypatch)
    LexicalSearch.kept(small_corpus(), tmp_path)
    LexicalSearch.kept(replace(small_corpus(), grave=frozenset()), tmp_path)
    monkeypatch.setattr("callflow.retrieval.lexical.COUNTING", "words 0")
    LexicalSearch.kept(small_corpus(), tmp_path)
    assert len(counts) == 3


def test_counts_that_were_damaged_are_counted_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LexicalSearch.kept(small_corpus(), tmp_path)
    (fits,) = tmp_path.glob("words-*/evidence/fits")
    fits.write_bytes(fits.read_bytes()[:-4])
    counts = counted_by(monkeypatch)
    search = LexicalSearch.kept(small_corpus(), tmp_path)
    assert len(counts) == 1
    assert search.score("there is smoke", "en") == LexicalSearch(small_corpus()).score(
        "there is smoke", "en"
    )


def test_a_corpus_without_examples_has_no_counts(tmp_path: Path) -> None:
    bare = Corpus(small_corpus().passages, ())
    for _ in range(2):
        search = LexicalSearch.kept(bare, tmp_path)
    assert search.search("calm", "en", 1, {}) == LexicalSearch(bare).search("calm", "en", 1, {})


def test_where_nothing_can_be_kept_words_are_counted_and_procedures_found(tmp_path: Path) -> None:
    folder = tmp_path / "file"
    folder.write_text("not a folder", encoding="utf-8")
    with pytest.raises(IndexFolderUnusable):
        LexicalSearch.kept(small_corpus(), folder / "index")
    library = SopLibrary.load(None)
    found = engine(library, "lexical", folder / "index").classifier
    assert found.score("there is smoke in the lift", "en").danger > 0.5
