"""What a turn asks of the procedures: which scenario is this, and which chunks belong to it.

Both are pure functions of their arguments and of the documents loaded at the start, so two workers
with the same documents give the same answer. Better ones replace the lexical ones behind the same
two methods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from callflow.call.record import SopChunk
from callflow.call.urgency import Urgency

DEFAULT_SCENARIO: Final = "entrapment_standard"
"""Taken when nothing is known: to treat a caller as trapped is the mistake that harms least."""

SILENT_SCENARIO: Final = "silent_open_line"
"""Taken when nobody has said anything yet."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What one utterance says by itself, whatever the call was about before.

    `likely`: (scenario id, probability), best first; together at most 1, empty when nothing speaks
    for anything. `danger`: the probability that life is at risk now. `cued`: scenarios with life at
    risk of which a whole key phrase was heard, and not denied.
    """

    likely: tuple[tuple[str, float], ...] = ()
    danger: float = 0.0
    cued: tuple[str, ...] = ()


class Classifier(Protocol):
    """Finds the scenarios that an utterance speaks for."""

    def score(self, utterance: str, language: str) -> Scored:
        """Score one utterance. `language` is a tag such as `en`, `zh-CN` or `es`.

        Pure: the same words give the same scores on every machine with the same documents.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found, and how near it is: scores order one search, and mean no more."""

    chunk_id: str
    scenario: str
    section: str
    language: str
    score: float


class Retriever(Protocol):
    """Finds the parts of the procedures that the reply to one utterance needs."""

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best chunk of each of the `k` nearest procedures, nearest first.

        `prior`: what the call is about so far, by scenario; it draws the order, and rules nothing
        out.
        """
        ...

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        """Return all sections of one procedure: what to ask, say, never say, and when to escalate.

        The `never` chunk is always among them. A section that is missing in `language` comes in
        English. An unknown scenario is served from the default one.
        """
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """What finds procedures, built of one state of the documents. `urgencies`: of every scenario
    that there is a procedure for."""

    classifier: Classifier
    retriever: Retriever
    urgencies: Mapping[str, Urgency]
