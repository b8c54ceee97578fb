"""The server's side of the model: the scripts that change a record, without Redis.

A request is executed as a whole or not at all, like a script. What a state allows is read from the
product's own table; everything else is written from the design, so that `test_conformance.py` can
find where the Lua disagrees.
"""

from __future__ import annotations

from callflow.call.limits import Escalation, escalation
from callflow.call.state import LEASED, MOVES, Event, Refusal
from tests.protocol.record import COMPLETE, PENDING, Answer, Entry, Record, Request, Rules

HELD_STATES = frozenset(state.value for state in LEASED)

_MOVES: dict[str, dict[str, tuple[str, bool]]] = {
    event.value: {
        state.value: (then.value, isinstance(then, Refusal)) for state, then in row.items()
    }
    for event, row in MOVES.items()
}
"""The table in plain strings: an enum's hash is a call into Python, a million times over."""


def rung_of(attempts: int, rules: Rules) -> Escalation:
    """The product's rung; the mutant's ladder has no last one."""
    return escalation(attempts) if rules.ladder_ends_at_a_human else Escalation.RESPONDER


def execute(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    """Run one request. `tick`: the server's clock, later than every tick before."""
    return _SCRIPTS[asked.script](record, asked, tick, rules)


def _move(event: Event, record: Record, rules: Rules) -> tuple[str, bool]:
    then, refused = _MOVES[event.value][record.state]
    if refused and not rules.complete_refuses and record.state == COMPLETE:
        return PENDING, False
    return then, refused


def _foreign(record: Record, asked: Request, rules: Rules) -> bool:
    """True when the lease that asks is not the one that the record has given last."""
    if asked.fence != record.fence:
        return True
    return rules.lease_names_its_claim and asked.claim != record.claim


def _hear(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    turn = asked.turn
    if turn <= record.heard and rules.hear_once:
        return Answer("again"), record
    then, refused = _move(Event.HEAR, record, rules)
    if refused:
        return Answer(then), record
    lost = turn - record.heard - 1
    if lost > 0:
        then, _ = _move(Event.HEAR_AFTER_LOSS, record, rules)
        record = record._replace(
            answered=turn - 1,
            holder=0,
            attempts=0,
            draft_turn=0,
            draft=(),
            fence=record.fence + 1,
            lost=record.lost + lost,
            leased=False,
        )
    owed_before = record.owed and lost <= 0
    record = record._replace(state=then, heard=turn, thread=(*record.thread, Entry("caller", turn)))
    if record.human:
        return Answer("ok"), record._replace(answered=turn)
    if record.holder or owed_before:
        return Answer("ok"), record
    return Answer("ok", wake=True), record._replace(due=rules.hear_owes)


def _claim(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    again = record.claim == asked.claim and record.holder != 0 and rules.claim_once
    if not again:
        then, refused = _move(Event.CLAIM, record, rules)
        if refused:
            return Answer(then), record
        if not record.owed:
            return Answer("idle"), record
        record = record._replace(
            state=then,
            fence=record.fence + (rules.fence_grows or not record.fence),
            claim=asked.claim,
            holder=asked.name,
            beat=tick,
            leased=True,
            due=False,
        )
    turn = record.answered + 1
    known = record.draft if record.draft_turn == turn and rules.successor_reads_draft else ()
    return (
        Answer(
            "ok",
            attempts=record.attempts,
            fence=record.fence,
            turn=turn,
            text=known,
            understood=record.understood,
        ),
        record,
    )


def _beat(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    then, refused = _move(Event.BEAT, record, rules)
    if refused:
        return Answer(then), record
    if _foreign(record, asked, rules) and rules.fence_in_beat:
        return Answer("fenced"), record
    return Answer("ok"), record._replace(beat=tick, leased=True)


def _note(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    then, refused = _move(Event.DRAFT, record, rules)
    if refused:
        return Answer(then), record
    if _foreign(record, asked, rules) and rules.fence_in_draft:
        return Answer("fenced"), record
    if asked.script == "understand":
        return Answer("ok"), record._replace(understood=asked.turn)
    shorter = record.draft_turn == asked.turn and len(asked.text) < len(record.draft)
    if shorter and rules.drafts_only_grow:
        return Answer("ok"), record
    return Answer("ok"), record._replace(draft_turn=asked.turn, draft=asked.text)


def _commit(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    foreign = _foreign(record, asked, rules)
    if not foreign and record.answered >= asked.turn and rules.turn_in_commit:
        return Answer("moved" if record.owed else "ok"), record
    then, refused = _move(Event.COMMIT, record, rules)
    if refused:
        return Answer(then), record
    if (foreign and rules.fence_in_commit) or (
        asked.turn != record.answered + 1 and rules.turn_in_commit
    ):
        return Answer("fenced"), record
    more = record.heard > asked.turn
    record = record._replace(
        state=then,
        answered=asked.turn,
        holder=0,
        attempts=0,
        draft_turn=0,
        draft=(),
        thread=(*record.thread, Entry("agent", asked.turn, asked.text)),
        leased=False,
        due=record.due or (more and rules.commit_owes_the_rest),
    )
    return Answer("moved" if more else "ok"), record


def _release(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    reclaims = asked.script == "reclaim"
    then, refused = _move(Event.RECLAIM if reclaims else Event.HAND_BACK, record, rules)
    if refused:
        return Answer(then), record
    foreign = asked.fence != record.fence if reclaims else _foreign(record, asked, rules)
    if foreign and rules.fence_in_release:
        return Answer("fenced"), record
    if reclaims and record.beat > asked.seen and rules.reclaim_compares_beats:
        return Answer("alive"), record
    counts = rules.reclaim_counts if reclaims else rules.hand_back_counts and asked.costs
    record = record._replace(
        state=then,
        holder=0,
        attempts=record.attempts + counts,
        leased=False,
        due=record.due or rules.release_owes,
    )
    return Answer("ok", attempts=record.attempts), record


def _transfer(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    """`accept` is a human who has picked up; `transfer` is the agent, with its lease or, where the
    fence is 0, whoever took the lease away."""
    then, refused = _move(Event.TRANSFER, record, rules)
    if refused:
        return Answer(then), record
    if asked.fence and _foreign(record, asked, rules):
        return Answer("fenced"), record
    accepts, again = asked.script == "accept", record.human
    if again and not accepts:
        return Answer("again"), record
    record = record._replace(
        state=then,
        fence=record.fence + (not again),
        holder=0,
        answered=record.heard,
        attempts=0,
        draft_turn=0,
        draft=(),
        human=True,
        alert="accepted" if accepts else record.alert or "due",
        leased=False,
        due=False,
    )
    return Answer("again" if again else "ok"), record


def _resume(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    then, refused = _move(Event.RESUME, record, rules)
    if refused:
        return Answer(then), record
    if not record.human:
        return Answer("again"), record
    return Answer("ok"), record._replace(
        state=then, human=False, alert="" if asked.costs else record.alert
    )


def _end(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    then, refused = _move(Event.END, record, rules)
    if refused:
        return Answer(then), record
    return Answer("ok"), record._replace(state=then, holder=0, leased=False, due=False)


def _rewake(record: Record, asked: Request, tick: int, rules: Rules) -> tuple[Answer, Record]:
    over = record.state == COMPLETE and rules.rewake_knows_the_end
    if record.holder or not record.owed or over:
        return Answer("idle"), record._replace(due=False) if record.due else record
    return Answer("ok", wake=True, attempts=record.attempts), record._replace(due=True)


_SCRIPTS = {
    "hear": _hear,
    "claim": _claim,
    "beat": _beat,
    "understand": _note,
    "draft": _note,
    "commit": _commit,
    "hand_back": _release,
    "reclaim": _release,
    "transfer": _transfer,
    "accept": _transfer,
    "resume": _resume,
    "end": _end,
    "rewake": _rewake,
}
