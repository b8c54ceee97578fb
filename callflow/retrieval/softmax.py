"""Which topic a vector belongs to: multinomial logistic regression, in numpy.

Trained in seconds on some thousand vectors, always to the same weights. Its scores are calibrated
where they are added to those of others, in `views.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Labels = npt.NDArray[np.intp]

FOLDS: Final = 5
_MOST_STEPS: Final = 200
_HISTORY: Final = 10
# A gradient this small, relative to the first, changes no probability that anybody could see.
_ENOUGH: Final = 3e-4


@dataclass(frozen=True, slots=True, eq=False)
class Softmax:
    """`weights` is (dimensions, topics), `bias` (topics,)."""

    weights: Floats
    bias: Floats

    def probabilities(self, vectors: Floats) -> Floats:
        """Return (…, topics), each row summing to 1, for vectors (…, dimensions)."""
        return softmax(vectors @ self.weights + self.bias)


def softmax(scores: Floats) -> Floats:
    """Return the probabilities of scores along the last axis."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def train(
    vectors: Floats, labels: Labels, topics: int, weights: Doubles, penalty: float
) -> Softmax:
    """Fit `topics` classes to vectors (n, dimensions) with labels (n,) from 0.

    `weights` (n,) say how much each vector counts; `penalty` (above 0) keeps the weights small
    (L2), and is measured against a mean over the vectors. A topic without a vector gets a
    probability of nearly nothing.
    """
    dimensions = vectors.shape[1]
    share = (weights / weights.sum()).astype(np.float32)
    wanted = np.zeros((len(vectors), topics), np.float32)
    wanted[np.arange(len(vectors)), labels] = 1.0

    def loss(flat: Doubles) -> tuple[float, Doubles]:
        matrix = flat.reshape(dimensions + 1, topics)
        found = softmax(vectors @ matrix[:-1].astype(np.float32) + matrix[-1].astype(np.float32))
        error = (found - wanted) * share[:, None]
        chosen = found[np.arange(len(vectors)), labels]
        value = -float(np.log(np.maximum(chosen, 1e-30)) @ share)
        value += penalty / 2 * float((matrix[:-1] ** 2).sum())
        slope = np.empty_like(matrix)
        slope[:-1] = (vectors.T @ error) + penalty * matrix[:-1]
        slope[-1] = error.sum(axis=0)
        return value, slope.ravel()

    flat = minimum(loss, np.zeros((dimensions + 1) * topics), _ENOUGH)
    matrix = flat.reshape(dimensions + 1, topics).astype(np.float32)
    return Softmax(np.ascontiguousarray(matrix[:-1]), matrix[-1].copy())


def minimum(
    loss: Callable[[Doubles], tuple[float, Doubles]], start: Doubles, enough: float = 1e-6
) -> Doubles:
    """Return the minimum of a smooth convex function by L-BFGS; `loss` gives value and slope.

    It stops where the slope is `enough` times as steep as at the start.
    """
    here, (value, slope) = start, loss(start)
    first = float(np.linalg.norm(slope))
    steps: list[tuple[Doubles, Doubles]] = []
    for _ in range(_MOST_STEPS):
        if np.linalg.norm(slope) <= enough * first:
            break
        direction = _direction(slope, steps)
        length, downhill = 1.0, float(direction @ slope)
        there, (new_value, new_slope) = here + direction, loss(here + direction)
        # Armijo: half the step until it pays; a convex function always lets some step pay.
        while new_value > value + 1e-4 * length * downhill and length > 1e-8:
            length /= 2
            there = here + length * direction
            new_value, new_slope = loss(there)
        if new_value >= value:
            break
        moved, turned = there - here, new_slope - slope
        if float(moved @ turned) > 1e-12:
            steps = [*steps, (moved, turned)][-_HISTORY:]
        here, value, slope = there, new_value, new_slope
    return here


def _direction(slope: Doubles, steps: list[tuple[Doubles, Doubles]]) -> Doubles:
    """The two loops of L-BFGS: downhill, bent by how the slope turned in the last steps."""
    direction = -slope
    weights = []
    for moved, turned in reversed(steps):
        weight = float(moved @ direction) / float(moved @ turned)
        direction = direction - weight * turned
        weights.append(weight)
    if steps:
        moved, turned = steps[-1]
        direction = direction * (float(moved @ turned) / float(turned @ turned))
    for (moved, turned), weight in zip(steps, reversed(weights), strict=True):
        back = float(turned @ direction) / float(moved @ turned)
        direction = direction + (weight - back) * moved
    return direction


def folds(labels: Labels) -> Labels:
    """Return the fold (0 to 4) of each vector, so that every label is spread over all of them."""
    found = np.zeros(len(labels), np.intp)
    for label in np.unique(labels):
        places = np.flatnonzero(labels == label)
        found[places] = np.arange(len(places)) % FOLDS
    return found
