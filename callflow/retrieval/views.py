"""Seven views of what an utterance is about, and how much each of them is worth.

By meaning: 1. a classifier trained on the examples, 2. the examples that are nearest, 3. the
passage that is nearest. By words: 4. the texts that share its rare words, 5. and 6. how well its
words fit a topic and how badly the others, 7. the key phrases in it. None is right alone; what each
adds is learned
from the corpus itself, on examples that the view did not know, so that a corpus of many examples
trusts the classifier and one of few trusts the passages more. The sum, turned into probabilities,
is calibrated by the same fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from callflow.retrieval.bayes import WordEvidence
from callflow.retrieval.nearest import Floats, Ints, Nearest
from callflow.retrieval.softmax import Doubles, Labels, Softmax, minimum, softmax
from callflow.retrieval.wordindex import WordIndex, words_of

VIEWS: Final = ("classifier", "examples", "passage", "words", "fit", "misfit", "cues")
UNLEARNED: Final = (1.0, 10.0, 20.0, 0.3, 0.0, 0.0, 0.0)
"""The worth of the views where there are too few examples to learn it from."""

_NEIGHBOURS: Final = 5
_SHARING: Final = 3
_WORD_HITS: Final = 256


@dataclass(frozen=True, slots=True, eq=False)
class Views:
    """What is known of the rows: the topic of each, and whether it is an example or a passage."""

    topics: int
    topic: Ints
    is_example: npt.NDArray[np.bool_]
    nearest: Nearest
    words: WordIndex
    evidence: WordEvidence
    classifier: Softmax | None

    def of(self, vector: Floats, text: str, without: int | None = None) -> Floats:
        """Return (topics, views) for one utterance; views 1 to 4 as if row `without` were not."""
        found = np.zeros((self.topics, len(VIEWS)), np.float32)
        if self.classifier is not None:
            found[:, 0] = vector @ self.classifier.weights + self.classifier.bias
        rows, near = self.nearest.search(vector)
        example = self.is_example[rows]
        passage = ~example
        if without is not None:
            example = example & (rows != without)
        topic = self.topic[rows]
        found[:, 1] = best_mean(topic[example], near[example], self.topics, _NEIGHBOURS)
        found[:, 2] = best_mean(topic[passage], near[passage], self.topics, 1)
        hits = [hit for hit in self.words.search(words_of(text), _WORD_HITS) if hit[0] != without]
        heard = self.topic[np.array([row for row, _ in hits], np.intp)]
        scores = np.array([score for _, score in hits], np.float32)
        found[:, 3] = best_mean(heard, scores, self.topics, _SHARING)
        found[:, 4:] = np.transpose(self.evidence.of(text))
        return found


def best_mean(topic: Ints, score: Floats, topics: int, most: int) -> Floats:
    """Return the mean of the `most` best scores of each topic, 0 for a topic without any."""
    if not len(topic):
        return np.zeros(topics, np.float32)
    scale = 2.001 * max(float(np.abs(score).max()), 1e-6)
    # Topic and score in one number, since one plain sort is six times as fast as one by two keys.
    key = np.sort(topic + (0.5 - score / scale).astype(np.float64))
    topic = key.astype(np.int32)
    first = np.searchsorted(topic, np.arange(topics))
    kept = np.arange(len(topic)) - first[topic] < most
    best = (0.5 - (key[kept] - topic[kept])) * scale
    total = np.bincount(topic[kept], weights=best, minlength=topics)
    count = np.bincount(topic[kept], minlength=topics)
    mean: Floats = (total / np.maximum(count, 1)).astype(np.float32)
    return mean


def worth(found: Floats, labels: Labels) -> Doubles:
    """Return what each view is worth, for examples (n, topics, views) whose topics are known.

    It is what makes the known topics most probable (a conditional logit); no view counts against a
    topic, so one that would is left out.
    """
    spread = np.maximum(found.std(axis=(0, 1)), 1e-6)
    used = np.flatnonzero(found.std(axis=(0, 1)) > 1e-6)
    while True:
        fitted = _fit(found[..., used] / spread[used], labels)
        if len(used) <= 1 or (fitted >= 0).all():
            break
        used = used[fitted >= 0] if (fitted >= 0).any() else used[:1]
    weights = np.zeros(found.shape[-1])
    weights[used] = np.maximum(fitted, 0.0) / spread[used]
    return weights


def _fit(found: Floats, labels: Labels) -> Doubles:
    rows = np.arange(len(labels))
    right = found[rows, labels]

    def loss(weights: Doubles) -> tuple[float, Doubles]:
        shares = softmax((found @ weights).astype(np.float32))
        surprise = -float(np.log(np.maximum(shares[rows, labels], 1e-30)).mean())
        slope = ((shares[..., None] * found).sum(axis=1) - right).mean(axis=0)
        # As if nothing was known before but that no view is worth more than a few: it keeps
        # those finite that are always right about a handful of examples.
        penalty = weights / len(labels)
        return surprise + float(penalty @ weights) / 2, slope.astype(np.float64) + penalty

    return minimum(loss, np.zeros(found.shape[-1]))
