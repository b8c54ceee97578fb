"""An index is built once, whole or not at all, and found again by whoever needs it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from callflow.retrieval.corpus import Corpus
from callflow.retrieval.index import Index, open_index
from callflow.retrieval.kept import KEPT, IndexFolderUnusable
from callflow.retrieval.nearest import Floats, Nearest, neighbourhoods
from callflow.retrieval.softmax import softmax
from callflow.retrieval.views import UNLEARNED, best_mean, worth
from tests.word_encoder import WordEncoder, small_corpus

FORK = multiprocessing.get_context("fork")


def folders(where: Path) -> list[Path]:
    return sorted(each for each in where.iterdir() if each.is_dir())


def same(one: Index, other: Index) -> bool:
    vectors = [each.views.nearest.vectors for each in (one, other)]
    return (
        one.ids == other.ids
        and np.array_equal(vectors[0], vectors[1])
        and list(one.worth) == list(other.worth)
    )


def test_what_was_built_is_only_opened_the_next_time(tmp_path: Path) -> None:
    built = open_index(small_corpus(), tmp_path / "index", WordEncoder())
    later = WordEncoder()
    assert same(built, open_index(small_corpus(), tmp_path / "index", later))
    assert later.encoded == []
    assert len(folders(tmp_path / "index")) == 1


def test_other_content_and_other_weights_get_an_index_of_their_own(tmp_path: Path) -> None:
    corpus = small_corpus()
    open_index(corpus, tmp_path, WordEncoder())
    open_index(replace(corpus, grave=frozenset()), tmp_path, WordEncoder())
    open_index(corpus, tmp_path, WordEncoder("words 2"))
    assert len(folders(tmp_path)) == 3


def test_old_indexes_are_removed_and_the_newest_stay(tmp_path: Path) -> None:
    corpus = small_corpus()
    names = []
    for number in range(KEPT + 2):
        open_index(corpus, tmp_path, WordEncoder(f"words {number}"))
        names += [each.name for each in folders(tmp_path) if each.name not in names]
        # Folders made within one tick of the clock would be equally old.
        os.utime(tmp_path / names[-1], (number, number))
    assert {each.name for each in folders(tmp_path)} == set(names[-KEPT:])


def test_files_are_mapped_and_cannot_be_written(tmp_path: Path) -> None:
    index = open_index(small_corpus(), tmp_path, WordEncoder())
    with pytest.raises(ValueError, match="read-only"):
        index.views.nearest.vectors[0, 0] = 1.0


@pytest.mark.parametrize("damage", ["cut", "gone", "facts", "no facts"])
def test_a_damaged_index_is_built_anew(tmp_path: Path, damage: str) -> None:
    whole = open_index(small_corpus(), tmp_path, WordEncoder())
    (place,) = folders(tmp_path)
    if damage == "cut":
        (place / "vectors.npy").write_bytes(b"\x93NUMPY")
    elif damage == "gone":
        (place / "topic.npy").unlink()
    elif damage == "facts":
        (place / "index.json").write_text('{"topics": [', encoding="utf-8")
    else:
        (place / "index.json").unlink()
    again = WordEncoder()
    assert open_index(small_corpus(), tmp_path, again).ids == whole.ids
    assert again.encoded != []


def test_what_a_killed_builder_left_is_never_used_and_swept_away(tmp_path: Path) -> None:
    class Dies(WordEncoder):
        def encode_all(self, texts: Sequence[str]) -> Floats:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError

    child = FORK.Process(target=open_index, args=(small_corpus(), tmp_path, Dies()))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    assert [each.name.startswith("building-") for each in folders(tmp_path)] == [True]
    open_index(small_corpus(), tmp_path, WordEncoder())
    assert [each.name.startswith("building-") for each in folders(tmp_path)] == [False]


def test_a_second_process_waits_for_the_first_and_builds_nothing(tmp_path: Path) -> None:
    go_on, encoding, arrived = FORK.Event(), FORK.Event(), FORK.Event()

    class Waits(WordEncoder):
        def encode_all(self, texts: Sequence[str]) -> Floats:
            encoding.set()
            assert go_on.wait(20)
            return super().encode_all(texts)

    def second() -> None:
        arrived.set()
        encoder = WordEncoder()
        open_index(small_corpus(), tmp_path, encoder)
        os._exit(len(encoder.encoded))

    first = FORK.Process(target=open_index, args=(small_corpus(), tmp_path, Waits()))
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


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    with pytest.raises(IndexFolderUnusable, match="make the folder writable") as caught:
        open_index(small_corpus(), tmp_path / "file" / "index", WordEncoder())
    assert caught.value.folder == tmp_path / "file" / "index"


def test_a_corpus_without_examples_is_searched_by_its_passages(tmp_path: Path) -> None:
    bare = Corpus(small_corpus().passages, ())
    index = open_index(bare, tmp_path, WordEncoder())
    assert tuple(index.worth) == UNLEARNED
    assert index.views.classifier is None


def test_an_example_of_an_unknown_topic_is_left_out(tmp_path: Path) -> None:
    corpus = small_corpus()
    passages = tuple(each for each in corpus.passages if each.topic != "test")
    index = open_index(replace(corpus, passages=passages), tmp_path, WordEncoder())
    assert "test" not in index.topics
    assert len(index.views.topic) < len(corpus.examples) + len(passages)


def test_facts_are_plain_json(tmp_path: Path) -> None:
    open_index(small_corpus(), tmp_path, WordEncoder())
    (place,) = folders(tmp_path)
    facts = json.loads((place / "index.json").read_text(encoding="utf-8"))
    assert facts["grave"] == ["fire", "water"]
    assert {each.suffix for each in place.glob("*.*")} == {".npy", ".json"}


def test_neighbourhoods_find_nearly_all_that_a_full_comparison_finds() -> None:
    chance = np.random.default_rng(5)
    homes = chance.normal(size=(300, 16))
    rows = homes[chance.integers(0, 300, size=31_000)] + 0.4 * chance.normal(size=(31_000, 16))
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    found = neighbourhoods(vectors)
    assert found is not None
    order, centres, bounds = found
    assert sorted(order) == list(range(len(vectors)))
    likely, every = Nearest(vectors[order], centres, bounds), Nearest(vectors[order])
    kept = 0
    for question in vectors[::700]:
        rows_read, near = likely.search(question)
        assert len(rows_read) < 0.3 * len(vectors)
        best = np.argsort(-every.search(question)[1])[:5]
        kept += len(set(best) & set(rows_read[np.argsort(-near)[:5]]))
    assert kept >= 0.95 * 5 * len(vectors[::700])


def test_few_rows_are_all_compared() -> None:
    assert neighbourhoods(np.ones((50, 4), np.float32)) is None


def test_the_mean_of_the_best_scores_of_each_topic() -> None:
    topic = np.array([2, 0, 2, 2, 0], np.int32)
    score = np.array([0.5, -0.25, 0.75, 0.1, 0.25], np.float32)
    assert best_mean(topic, score, 4, 2) == pytest.approx([0.0, 0.0, 0.625, 0.0], abs=1e-5)
    assert best_mean(topic, score, 4, 1) == pytest.approx([0.25, 0.0, 0.75, 0.0], abs=1e-5)
    assert best_mean(topic[:0], score[:0], 2, 1) == pytest.approx([0.0, 0.0])


def test_a_view_that_is_right_is_worth_more_and_one_that_misleads_nothing() -> None:
    chance = np.random.default_rng(1)
    labels = chance.integers(0, 4, size=200)
    right = np.eye(4)[labels] + 0.5 * chance.normal(size=(200, 4))
    found = np.stack([right, chance.normal(size=(200, 4)), -right], axis=-1).astype(np.float32)
    good, noise, misleading = worth(found, labels)
    assert good > 1.0
    assert noise < 0.3 * good
    assert misleading == 0.0


def test_the_sum_of_views_means_what_it_says() -> None:
    chance = np.random.default_rng(3)
    scores = chance.normal(scale=2.0, size=(3_000, 5, 1)).astype(np.float32)
    shares = softmax(scores[:, :, 0]).astype(float)
    labels = np.array([chance.choice(5, p=row / row.sum()) for row in shares])
    assert worth(scores, labels) == pytest.approx([1.0], rel=0.1)
    assert worth(scores * 3, labels) == pytest.approx([1 / 3], rel=0.1)
