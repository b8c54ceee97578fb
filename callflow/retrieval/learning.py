"""What an index learns from its examples: a classifier, and what each view is worth.

Deterministic: the same corpus gives the same weights on one machine, and the same to the last few
bits on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from callflow.retrieval.bayes import WordEvidence
from callflow.retrieval.corpus import Corpus, Example
from callflow.retrieval.nearest import Floats
from callflow.retrieval.softmax import FOLDS, Doubles, Labels, Softmax, folds, train
from callflow.retrieval.views import UNLEARNED, VIEWS, Views, worth

MOST_TOPICS: Final = 128
"""Above this many topics no classifier is trained: neighbours and words tell them apart."""

PENALTY: Final = 1e-4
CUE_WEIGHT: Final = 0.3
"""A key phrase counts as much as a third of an utterance: it is one only in part."""

_MOST_TRIED: Final = 1_500
_FEWEST_TRIED: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Lessons:
    """The examples with their vectors (n, dimensions) and topics (n,), which number `names`."""

    corpus: Corpus
    names: Sequence[str]
    examples: Sequence[Example]
    vectors: Floats
    labels: Labels

    @property
    def topics(self) -> int:
        """How many topics there are."""
        return len(self.names)

    def classifier(self) -> Softmax | None:
        """Return one trained on all examples; None for too many topics or fewer than two."""
        known = len(np.unique(self.labels)) if len(self.labels) else 0
        if known < 2 or self.topics > MOST_TOPICS:
            return None
        return self._trained(np.arange(len(self.labels)))

    def worth(self, views: Views, rows: Sequence[int]) -> Doubles:
        """Return what each view is worth; `rows` are the rows of the examples in `views`.

        An example is judged as if it, and in the classifier the fold that it is in, were unknown.
        """
        utterances = [at for at, example in enumerate(self.examples) if not example.cue]
        if len(utterances) < _FEWEST_TRIED or len(np.unique(self.labels[utterances])) < 2:
            return np.array(UNLEARNED)
        tried = utterances[:: -(-len(utterances) // _MOST_TRIED)]
        found = np.zeros((len(tried), self.topics, len(VIEWS)), np.float32)
        fold = self._folds()
        for one in range(FOLDS):
            held = [place for place, at in enumerate(tried) if fold[at] == one]
            if held:
                blind = self._unknowing(views, fold == one)
                for place in held:
                    at = tried[place]
                    text = self.examples[at].text
                    found[place] = blind.of(self.vectors[at], text, without=rows[at])
        return worth(found, self.labels[tried])

    def _folds(self) -> Labels:
        """The fold of each example, so that every topic in each language is in all of them."""
        codes = {code: at for at, code in enumerate(sorted({e.language for e in self.examples}))}
        language = np.array([codes[example.language] for example in self.examples])
        fold: Labels = folds(self.labels * len(codes) + language)
        return fold

    def _unknowing(self, views: Views, held: npt.NDArray[np.bool_]) -> Views:
        """Return the views as they were without the utterances of one fold. Key phrases stay: they
        were not taken from the examples."""
        cue = np.array([example.cue for example in self.examples])
        known = np.flatnonzero(cue | ~held)
        corpus = replace(self.corpus, examples=tuple(self.examples[int(at)] for at in known))
        classifier = self._trained(known) if views.classifier is not None else None
        evidence = WordEvidence(corpus, self.names)
        return replace(views, classifier=classifier, evidence=evidence)

    def _trained(self, rows: Labels) -> Softmax:
        labels = self.labels[rows]
        weights = np.array([CUE_WEIGHT if self.examples[int(at)].cue else 1.0 for at in rows])
        # Each topic counts the same, however many examples its author thought of.
        weights /= np.bincount(labels, weights=weights, minlength=self.topics)[labels]
        return train(self.vectors[rows], labels, self.topics, weights, PENALTY)
