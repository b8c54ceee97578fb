"""The index of a corpus: built once per machine, then mapped by every process that searches.

Files are mapped, not read: the workers of a machine share their memory.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np

from callflow.retrieval.bayes import COUNTING, WordEvidence
from callflow.retrieval.corpus import NOTHING, Corpus, Example, Passage
from callflow.retrieval.kept import IndexFolderUnusable, kept
from callflow.retrieval.learning import Lessons
from callflow.retrieval.nearest import Floats, Ints, Nearest, neighbourhoods
from callflow.retrieval.softmax import Doubles, Softmax
from callflow.retrieval.views import Views
from callflow.retrieval.wordindex import WordIndex

_FACTS: Final = "index.json"
_EVIDENCE: Final = "evidence"


class Encodes(Protocol):
    """Turns texts into vectors of length 1; `name` changes when the vectors do."""

    @property
    def name(self) -> str:
        """Which weights these are, with their version."""
        ...

    def encode(self, text: str) -> Floats:
        """Return the vector of one text."""
        ...

    def encode_all(self, texts: Sequence[str]) -> Floats:
        """Return (len(texts), dimensions)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """Everything a search needs. Never changed; threads and forked children may share it.

    `passage` gives, by row, the place in `ids`, `languages` and `sections`, or -1 for an example.
    `worth` weighs the views; `grave` are the topics in which life is at risk.
    """

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    grave: frozenset[str]
    ids: tuple[str, ...]
    languages: tuple[str, ...]
    sections: tuple[str, ...]
    passage: Ints
    views: Views
    worth: Doubles


def open_index(corpus: Corpus, folder: Path, encoder: Encodes) -> Index:
    """Return the index of `corpus` from `folder`, building it there when it is not (whole).

    Some 40 s for our own procedures and 1 ms a text beyond; to open takes half a second, or two
    for 100,000 passages more. Raises IndexFolderUnusable.
    """
    content = f"{corpus.fingerprint} {encoder.name} {COUNTING}"
    place = kept(folder, "meaning", content, partial(_write, corpus, encoder))
    return _load(place, corpus)


def _write(corpus: Corpus, encoder: Encodes, half: Path) -> None:
    topics = corpus.topics
    number = {topic: at for at, topic in enumerate(topics)}
    examples = [each for each in corpus.examples if each.topic in number]
    every: list[Example | Passage] = [*examples, *corpus.passages]
    texts = [each.text for each in every]
    topic = np.array([number[each.topic] for each in every], np.int32)
    passage = np.arange(len(texts), dtype=np.int32) - len(examples)
    vectors = encoder.encode_all(texts)
    order, nearest = _arranged(vectors)
    evidence = WordEvidence(corpus, topics)
    evidence.write(half / _EVIDENCE)
    views = Views(
        len(topics),
        topic[order],
        order < len(examples),
        nearest,
        WordIndex.build(half / "words", (texts[at] for at in order)),
        evidence,
        None,
    )
    count = len(examples)
    labels = topic[:count].astype(np.intp)
    lessons = Lessons(corpus, topics, examples, vectors[:count], labels)
    classifier = lessons.classifier()
    views = replace(views, classifier=classifier)
    rows = np.argsort(order)[:count]
    arrays = {
        "vectors": nearest.vectors,
        "topic": views.topic,
        "passage": np.maximum(passage, -1)[order],
        "worth": lessons.worth(views, [int(row) for row in rows]),
    }
    if nearest.centres is not None and nearest.bounds is not None:
        arrays |= {"centres": nearest.centres, "bounds": nearest.bounds}
    if classifier is not None:
        arrays |= {"weights": classifier.weights, "bias": classifier.bias}
    for name, array in arrays.items():
        np.save(half / f"{name}.npy", array, allow_pickle=False)
    _note(corpus, topics, half)


def _arranged(vectors: Floats) -> tuple[Ints, Nearest]:
    """Return the order in which the rows are kept, and the search over them."""
    found = neighbourhoods(vectors)
    if found is None:
        return np.arange(len(vectors), dtype=np.int32), Nearest(vectors)
    order, centres, bounds = found
    return order, Nearest(vectors[order], centres, bounds)


def _note(corpus: Corpus, topics: tuple[str, ...], half: Path) -> None:
    """Write what is no array."""
    facts: dict[str, Any] = {
        "topics": topics,
        "groups": [corpus.groups.get(topic, NOTHING) for topic in topics],
        "grave": sorted(corpus.grave),
        "ids": [each.id for each in corpus.passages],
        "languages": [each.language for each in corpus.passages],
        "sections": [each.section for each in corpus.passages],
    }
    (half / _FACTS).write_text(json.dumps(facts), encoding="utf-8")


def _load(place: Path, corpus: Corpus) -> Index:
    try:
        facts = json.loads((place / _FACTS).read_bytes())
        arrays = {each.stem: np.load(each, mmap_mode="r") for each in place.glob("*.npy")}
    except OSError as error:
        raise IndexFolderUnusable(place.parent, error.strerror or str(error)) from error
    classifier = Softmax(arrays["weights"], arrays["bias"]) if "weights" in arrays else None
    # A plain view: the class of mapped arrays makes every small slice of them slow.
    known = {name: np.asarray(array) for name, array in arrays.items()}
    nearest = Nearest(known["vectors"], known.get("centres"), known.get("bounds"))
    words = WordIndex.open(place / "words")
    passage = known["passage"]
    topics = tuple(facts["topics"])
    evidence = WordEvidence.open(corpus, topics, place / _EVIDENCE)
    views = Views(len(topics), known["topic"], passage < 0, nearest, words, evidence, classifier)
    return Index(
        topics,
        tuple(facts["groups"]),
        frozenset(facts["grave"]),
        tuple(facts["ids"]),
        tuple(facts["languages"]),
        tuple(facts["sections"]),
        passage,
        views,
        known["worth"],
    )
