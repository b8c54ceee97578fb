"""Runs labelled utterances through what a real turn runs them through, one by one, and measures.

Every utterance opens a call of its own: what an earlier one said must not help the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from callflow.lab.evaluation import guarding, rehearsal
from callflow.lab.evaluation.dataset import Labelled
from callflow.lab.evaluation.guarding import GuardFigures, Mistake, SentenceGuard, Spoken
from callflow.lab.evaluation.rehearsal import Turn
from callflow.lab.evaluation.scoring import Answer, Found, Judged
from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Classifier, Engine, Hit, Scored
from callflow.responder import Responder
from callflow.retrieval.corpus import Corpus
from callflow.understand import Comprehension

DEPTH: Final = 10
"""So many chunks are asked for: what comes later counts as not found."""

_WARMING: Final = "hello is anybody there"


class Search(Protocol):
    """Finds passages: the half of a `Retriever` that another set of procedures needs, too."""

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        """Return the best passage of each of the `k` nearest topics, nearest first."""
        ...


@dataclass(frozen=True, slots=True)
class Tried:
    """What finds topics in utterances, and the passages that it finds: ours or another set's."""

    corpus: Corpus
    classifier: Classifier
    search: Search


@dataclass(frozen=True, slots=True)
class Parts:
    """All that is tried: `own` answers calls. `other` is judged in its place where another set of
    procedures is being tried; dangers are heard, and replies worded, by our own all the same."""

    library: SopLibrary
    engine: Engine
    own: Tried
    other: Tried | None
    comprehension: Comprehension
    responder: Responder
    guard: SentenceGuard


@dataclass(frozen=True, slots=True)
class Replies:
    """What the responder said: `n` replies of `sentences` together, `empty` ones where something
    should have been said, and the sentences that the guard would have caught."""

    n: int = 0
    sentences: int = 0
    empty: int = 0
    caught: tuple[Mistake, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it. `chunk_ids` are those of all chunks that could be found."""

    judged: tuple[Judged, ...]
    chunk_ids: frozenset[str]
    replies: Replies
    guard: GuardFigures


def evaluate(
    labelled: Sequence[Labelled], parts: Parts, sentences: Iterable[Spoken] = ()
) -> Result:
    """Try all of it. `sentences` are labelled ones for the guard, besides the procedures' own."""
    tried = parts.other or parts.own
    # What is built when it is first used is no part of anybody's latency.
    tried.classifier.score(_WARMING, "en")
    judged: list[Judged] = []
    replies = Replies()
    for each in labelled:
        turn, answer = _heard(each, tried, parts)
        judged.append((each, answer))
        replies = _added(replies, turn, parts.guard, each.where)
    return Result(
        judged=tuple(judged),
        chunk_ids=frozenset(passage.id for passage in tried.corpus.passages),
        replies=replies,
        guard=guarding.judge(parts.guard, _procedures(parts), sentences),
    )


def _heard(labelled: Labelled, tried: Tried, parts: Parts) -> tuple[Turn, Answer]:
    """Open a call with the utterance; classifying and retrieving are timed as a turn does them."""
    clock = _Clock()
    with clock:
        scored = tried.classifier.score(labelled.utterance, labelled.language)
    turn = rehearsal.taken(
        rehearsal.opened(labelled.language),
        labelled.utterance,
        parts.comprehension,
        parts.responder,
    )
    groups = tried.corpus.groups
    with clock:
        ours = _by_group(labelled, parts.own) if parts.other is not None else {}
        prior = ours or rehearsal.prior(turn.record)
        hits = tried.search.search(labelled.utterance, labelled.language, DEPTH, prior)
    scenario, probability = scored.likely[0] if scored.likely else (None, 0.0)
    worked_on = turn.record.scenario_type
    answer = Answer(
        scenario=scenario,
        group=_likeliest_group(scored, groups, ours),
        probability=probability,
        worked_on=worked_on,
        worked_on_group=parts.own.corpus.groups.get(worked_on or ""),
        danger=turn.record.urgency == "P1",
        found=tuple(Found(each.chunk_id, each.scenario, groups[each.scenario]) for each in hits),
        took_ms=clock.ms,
    )
    return turn, answer


def _by_group(labelled: Labelled, own: Tried) -> dict[str, float]:
    """How likely each group is by our own procedures: another set shares no other names with them,
    and what a call is about by ours is a prior for any search."""
    shares: dict[str, float] = {}
    for scenario, share in own.classifier.score(labelled.utterance, labelled.language).likely:
        group = own.corpus.groups[scenario]
        shares[group] = shares.get(group, 0.0) + share
    return shares


def _likeliest_group(
    scored: Scored, groups: Mapping[str, str], ours: Mapping[str, float]
) -> str | None:
    """The group of the likeliest topic; with another set, that which both sets together favour."""
    if not scored.likely:
        return None
    if not ours:
        return groups.get(scored.likely[0][0])
    shares = dict(ours)
    for topic, share in scored.likely:
        shares[groups[topic]] = shares.get(groups[topic], 0.0) + share
    return max(sorted(shares), key=lambda group: shares[group])


class _Clock:
    """Adds up how long its `with` blocks take, in ms."""

    def __init__(self) -> None:
        self.ms = 0.0
        self._since = 0.0

    def __enter__(self) -> None:
        self._since = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.ms += (time.perf_counter() - self._since) * 1000


def _added(so_far: Replies, turn: Turn, guard: SentenceGuard, where: str) -> Replies:
    silent = any(chunk.silent for chunk in turn.record.retrieved_sop_chunks)
    return Replies(
        n=so_far.n + 1,
        sentences=so_far.sentences + len(turn.sentences),
        empty=so_far.empty + (not turn.sentences and not silent),
        caught=(*so_far.caught, *guarding.caught(guard, turn.sentences, turn.record, where)),
    )


def _procedures(parts: Parts) -> Iterable[guarding.Procedure]:
    for document in parts.library.documents.values():
        for language in document.languages:
            yield language, parts.engine.retriever.chunks(document.id, language)
