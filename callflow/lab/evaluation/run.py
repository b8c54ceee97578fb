"""Runs labelled utterances through what a real turn runs them through, one by one, and measures.

Every utterance opens a call of its own: what an earlier one said must not help the next.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from callflow.lab.evaluation import guard_rehearsal, rehearsal
from callflow.lab.evaluation.dataset import Labelled
from callflow.lab.evaluation.guard_rehearsal import GuardFigures, Mistake, Spoken
from callflow.lab.evaluation.rehearsal import Parts, Topics, Turn
from callflow.lab.evaluation.scoring import Answer, Found, Judged
from callflow.procedures.triage import Scored
from callflow.responder.guard import Guard

DEPTH: Final = 10
"""So many chunks are asked for: what comes later counts as not found."""

_WARMING: Final = "hello is anybody there"


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
    tried.search.score(_WARMING)
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
        guard=guard_rehearsal.judge(parts.guard, parts.library, sentences),
    )


def _heard(labelled: Labelled, tried: Topics, parts: Parts) -> tuple[Turn, Answer]:
    """Open a call with the utterance; classifying and retrieving are timed as a turn does them."""
    clock = _Clock()
    with clock:
        scored = tried.search.score(labelled.utterance)
    turn = rehearsal.take_turn(
        rehearsal.open_call(labelled.language),
        labelled.utterance,
        parts.understanding,
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


def _by_group(labelled: Labelled, own: Topics) -> dict[str, float]:
    """How likely each group is by our own procedures: another set shares no other names with them,
    and what a call is about by ours is a prior for any search."""
    shares: dict[str, float] = {}
    for scenario, share in own.search.score(labelled.utterance).likely:
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


def _added(so_far: Replies, turn: Turn, guard: Guard, where: str) -> Replies:
    silent = any(chunk.silent for chunk in turn.record.retrieved_sop_chunks)
    return Replies(
        n=so_far.n + 1,
        sentences=so_far.sentences + len(turn.sentences),
        empty=so_far.empty + (not turn.sentences and not silent),
        caught=(*so_far.caught, *guard_rehearsal.caught(guard, turn.sentences, turn.record, where)),
    )
