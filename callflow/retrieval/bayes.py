"""Which topic some words belong to, by how often each topic's examples use them: naive Bayes.

Two kinds that err differently: the multinomial one asks how well the words fit a topic, its
complement how badly they fit all the others (Rennie et al., 2003), which helps where topics have
few examples. Plain Python: a worker without numpy uses it.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

from callflow.language.sop_words import is_chinese, normalize, tokens
from callflow.retrieval.corpus import Corpus
from callflow.retrieval.evidence import CueIndex
from callflow.retrieval.wordindex import words_of

COUNTING: Final = "words 1"
"""Names the way of counting and of writing the counts down: to be changed with either."""

MOST_TOPICS: Final = 512
"""Above this many topics nothing is counted: only words that are shared tell them apart."""

CUE_WEIGHT: Final = 0.5
"""A key phrase counts as much as half an utterance: it is one only in part."""

_GRAM: Final = 4
_MULTINOMIAL, _COMPLEMENT = 0.1, 0.3
"""What is added to each count: the smaller, the more a word counts that a topic never uses."""
# A feature seen once says nothing that its example does not say through its other words.
_FEWEST_SEEN: Final = 2
_NAMES: Final = "names"


def features(text: str) -> tuple[str, ...]:
    """Return what `text` is judged by, each once: stems, pairs of them, and pieces of words.

    Pieces of four letters outlive misheard endings; Chinese gives characters and pairs of them.
    """
    normalized = normalize(text)
    found = list(words_of(text))
    stems = [each for each in tokens(normalized) if not is_chinese(each)]
    found += [f"{one}_{other}" for one, other in pairwise(stems)]
    for word in normalized.split():
        if not is_chinese(word):
            held = f"<{word}>"
            found += [f"#{held[at : at + _GRAM]}" for at in range(max(1, len(held) - _GRAM + 1))]
    return tuple(dict.fromkeys(found))


@dataclass(slots=True)
class _Uses:
    """How often each topic uses each feature: plainly, and weighed by how rare features are."""

    place: array[int] = field(default_factory=lambda: array("I"))
    topic: array[int] = field(default_factory=lambda: array("H"))
    plain: array[float] = field(default_factory=lambda: array("f"))
    weighed: array[float] = field(default_factory=lambda: array("f"))

    def add(self, topic: int, sums: Mapping[int, Sequence[float]]) -> None:
        """Take the two sums of every feature that one topic uses."""
        for place, (plain, weighed) in sums.items():
            self.place.append(place)
            self.topic.append(topic)
            self.plain.append(plain)
            self.weighed.append(weighed)

    def columns(self) -> tuple[array[int], array[int], array[float], array[float]]:
        """All four, of one length."""
        return self.place, self.topic, self.plain, self.weighed


class NaiveBayes:
    """Counts once, then only reads. Topics are numbers from 0."""

    def __init__(self, examples: Sequence[tuple[str, int, float]], topics: int) -> None:
        """Take (text, topic, weight) of every example (60 µs each)."""
        self._topics = topics
        numbers: dict[str, int] = {}
        # Numbers, not words, and one topic at a time: a heap that has once grown stays so.
        bags = [
            array("I", (numbers.setdefault(name, len(numbers)) for name in features(text)))
            for text, _, _ in examples
        ]
        seen = Counter(number for bag in bags for number in bag)
        known = [name for name, number in numbers.items() if seen[number] >= _FEWEST_SEEN]
        self._place = {name: at for at, name in enumerate(known)}
        moved = {numbers[name]: at for name, at in self._place.items()}
        count = len(bags)
        self._idf = array(
            "f", (math.log((1 + count) / (1 + seen[numbers[name]])) + 1 for name in known)
        )
        of_topic: dict[int, list[int]] = defaultdict(list)
        for at, (_, topic, _) in enumerate(examples):
            of_topic[topic].append(at)
        uses = _Uses()
        for topic in sorted(of_topic):
            sums: dict[int, list[float]] = {}
            for at in of_topic[topic]:
                places = [moved[number] for number in bags[at] if number in moved]
                weight = examples[at][2]
                for place, share in self._shares(places):
                    both = sums.setdefault(place, [0.0, 0.0])
                    both[0] += weight
                    both[1] += weight * share
            uses.add(topic, sums)
        self._fit(uses)

    def write(self, folder: Path) -> None:
        """Write what was counted into a folder, which is made; `open` reads it on this machine."""
        folder.mkdir()
        (folder / _NAMES).write_text("\n".join(self._place), encoding="utf-8")
        for name, column in self._columns().items():
            with (folder / name).open("wb") as file:
                column.tofile(file)

    @classmethod
    def open(cls, folder: Path) -> NaiveBayes:
        """Read what was counted: 20 ms in place of a second and a half for our own procedures."""
        opened = cls([], 0)
        names = (folder / _NAMES).read_text(encoding="utf-8")
        opened._place = {name: at for at, name in enumerate(names.split("\n") if names else ())}
        for name, column in opened._columns().items():
            path = folder / name
            with path.open("rb") as file:
                del column[:]
                column.fromfile(file, path.stat().st_size // column.itemsize)
        opened._topics = len(opened._absent)
        return opened

    def _columns(self) -> dict[str, array[Any]]:
        """All that is kept besides the names of the features, by the names of its files."""
        return {
            "idf": self._idf,
            "absent": self._absent,
            "others": self._others,
            "first": self._first,
            "topic": self._topic,
            "fits": self._fits,
            "misfits": self._misfits,
        }

    def _shares(self, places: Sequence[int]) -> list[tuple[int, float]]:
        """The features of a text as a vector of length 1, rare ones more."""
        length = math.sqrt(sum(self._idf[at] ** 2 for at in places)) or 1.0
        return [(at, self._idf[at] / length) for at in places]

    def _fit(self, uses: _Uses) -> None:
        """Keep what each feature adds to the topics that use it, over those that do not."""
        size, topics = len(self._place), self._topics
        sums, own, every = [0.0] * topics, [0.0] * topics, [0.0] * size
        for at, topic, number, weight in zip(*uses.columns(), strict=True):
            sums[topic] += number
            own[topic] += weight
            every[at] += weight
        total = sum(own)
        self._absent = array("d", (-math.log(each + _MULTINOMIAL * size + 1e-9) for each in sums))
        self._others = array(
            "d", (math.log(total + _COMPLEMENT * size - each + 1e-9) for each in own)
        )
        # What feature n adds stands from first[n] up to first[n + 1].
        order = sorted(range(len(uses.place)), key=uses.place.__getitem__)
        spread = Counter(uses.place)
        self._first = array("I", accumulate((spread[at] for at in range(size)), initial=0))
        self._topic = array("H", (uses.topic[at] for at in order))
        self._fits = array(
            "f", (math.log((uses.plain[at] + _MULTINOMIAL) / _MULTINOMIAL) for at in order)
        )
        self._misfits = array(
            "f", (_complement(every[uses.place[at]], uses.weighed[at]) for at in order)
        )

    def score(self, text: str) -> tuple[list[float], list[float]]:
        """Return by topic how well the words fit it, and how badly they fit the others.

        Both are centred (0 is an average topic) and do not grow with the length of the text.
        """
        shares = self._shares([self._place[name] for name in features(text) if name in self._place])
        fit = [len(shares) * absent for absent in self._absent]
        weight = sum(share for _, share in shares)
        misfit = [weight * others for others in self._others]
        for at, share in shares:
            for pair in range(self._first[at], self._first[at + 1]):
                fit[self._topic[pair]] += self._fits[pair]
                misfit[self._topic[pair]] += share * self._misfits[pair]
        return _centred(fit, len(shares)), _centred(misfit, weight)


def _complement(every: float, own: float) -> float:
    return math.log(every + _COMPLEMENT) - math.log(every + _COMPLEMENT - own)


def _centred(scores: list[float], size: float) -> list[float]:
    if not scores or size <= 0:
        return [0.0] * len(scores)
    mean, scale = sum(scores) / len(scores), math.sqrt(max(size, 1.0))
    return [(score - mean) / scale for score in scores]


class WordEvidence:
    """What the words of an utterance say for each topic of a corpus: Bayes and key phrases."""

    def __init__(
        self, corpus: Corpus, topics: Sequence[str], bayes: NaiveBayes | None = None
    ) -> None:
        """Count the words of the corpus' examples (1.4 s for our own 19,500); `bayes` has done so
        before."""
        self._number = {topic: at for at, topic in enumerate(topics)}
        known = [each for each in corpus.examples if each.topic in self._number]
        self._bayes = bayes
        if bayes is None and known and len(topics) <= MOST_TOPICS:
            counted = [
                (each.text, self._number[each.topic], CUE_WEIGHT if each.cue else 1.0)
                for each in known
            ]
            self._bayes = NaiveBayes(counted, len(topics))
        cues: dict[str, list[str]] = {topic: [] for topic in topics}
        for each in known:
            if each.cue:
                cues[each.topic].append(each.text)
        self._cues = CueIndex(cues)

    def write(self, folder: Path) -> None:
        """Write what was counted into a folder, which is made, unless there was nothing."""
        if self._bayes is not None:
            self._bayes.write(folder)

    @classmethod
    def open(cls, corpus: Corpus, topics: Sequence[str], folder: Path) -> WordEvidence:
        """The evidence of a corpus whose words were counted and written before."""
        return cls(corpus, topics, NaiveBayes.open(folder) if folder.exists() else None)

    def of(self, text: str) -> tuple[list[float], list[float], list[float]]:
        """Return by topic how well the words fit, how badly the others, and the cues heard."""
        none = [0.0] * len(self._number)
        fit, misfit = self._bayes.score(text) if self._bayes else (none, none)
        cues = list(none)
        for topic, evidence in self._cues.score(text).items():
            cues[self._number[topic]] = evidence.score
        return fit, misfit, cues
