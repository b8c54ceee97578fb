"""Runs labelled utterances through what a real turn runs them through, one by one, and measures.

Every utterance opens a call of its own: what an earlier one said must not help the next. The guard
is measured in two ways. The procedures' own sentences: none may be caught where the fact that it
waits for is known, and each that waits must be caught where it is not. And lines that somebody
labelled:

    {"lang": "en", "sentence": "…", "forbidden": true, "facts": {}}
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from callflow.call.facts import HUMAN_FACTS, OWN_FACTS, known
from callflow.call.record import CallRecord, SopChunk
from callflow.lab.evaluation import rehearsal
from callflow.lab.evaluation.dataset import Labelled, Words, lines_of
from callflow.lab.evaluation.rehearsal import Parts, Topics, Turn, open_call
from callflow.lab.evaluation.scoring import (
    Answer,
    Evaluation,
    Found,
    GuardFigures,
    Judged,
    Mistake,
    ReplyFigures,
)
from callflow.procedures.library import SopLibrary
from callflow.procedures.triage import Scored
from callflow.responder.acknowledgement import acknowledge
from callflow.responder.guard import Guard
from callflow.responder.phrases import generic
from callflow.responder.scripted import approved

DEPTH: Final = 10
"""So many chunks are asked for: what comes later counts as not found."""

_WARMING: Final = "hello is anybody there"


def evaluate(
    labelled: Sequence[Labelled], parts: Parts, sentences: Iterable[Spoken] = ()
) -> Evaluation:
    """Try all of it. `sentences` are labelled ones for the guard, besides the procedures' own."""
    tried = parts.other or parts.own
    # What is built when it is first used is no part of anybody's latency.
    tried.search.score(_WARMING)
    judged: list[Judged] = []
    replies = ReplyFigures()
    for each in labelled:
        turn, answer = _try_out(each, tried, parts)
        judged.append((each, answer))
        replies = _added(replies, turn, parts.guard, each.where)
    return Evaluation(
        judged=tuple(judged),
        chunk_ids=frozenset(passage.id for passage in tried.corpus.passages),
        replies=replies,
        guard=judge_guard(parts.guard, parts.library, sentences),
    )


def _try_out(labelled: Labelled, tried: Topics, parts: Parts) -> tuple[Turn, Answer]:
    """Open a call with the utterance; classifying and retrieving are timed as a turn does them."""
    began = time.perf_counter()
    scored = tried.search.score(labelled.utterance)
    took_s = time.perf_counter() - began
    turn = rehearsal.take_turn(
        rehearsal.open_call(labelled.language),
        labelled.utterance,
        parts.understanding,
        parts.responder,
    )
    groups = tried.corpus.groups
    began = time.perf_counter()
    ours = _by_group(labelled, parts.own) if parts.other is not None else {}
    prior = ours or rehearsal.prior(turn.record)
    hits = tried.search.search(labelled.utterance, labelled.language, DEPTH, prior)
    took_s += time.perf_counter() - began
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
        took_ms=took_s * 1000,
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


def _added(so_far: ReplyFigures, turn: Turn, guard: Guard, where: str) -> ReplyFigures:
    silent = any(chunk.silent for chunk in turn.record.retrieved_sop_chunks)
    return ReplyFigures(
        n=so_far.n + 1,
        sentences=so_far.sentences + len(turn.sentences),
        empty=so_far.empty + (not turn.sentences and not silent),
        caught=(*so_far.caught, *caught(guard, turn.sentences, turn.record, where)),
    )


_GAP: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_A_TIME: Final = "12:30"
_ALL_IS_KNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*HUMAN_FACTS, *OWN_FACTS), True),
    "eta_minutes": 20,
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence that somebody labelled: `forbidden` or not, while these `facts` are known and in
    answer to what a `caller` has said."""

    where: str
    language: str
    sentence: str
    forbidden: bool
    facts: Mapping[str, Any]
    caller: str = ""


def read_sentences(path: Path, stdin: BinaryIO, words: Words) -> list[Spoken]:
    """Return the labelled sentences of a file; `facts` and `caller` may be left out.

    Raises LabelError.
    """
    found = []
    for line in lines_of(path, stdin):
        forbidden, facts = line.values.get("forbidden"), line.values.get("facts", {})
        if not isinstance(forbidden, bool):
            raise line.fail("forbidden must be true or false")
        if not isinstance(facts, dict):
            raise line.fail('facts must be an object, such as {"dispatch.requested": true}')
        language, sentence = line.language(words.languages), line.text("sentence")
        caller = line.text("caller") if "caller" in line.values else ""
        where = f"{line.path}:{line.number}"
        found.append(Spoken(where, language, sentence, forbidden, facts, caller))
    return found


def judge_guard(guard: Guard, library: SopLibrary, lines: Iterable[Spoken] = ()) -> GuardFigures:
    """Try the guard on all that the procedures have to say, and on labelled `lines`.

    Each procedure is spoken twice: in a call where all is known, and where nothing is.
    """
    counts: Counter[str] = Counter()
    mistakes: list[Mistake] = []
    for document in library.documents.values():
        for language in document.languages:
            chunks = library.chunks(document.id, language)
            facts = {**_waited_for(chunks), **_ALL_IS_KNOWN}
            late, early = _call(language, chunks, facts), _call(language, chunks, {})
            _try_own(guard, late, early, counts, mistakes)
    for line in lines:
        rule = guard.check(
            line.sentence,
            language=line.language,
            facts=line.facts,
            approved={},
            caller=line.caller,
        )
        counts["forbidden" if line.forbidden else "harmless"] += 1
        counts["caught" if line.forbidden else "harmless_caught"] += rule is not None
        if line.forbidden is (rule is None):
            mistakes.append(Mistake(line.where, line.language, line.sentence, rule))
    return GuardFigures(**counts, mistakes=tuple(mistakes))


def _try_own(
    guard: Guard,
    late: CallRecord,
    early: CallRecord,
    counts: Counter[str],
    mistakes: list[Mistake],
) -> None:
    waiting = {name: one for name, one in approved(early).items() if one.waits_for is not None}
    for name, one in approved(late).items():
        where = f"{late.scenario_type}.{one.section}.{name}"
        counts["own"] += 1
        if (rule := _rule(guard, one.text, late)) is not None:
            counts["own_caught"] += 1
            mistakes.append(Mistake(where, late.language, one.text, rule))
        if name in waiting:
            counts["waiting"] += 1
            if _rule(guard, one.text, early) is not None:
                counts["waiting_caught"] += 1
            else:
                mistakes.append(Mistake(where, late.language, one.text, None))


def _rule(guard: Guard, sentence: str, record: CallRecord) -> str | None:
    """What the guard says about a sentence at this point of a call."""
    return guard.check_in_call(sentence, record)


def caught(guard: Guard, sentences: Iterable[str], record: CallRecord, where: str) -> list[Mistake]:
    """Return those sentences of a reply to this call that the guard would not let pass.

    What a responder says without any procedure, such as the greeting or what it has just learned,
    is no model's to word.
    """
    own = {*generic(record.language).values()}
    if record.analysis is not None:
        own.add(acknowledge(record.analysis.learned, known(record), record.language))
    return [
        Mistake(where, record.language, sentence, rule)
        for sentence in sentences
        if sentence not in own and (rule := _rule(guard, sentence, record)) is not None
    ]


def _call(language: str, chunks: tuple[SopChunk, ...], facts: Mapping[str, Any]) -> CallRecord:
    scenario = chunks[0].sop if chunks else None
    return open_call(language).model_copy(
        update={
            "scenario_type": scenario,
            "retrieved_sop_chunks": chunks,
            "facts": dict(facts),
        }
    )


def _waited_for(chunks: Iterable[SopChunk]) -> dict[str, Any]:
    """What else these chunks wait for, facts and the gaps in them: it may all come true."""
    lines = [line for chunk in chunks for line in chunk.sentences]
    gaps = {gap: _A_TIME for line in lines for gap in _GAP.findall(line.text)}
    return {**gaps, **{line.only_after: True for line in lines if line.only_after is not None}}
