"""The classifier learns what can be learned, always the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.retrieval.softmax import Floats, Labels, folds, minimum, softmax, train


def clouds(per_topic: int, spread: float) -> tuple[Floats, Labels]:
    """Three clouds of points of length 1, and which one each belongs to."""
    chance = np.random.default_rng(7)
    centres = np.eye(3, 8)
    labels = np.repeat(np.arange(3), per_topic)
    points = centres[labels] + chance.normal(scale=spread, size=(len(labels), 8))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), labels


def test_clouds_that_lie_apart_are_told_apart() -> None:
    points, labels = clouds(20, 0.1)
    trained = train(points, labels, 3, np.ones(len(labels)), 1e-3)
    found = trained.probabilities(points)
    assert (found.argmax(axis=1) == labels).all()
    assert np.allclose(found.sum(axis=1), 1.0, atol=1e-5)


def test_the_same_points_give_the_same_weights() -> None:
    points, labels = clouds(20, 0.5)
    one, other = (train(points, labels, 3, np.ones(len(labels)), 1e-4) for _ in range(2))
    assert np.array_equal(one.weights, other.weights)


def test_a_topic_without_a_point_is_hardly_ever_told() -> None:
    points, labels = clouds(20, 0.1)
    trained = train(points, labels, 4, np.ones(len(labels)), 1e-3)
    assert trained.probabilities(points)[:, 3].max() < 0.05


def test_weights_make_a_rare_topic_count_as_much_as_a_frequent_one() -> None:
    points, labels = clouds(30, 0.9)
    kept = np.flatnonzero((labels != 2) | (np.arange(len(labels)) % 10 == 0))
    points, labels = points[kept], labels[kept]
    even = 1.0 / np.bincount(labels)[labels]
    plain = train(points, labels, 3, np.ones(len(labels)), 1e-2).probabilities(points)
    balanced = train(points, labels, 3, even, 1e-2).probabilities(points)
    assert balanced[:, 2].mean() > 2 * plain[:, 2].mean()


def test_the_minimum_of_a_bowl_is_found() -> None:
    wanted = np.array([3.0, -2.0, 0.5])
    scale = np.array([1.0, 100.0, 0.1])
    found = minimum(
        lambda x: (float((scale * (x - wanted) ** 2).sum()), 2 * scale * (x - wanted)), np.zeros(3)
    )
    assert found == pytest.approx(wanted, abs=1e-2)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_every_topic_is_spread_evenly_over_the_folds(labels: list[int]) -> None:
    fold = folds(np.array(labels))
    for label in set(labels):
        sizes = np.bincount(fold[np.array(labels) == label], minlength=5)
        assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.floats(-1e4, 1e4, width=32), min_size=1, max_size=9))
def test_probabilities_are_never_outside_of_0_and_1(scores: list[float]) -> None:
    found = softmax(np.array(scores, np.float32))
    assert found.sum() == pytest.approx(1.0, abs=1e-4)
    assert ((found >= 0) & (found <= 1)).all()
