"""Search by meaning: which topics an utterance is about, and which passages answer it.

Implements `Classifier` and `Retriever` with an index and the encoder that it was built with. What
the caller says is not there ("no smoke") is taken out before its meaning is asked for, since a
vector hardly knows a denial; a key phrase of a danger that was clearly heard can only raise that
danger.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from callflow.call.language_tag import primary_language
from callflow.call.record import SopChunk
from callflow.language.sop_words import normalize
from callflow.procedures.protocols import Hit, Scored
from callflow.retrieval.corpus import NOTHING
from callflow.retrieval.evidence import DangerCues
from callflow.retrieval.index import Encodes, Index
from callflow.retrieval.nearest import Floats
from callflow.retrieval.retriever import ProcedureChunks
from callflow.retrieval.softmax import softmax

PRIOR_WEIGHT: Final = 0.5
"""How much what the call was about counts beside what is said now: a prior, and no filter."""

CUE_BONUS: Final = 1.0
"""What a whole key phrase of a danger adds to the logit of its scenario."""

# Nothing is ruled out by a prior: what it does not name counts as this likely.
_UNNAMED: Final = 0.02
# What is less likely is not worth naming.
_LEAST: Final = 0.005
_REMEMBERED: Final = 64


class TopicSearch:
    """Weighs the topics of one index. Threads may share it, and children of a fork."""

    def __init__(self, index: Index, encoder: Encodes, dangers: DangerCues) -> None:
        """Take an index, the encoder that it was built with, and the cues of the same corpus."""
        self.index = index
        self._encoder = encoder
        self._dangers = dangers
        self._number = {topic: at for at, topic in enumerate(index.topics)}
        self._of_group: dict[str, list[int]] = {}
        for at, group in enumerate(index.groups):
            self._of_group.setdefault(group, []).append(at)
        passages = np.flatnonzero(index.passage >= 0)
        order = np.argsort(index.views.topic[passages], kind="stable")
        self._passages = passages[order].astype(np.int32)
        ends = np.searchsorted(index.views.topic[self._passages], np.arange(len(index.topics) + 1))
        self._ends = [int(end) for end in ends]
        self._grave = np.array([topic in index.grave for topic in index.topics])
        # A turn is classified and searched for in one breath.
        self._weighed = lru_cache(maxsize=_REMEMBERED)(self._weigh)

    def score(self, utterance: str, language: str) -> Scored:
        """Return the likely topics and the danger; see `Classifier.score`."""
        text = self._without_denied(utterance)
        if not normalize(text):
            return Scored()
        shares = softmax(self._weighed(text)[1])
        danger = float(shares[self._grave].sum())
        order = np.argsort(-shares, kind="stable")
        likely = tuple(
            (self.index.topics[at], round(float(shares[at]), 4))
            for at in order[: int((shares >= _LEAST).sum())]
            if self.index.topics[at] != NOTHING
        )
        cued = () if self._dangers is None else self._dangers.heard(utterance)
        return Scored(likely, round(min(danger, 1.0), 4), cued)

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best passage of the `k` best topics; see `Retriever.search`.

        `prior` may name groups as well as topics: a group counts for every topic in it.
        """
        vector, weighed = self._weighed(self._without_denied(utterance))
        scores = np.log(softmax(weighed) + 1e-9) + self._drawn(prior)
        order = np.argsort(-scores, kind="stable")
        best = [at for at in order if self.index.topics[at] != NOTHING][: max(0, k)]
        return tuple(self._hit(int(at), float(scores[at]), vector, language) for at in best)

    def _without_denied(self, utterance: str) -> str:
        return self._dangers.without_denied(utterance)

    def _weigh(self, text: str) -> tuple[Floats, Floats]:
        vector = self._encoder.encode(text)
        views = self.index.views.of(vector, text)
        weighed = (views @ self.index.worth).astype(np.float32)
        for topic in self._dangers.heard(text):
            weighed[self._number[topic]] += CUE_BONUS
        return vector, weighed

    def _drawn(self, prior: Mapping[str, float]) -> Floats:
        found = np.zeros(len(self.index.topics), np.float32)
        for name, share in prior.items():
            # The name of a topic is that topic, also where a group bears it too.
            numbers = [self._number[name]] if name in self._number else self._of_group.get(name, [])
            found[numbers] = np.maximum(found[numbers], share)
        drawn: Floats = PRIOR_WEIGHT * np.log(found + _UNNAMED) if prior else found
        return drawn

    def _hit(self, topic: int, score: float, vector: Floats, language: str) -> Hit:
        rows = self._passages[self._ends[topic] : self._ends[topic + 1]]
        near = self.index.views.nearest.compare(rows, vector)
        places = self.index.passage[rows]
        code = primary_language(language)
        spoken = np.array([self.index.languages[at] == code for at in places])
        # In the caller's language where there is one: two tongues never come quite as near.
        at = int(places[int(np.argmax(near + (2.0 * spoken)))])
        return Hit(
            self.index.ids[at],
            self.index.topics[topic],
            self.index.sections[at],
            self.index.languages[at],
            round(score, 4),
        )


class SemanticClassifier:
    """Implements `Classifier` over the procedures."""

    def __init__(self, search: TopicSearch) -> None:
        """Take a search over the index of a library."""
        self._search = search

    def score(self, utterance: str, language: str) -> Scored:
        """Return the likely scenarios and the danger; see `Classifier.score`. Some 4 ms."""
        return self._search.score(utterance, language)


class SemanticRetriever:
    """Implements `Retriever` over the procedures."""

    def __init__(self, search: TopicSearch, procedures: ProcedureChunks) -> None:
        """Take a search over the index of a library, and the chunks of the same library."""
        self._search = search
        self._procedures = procedures

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best chunk of the `k` nearest procedures; see `Retriever.search`."""
        return self._search.search(utterance, language, k, prior)

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure; see `Retriever.chunks`."""
        return self._procedures.of(scenario, language)
