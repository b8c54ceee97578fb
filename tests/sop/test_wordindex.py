"""Texts are found by their words in three languages, from memory, from a folder, after a fork."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.retrieval.wordindex import WordIndex, WordIndexBroken, words_of

TEXTS = ("smoke in the lift", "电梯里有烟", "hay agua en el suelo", "the lift has stopped")
INDEX = WordIndex.in_memory(TEXTS)


@pytest.mark.parametrize(
    ("said", "row"),
    [("it is smoking", 0), ("有烟", 1), ("烟", 1), ("AGUA!", 2), ("we stopped", 3)],
)
def test_a_text_is_found_by_a_word_of_it(said: str, row: int) -> None:
    assert INDEX.search(words_of(said), 3)[0][0] == row


def test_nothing_shared_finds_nothing() -> None:
    assert INDEX.search(words_of("bonjour"), 3) == []
    assert INDEX.search((), 3) == []
    assert INDEX.search(words_of("lift"), 0) == []


def test_chinese_is_found_by_one_character_and_by_two() -> None:
    assert set(words_of("有烟")) == {"有烟", "有", "烟"}


@given(st.text(max_size=200), st.integers(0, 5))
def test_any_words_find_at_most_what_was_asked_for_best_first(said: str, k: int) -> None:
    found = INDEX.search(words_of(said), k)
    assert len(found) <= k
    assert [score for _, score in found] == sorted((s for _, s in found), reverse=True)
    assert all(0 <= row < len(TEXTS) for row, _ in found)


def test_a_folder_gives_what_memory_gives(tmp_path: Path) -> None:
    built = WordIndex.build(tmp_path / "words", TEXTS)
    opened = WordIndex.open(tmp_path / "words")
    wanted = INDEX.search(words_of("lift smoke"), 4)
    assert built.search(words_of("lift smoke"), 4) == wanted
    assert opened.search(words_of("lift smoke"), 4) == wanted


def test_a_folder_without_an_index_is_named(tmp_path: Path) -> None:
    with pytest.raises(WordIndexBroken, match="delete it, it is built anew"):
        WordIndex.open(tmp_path / "words")


def test_a_child_searches_what_its_parent_opened(tmp_path: Path) -> None:
    WordIndex.build(tmp_path / "words", TEXTS)
    opened = WordIndex.open(tmp_path / "words")
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(opened.search(words_of("agua"), 1)[0][0]))
    child.start()
    child.join(20)
    assert child.exitcode == 0
    assert answers.get() == 2
