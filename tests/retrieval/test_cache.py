"""What is built of the procedures is built once, whole or not at all, and found again."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from callflow.procedures.library import SopLibrary
from callflow.retrieval.cache import VERSIONS_KEPT, IndexFolderUnusable
from callflow.retrieval.engine import TopicSearch, build_engine
from callflow.retrieval.lexical import words_of
from callflow.retrieval.semantic import Vectors
from tests.word_encoder import WordEncoder, small_corpus

FORK = multiprocessing.get_context("fork")


def folders(where: Path, kind: str = "meaning") -> list[Path]:
    return sorted(each for each in where.iterdir() if each.name.startswith(kind))


def opened(where: Path, encoder: WordEncoder | None = None) -> TopicSearch:
    return TopicSearch(small_corpus(), where, encoder or WordEncoder())


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose words are indexed from now on."""
    texts: list[str] = []

    def counting(text: str) -> tuple[str, ...]:
        texts.append(text)
        return words_of(text)

    monkeypatch.setattr("callflow.retrieval.engine.words_of", counting)
    return texts


def test_what_was_built_is_only_opened_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = opened(tmp_path / "index")
    later, words = WordEncoder(), counted(monkeypatch)
    again = opened(tmp_path / "index", later)
    assert (later.encoded, words) == ([], [])
    assert again.score("hot smoke") == built.score("hot smoke")
    assert len(folders(tmp_path / "index")) == 1


def test_other_content_and_other_weights_get_an_index_of_their_own(tmp_path: Path) -> None:
    opened(tmp_path)
    opened(tmp_path, WordEncoder("words 2"))
    TopicSearch(replace(small_corpus(), grave=frozenset()), tmp_path, WordEncoder())
    assert (len(folders(tmp_path)), len(folders(tmp_path, "words"))) == (3, 2)


def test_words_that_are_cut_in_another_way_are_indexed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    TopicSearch(small_corpus(), tmp_path)
    monkeypatch.setattr("callflow.retrieval.lexical.stem", lambda word: word[:3])
    assert TopicSearch(small_corpus(), tmp_path).score("smoked").likely[0][0] == "fire"
    assert len(folders(tmp_path, "words")) == 2


def test_old_indexes_are_removed_and_the_newest_stay(tmp_path: Path) -> None:
    names: list[str] = []
    for number in range(VERSIONS_KEPT + 2):
        opened(tmp_path, WordEncoder(f"words {number}"))
        names += [each.name for each in folders(tmp_path) if each.name not in names]
        # Folders made within one tick of the clock would be equally old.
        os.utime(tmp_path / names[-1], (number, number))
    assert {each.name for each in folders(tmp_path)} == set(names[-VERSIONS_KEPT:])


@pytest.mark.parametrize("damage", ["cut", "gone", "no note", "half a note"])
def test_a_damaged_index_is_built_anew(tmp_path: Path, damage: str) -> None:
    opened(tmp_path)
    (place,) = folders(tmp_path)
    match damage:
        case "cut":
            (place / "vectors.npy").write_bytes(b"\x93NUMPY")
        case "gone":
            (place / "vectors.npy").unlink()
        case "no note":
            (place / "whole.json").unlink()
        case _:
            (place / "whole.json").write_text('{"sizes": [', encoding="utf-8")
    again = WordEncoder()
    opened(tmp_path, again)
    assert again.encoded != []


def test_damaged_words_are_indexed_anew(tmp_path: Path) -> None:
    wanted = TopicSearch(small_corpus(), tmp_path).score("there is smoke")
    (place,) = folders(tmp_path, "words")
    for each in place.rglob("*.store"):
        each.unlink()
    assert TopicSearch(small_corpus(), tmp_path).score("there is smoke") == wanted


def test_what_a_killed_builder_left_is_never_used_and_swept_away(tmp_path: Path) -> None:
    class Dies(WordEncoder):
        def encode_all(self, texts: Sequence[str]) -> Vectors:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    child = FORK.Process(target=opened, args=(tmp_path, Dies()))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    assert len(folders(tmp_path, "building-")) == 1
    opened(tmp_path)
    assert folders(tmp_path, "building-") == []


def test_a_second_process_waits_for_the_first_and_builds_nothing(tmp_path: Path) -> None:
    go_on, encoding, arrived = FORK.Event(), FORK.Event(), FORK.Event()

    class Waits(WordEncoder):
        def encode_all(self, texts: Sequence[str]) -> Vectors:
            encoding.set()
            assert go_on.wait(20)
            return super().encode_all(texts)

    def second() -> None:
        arrived.set()
        encoder = WordEncoder()
        opened(tmp_path, encoder)
        os._exit(len(encoder.encoded))

    first = FORK.Process(target=opened, args=(tmp_path, Waits()))
    other = FORK.Process(target=second)
    first.start()
    assert encoding.wait(20)
    other.start()
    assert arrived.wait(20)
    assert other.exitcode is None
    go_on.set()
    first.join(20)
    other.join(20)
    assert [first.exitcode, other.exitcode] == [0, 0]


def test_a_place_that_cannot_be_written_is_named_and_words_do_without(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    folder = tmp_path / "file" / "index"
    with pytest.raises(IndexFolderUnusable, match="make the folder writable") as caught:
        TopicSearch(small_corpus(), folder)
    assert caught.value.folder == folder
    found = build_engine(SopLibrary.load(), "lexical", folder)
    assert found.score("there is smoke in the lift").danger > 0.5
