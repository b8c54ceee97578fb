"""Search by words alone: no numpy, no encoder, ready in a second.

Four kinds of evidence are added up: two naive Bayes classifiers over the examples, the texts that
share rare words, and the key phrases, denials taken back. Their weights were found by
cross-validation on the examples of our own procedures, and make the sum a calibrated probability.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.language.sop_words import normalize
from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Hit, Scored
from callflow.retrieval.bayes import COUNTING, WordEvidence
from callflow.retrieval.corpus import NOTHING, Corpus, Example, Passage, of_library
from callflow.retrieval.evidence import DangerCues
from callflow.retrieval.kept import kept
from callflow.retrieval.wordindex import WordIndex, words_of

FIT, MISFIT, WORDS, CUES = 0.30, 4.3, 0.11, 0.16
"""What the kinds of evidence are worth, for the logit of a topic."""

PRIOR_WEIGHT: Final = 0.5
_UNNAMED: Final = 0.02
_HITS: Final = 256
_SHARING: Final = 3
_LEAST: Final = 0.005
_INDEX, _EVIDENCE = "index", "evidence"
_REMEMBERED: Final = 64


class LexicalSearch:
    """Weighs the topics of a corpus by words. Built once, then only read."""

    def __init__(
        self,
        corpus: Corpus,
        words: WordIndex | None = None,
        evidence: WordEvidence | None = None,
    ) -> None:
        """Count the words (1.8 s for our own procedures, 90 µs a text beyond).

        `words`: an index over the texts of all examples and then of all passages, if there is one;
        `evidence`: what the words of the examples say, where they were counted before.
        """
        self._corpus = corpus
        self._topics = corpus.topics
        self._number = {topic: at for at, topic in enumerate(self._topics)}
        self._groups: dict[str, list[int]] = defaultdict(list)
        for topic, group in corpus.groups.items():
            self._groups[group].append(self._number[topic])
        rows = _rows(corpus)
        self._examples = len(rows) - len(corpus.passages)
        self._topic = [self._number[row.topic] for row in rows]
        self._words = words or WordIndex.in_memory(row.text for row in rows)
        self._passages: dict[int, list[int]] = defaultdict(list)
        for at, passage in enumerate(corpus.passages):
            self._passages[self._number[passage.topic]].append(at)
        self._evidence = evidence or WordEvidence(corpus, self._topics)
        self._dangers = DangerCues(corpus)
        self._weighed = lru_cache(maxsize=_REMEMBERED)(self._weigh)

    @classmethod
    def of_library(cls, library: SopLibrary) -> LexicalSearch:
        """Return the search over our own procedures."""
        return cls(of_library(library))

    @classmethod
    def kept(cls, corpus: Corpus, folder: Path) -> LexicalSearch:
        """The same search; what it counts is kept in `folder`, and counted once per machine.

        Raises IndexFolderUnusable.
        """
        place = kept(folder, "words", f"{corpus.fingerprint} {COUNTING}", partial(_write, corpus))
        return cls(
            corpus,
            WordIndex.open(place / _INDEX),
            WordEvidence.open(corpus, corpus.topics, place / _EVIDENCE),
        )

    def score(self, utterance: str, language: str) -> Scored:
        """Return the likely topics and the danger; see `Classifier.score`."""
        if not normalize(self._dangers.without_denied(utterance)):
            return Scored()
        shares = _shares(self._weighed(utterance)[0])
        danger = sum(
            shares[self._number[each]] for each in self._corpus.grave if each in self._number
        )
        order = sorted(range(len(shares)), key=lambda at: (-shares[at], at))
        likely = tuple(
            (self._topics[at], round(shares[at], 4))
            for at in order
            if shares[at] >= _LEAST and self._topics[at] != NOTHING
        )
        return Scored(likely, round(min(danger, 1.0), 4), self._dangers.heard(utterance))

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best passage of the `k` best topics; see `Retriever.search`.

        `prior` may name groups as well as topics: a group counts for every topic in it.
        """
        weighed, sharing = self._weighed(utterance)
        known = [_UNNAMED] * len(self._topics)
        for name, share in prior.items():
            numbers = [self._number[name]] if name in self._number else self._groups.get(name, [])
            for at in numbers:
                known[at] = max(known[at], share + _UNNAMED)
        scores = [
            math.log(share + 1e-9) + PRIOR_WEIGHT * math.log(drawn)
            for share, drawn in zip(_shares(weighed), known, strict=True)
        ]
        found = [at for at, topic in enumerate(self._topics) if topic != NOTHING]
        best = sorted(found, key=lambda at: (-scores[at], at))[: max(0, k)]
        return tuple(self._hit(at, scores[at], sharing, language) for at in best)

    def _weigh(self, utterance: str) -> tuple[list[float], dict[int, float]]:
        """Return the logit of each topic, and by passage how many rare words it shares."""
        text = self._dangers.without_denied(utterance)
        logits = [
            FIT * fit + MISFIT * misfit + CUES * cues
            for fit, misfit, cues in zip(*self._evidence.of(text), strict=True)
        ]
        sharing: dict[int, float] = {}
        best: dict[int, list[float]] = defaultdict(list)
        for row, score in self._words.search(words_of(text), _HITS):
            if row >= self._examples:
                sharing[row - self._examples] = score
            if len(best[self._topic[row]]) < _SHARING:
                best[self._topic[row]].append(score)
        for at, scores in best.items():
            logits[at] += WORDS * sum(scores) / len(scores)
        return logits, sharing

    def _hit(self, topic: int, score: float, sharing: dict[int, float], language: str) -> Hit:
        code = primary_language(language)
        passages = self._corpus.passages
        at = max(
            self._passages[topic],
            key=lambda at: (passages[at].language == code, sharing.get(at, 0.0), -at),
        )
        found = passages[at]
        return Hit(found.id, found.topic, found.section, found.language, round(score, 4))


def _rows(corpus: Corpus) -> list[Example | Passage]:
    """All that is searched: the examples of topics that have a passage, and then the passages."""
    topics = frozenset(corpus.topics)
    return [*(each for each in corpus.examples if each.topic in topics), *corpus.passages]


def _write(corpus: Corpus, folder: Path) -> None:
    WordIndex.build(folder / _INDEX, (row.text for row in _rows(corpus)))
    WordEvidence(corpus, corpus.topics).write(folder / _EVIDENCE)


def _shares(logits: list[float]) -> list[float]:
    """The probabilities of logits; they sum to 1."""
    if not logits:
        return []
    highest = max(logits)
    raised = [math.exp(each - highest) for each in logits]
    total = sum(raised)
    return [each / total for each in raised]
