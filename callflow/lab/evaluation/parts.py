"""Puts together what is tried, from the same parts that workers answer calls with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from callflow import bootstrap
from callflow.call.urgency import Urgency
from callflow.lab.evaluation.dataset import Words
from callflow.lab.evaluation.run import Parts, Tried
from callflow.procedures.library import SopLibrary
from callflow.responder.scripted import ScriptedResponder
from callflow.retrieval.corpus import Corpus, of_library, read_corpus
from callflow.retrieval.engine import Retrieval, engine, installed
from callflow.understand import Comprehension


@dataclass(frozen=True, slots=True)
class Sources:
    """What is read before anything is built: our procedures, and another set if one is tried."""

    library: SopLibrary
    other: Corpus | None = None


def sources(sop_dir: Path | None = None, other_set: tuple[Path, Path] | None = None) -> Sources:
    """Read the procedures: those that callflow brings and those in `sop_dir`, or where the
    environment says.

    `other_set`: files of chunks and of examples. Raises SopError for a procedure that cannot be
    used, CorpusError for a line of another set, and SettingsError.
    """
    library = SopLibrary.load(sop_dir or bootstrap.settings().sop_dir)
    return Sources(library, None if other_set is None else read_corpus(*other_set))


def assembled(read: Sources, retrieval: Retrieval | None = None) -> Parts:
    """Build all parts; `retrieval` is as the environment says where it is not given.

    Raises SettingsError, and what the search by meaning raises where its extra or its folder is
    missing.
    """
    settings = bootstrap.settings()
    kind = retrieval or settings.retrieval or installed()
    folder = settings.index_dir or settings.data_dir / "index"
    own = engine(read.library, kind, folder)
    return Parts(
        library=read.library,
        engine=own,
        own=Tried(of_library(read.library), own.classifier, own.retriever),
        other=None if read.other is None else _tried(read.other, kind, folder),
        comprehension=Comprehension(lambda: own),
        responder=ScriptedResponder(),
        guard=bootstrap.guard(),
    )


def words(read: Sources) -> Words:
    """Return what labels may be made of."""
    documents = read.library.documents.values()
    other = frozenset() if read.other is None else frozenset(read.other.groups.values())
    return Words(
        groups={each.id: each.front.group for each in documents},
        urgencies=_urgencies(read.library),
        languages=frozenset(code for each in documents for code in each.languages),
        more_groups=other,
    )


def _tried(corpus: Corpus, retrieval: Retrieval, folder: Path) -> Tried:
    """A search over another set of procedures: what it learns is what its examples teach."""
    if retrieval == "lexical":
        from callflow.retrieval.lexical import LexicalSearch

        words = LexicalSearch(corpus)
        return Tried(corpus, words, words)
    from callflow.retrieval.encoder import Encoder
    from callflow.retrieval.evidence import DangerCues
    from callflow.retrieval.index import open_index
    from callflow.retrieval.semantic import TopicSearch

    encoder = Encoder.shared()
    index = open_index(corpus, folder, encoder)
    meaning = TopicSearch(index, encoder, DangerCues(corpus))
    return Tried(corpus, meaning, meaning)


def _urgencies(library: SopLibrary) -> dict[str, Urgency]:
    return {each.id: each.front.urgency for each in library.documents.values()}
