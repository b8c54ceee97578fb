"""The promises of the design as questions about one world, or about one step."""

from __future__ import annotations

from functools import lru_cache

from callflow.call.limits import Escalation, escalation
from tests.protocol.moves import ONCE, SAID_AGAIN, Size, Step
from tests.protocol.record import COMPLETE, Record, Request, Rules
from tests.protocol.server import HELD_STATES, execute
from tests.protocol.world import UP, World

NOT_LOST = "an acknowledged utterance is never lost"
FENCED = "a worker that was taken over can write nothing more"
ASSIGNED = "whoever holds the lease is the assigned worker"
ALONE = "no two workers hold a lease that the server accepts"
NOT_FORGOTTEN = "an owed turn is leased, indexed, with a human or over"
FINAL = "complete is final"
HUMAN_AT_LAST = "a turn that has cost too many workers ends at a human"
ALIVE_KEEPS = "a worker that has beaten since it was looked at keeps its call"
CLAIM_REPEATED = "a claim that is sent again gets the same lease"
HUMAN_RUNG = "a call that the agent gave up has a human rung"
COMES_BACK = "an owed reply always comes, from some worker or from a human"
NO_LOOP = "no turn is taken over for ever"

ALL = (
    NOT_LOST,
    ONCE,
    SAID_AGAIN,
    FENCED,
    ASSIGNED,
    ALONE,
    NOT_FORGOTTEN,
    FINAL,
    HUMAN_AT_LAST,
    ALIVE_KEEPS,
    CLAIM_REPEATED,
    HUMAN_RUNG,
)
"""Asked of each world and each step; `COMES_BACK` and `NO_LOOP` are asked of all at once."""

_WRITES = frozenset({"beat", "understand", "draft", "commit", "hand_back", "reclaim", "transfer"})
_ACCEPTED = frozenset({"ok", "moved"})


def broken_by(before: World, step: Step, rules: Rules) -> str | None:
    """The promise that a step breaks, or None."""
    if step.broken is not None:
        return step.broken
    asked, answer = step.asked, step.answer
    if asked is None or answer is None:
        return None
    was, now = before.record, step.after.record
    if now is not was:
        if was.state == COMPLETE:
            return FINAL
        if now.fence < was.fence:
            return FENCED
        if len(now.thread) > len(was.thread):
            new = now.thread[-1]
            if any(one.role == new.role and one.turn >= new.turn for one in was.thread):
                return ONCE
    if asked.script in _WRITES and answer.word in _ACCEPTED and asked.fence:
        if asked.fence < was.fence and (now is not was or asked.script == "beat"):
            return FENCED
        if asked.name and was.holder not in (0, asked.name) and now is not was:
            return ALONE
    if (
        asked.script in ("draft", "commit")
        and escalation(was.attempts) is Escalation.HUMAN
        and now is not was
    ):
        return HUMAN_AT_LAST
    if asked.script == "reclaim" and answer.word == "ok" and was.beat > asked.seen:
        return ALIVE_KEEPS
    if asked.script == "claim" and answer.word == "held" and was.claim == asked.claim:
        return CLAIM_REPEATED
    if now.state == COMPLETE and was.state != COMPLETE:
        return None if is_final(now, rules) else FINAL
    return None


def broken_in(world: World, rules: Rules, size: Size) -> str | None:
    """The promise that does not hold in a world, or None."""
    record, caller = world.record, world.caller
    if caller.acknowledged > record.heard and (not size.replicated or size.min_replicas):
        return NOT_LOST
    if record.leased != (record.state in HELD_STATES) or record.leased != bool(record.holder):
        return ASSIGNED
    if record.human and not record.alert:
        return HUMAN_RUNG
    if record.owed and not (
        record.leased or record.due or record.human or record.state == COMPLETE
    ):
        return NOT_FORGOTTEN
    return None if _is_alone(world, rules) else ALONE


def _is_alone(world: World, rules: Rules) -> bool:
    """False when two are at a turn with a lease that the server accepts."""
    record = world.record
    if not record.leased:
        return True
    for worker in world.workers:
        asked, answer = worker.request, worker.answer
        if asked is None or worker.health != UP or worker.name == record.holder:
            continue
        if rules.lease_names_its_claim and asked.claim != record.claim:
            continue
        if (asked.fence or (0 if answer is None else answer.fence)) == record.fence:
            return False
    return True


@lru_cache(maxsize=100_000)
def is_final(record: Record, rules: Rules) -> bool:
    """True when no script, with any lease, changes a complete record."""
    return all(
        execute(record, asked, record.beat + 1, rules)[1] is record
        for asked in _every_request(record)
    )


def _every_request(record: Record) -> list[Request]:
    lease = Request("", name=1, fence=record.fence, turn=record.answered + 1, text=("1a",))
    scripts = ("claim", "beat", "understand", "draft", "commit", "hand_back", "reclaim", "transfer")
    return [
        *(lease._replace(script=script, claim=7, seen=record.beat) for script in scripts),
        *(Request(script) for script in ("transfer", "accept", "resume", "end", "rewake")),
        Request("hear", turn=record.heard + 1),
    ]


def settled(world: World) -> bool:
    """Nothing is owed to the caller: everything is answered, or a human has it, or it is over."""
    record = world.record
    if record.state == COMPLETE or record.human:
        return True
    return not record.owed and not world.web.turn
