"""The index of a corpus: built once per machine, then mapped by every process that searches.

A folder of its own for each corpus is written beside its place and moved there when it is whole, so
nobody ever reads half of one. While one process builds, the others wait for it. Files are mapped,
not read: the workers of a machine share their memory.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, Protocol

import numpy as np

from callflow.errors import CallflowError
from callflow.sop.bayes import WordEvidence
from callflow.sop.corpus import NOTHING, Corpus, Example, Passage
from callflow.sop.learning import Lessons
from callflow.sop.nearest import Floats, Ints, Nearest, neighbourhoods
from callflow.sop.softmax import Doubles, Softmax
from callflow.sop.views import Views
from callflow.sop.wordindex import WordIndex

KEPT: Final = 3
"""Indexes of earlier documents that stay: a worker of the last release may still want its own."""

_FACTS, _BUILDING = "index.json", "building-"


class IndexFolderUnusable(CallflowError):
    """The folder of indexes can be neither read nor written as it is needed."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(
            f"{folder}: no place for the search index ({reason}); make the folder writable, or "
            "name another one"
        )


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
    name = sha256(f"{corpus.fingerprint} {encoder.name}".encode()).hexdigest()[:32]
    place = folder / name
    if not _is_whole(place):
        with _locked(folder):
            if not _is_whole(place):  # another process may have built it while we waited
                _build(corpus, place, encoder)
                _remove_old(folder, place)
    return _load(place, corpus)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system lets go of it when its holder is killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise IndexFolderUnusable(folder, error.strerror or str(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under the lock nobody builds: what is half built was left by a process that was killed.
        for left in folder.glob(f"{_BUILDING}*"):
            shutil.rmtree(left)
        yield
    finally:
        os.close(lock)


def _is_whole(place: Path) -> bool:
    """True when every file has the size that was noted when all of them had been written."""
    facts = place / _FACTS
    if not facts.is_file():
        return False
    try:
        sizes = json.loads(facts.read_bytes())["sizes"]
    except (ValueError, KeyError, TypeError):
        return False  # cut off by a power failure: built anew
    return all(_size(place / name) == size for name, size in sizes.items())


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _remove_old(folder: Path, newest: Path) -> None:
    others = [each.parent for each in folder.glob(f"*/{_FACTS}") if each.parent != newest]
    others.sort(key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for old in others[KEPT - 1 :]:
        shutil.rmtree(old)


def _build(corpus: Corpus, place: Path, encoder: Encodes) -> None:
    try:
        half = Path(mkdtemp(prefix=_BUILDING, dir=place.parent))
        half.chmod(0o755)  # other users' workers may map it
        _write(corpus, half, encoder)
        if place.exists():
            shutil.rmtree(place)  # it was damaged
        half.replace(place)
    except OSError as error:
        raise IndexFolderUnusable(place.parent, error.strerror or str(error)) from error


def _write(corpus: Corpus, half: Path, encoder: Encodes) -> None:
    topics = corpus.topics
    number = {topic: at for at, topic in enumerate(topics)}
    examples = [each for each in corpus.examples if each.topic in number]
    every: list[Example | Passage] = [*examples, *corpus.passages]
    texts = [each.text for each in every]
    topic = np.array([number[each.topic] for each in every], np.int32)
    passage = np.arange(len(texts), dtype=np.int32) - len(examples)
    vectors = encoder.encode_all(texts)
    order, nearest = _arranged(vectors)
    views = Views(
        len(topics),
        topic[order],
        order < len(examples),
        nearest,
        WordIndex.build(half / "words", (texts[at] for at in order)),
        WordEvidence(corpus, topics),
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
    """Write what is no array, and last of all the sizes of all files."""
    facts: dict[str, Any] = {
        "topics": topics,
        "groups": [corpus.groups.get(topic, NOTHING) for topic in topics],
        "grave": sorted(corpus.grave),
        "ids": [each.id for each in corpus.passages],
        "languages": [each.language for each in corpus.passages],
        "sections": [each.section for each in corpus.passages],
    }
    files = sorted(each for each in half.rglob("*") if each.is_file())
    facts["sizes"] = {str(each.relative_to(half)): each.stat().st_size for each in files}
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
    evidence = WordEvidence(corpus, topics)
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
