"""The way to a human and back: who is being rung for a call, who has it.

Every step of the ladder is a compare-and-set on the alert in the record, so that two processes may
take the same step at once and one number is rung once. Each step also says when the ladder goes on
by itself, in an index that the watchdog reads: a process that dies between two steps costs time.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from callflow.call.ladder import fresh
from callflow.call.record import Alert, Frozen, Handling
from callflow.call.state import CallState, Event, moves_row
from callflow.errors import UnknownCall
from callflow.redis.client import translated
from callflow.redis.scripts import Scripts
from callflow.store.encoding import BY_AGENT, BY_HUMAN, alert, as_json, clock, fresh_alert
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.outcome import Ladder, Lease, Pass, Resume


class Wanted(Frozen):
    """What whoever rings humans needs to know of a call: a few fields of its record."""

    call_state: CallState
    site: str | None
    language: str
    scenario_type: str | None
    needs_human: str | None
    handling: Handling
    alert: Alert | None
    alert_due: int | None


_ASKED = tuple(Wanted.model_fields)


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the ladder. `due_ms`: when it goes on by itself, from now; None: not at all."""

    alert: Alert
    due_ms: int | None
    event: str
    reason: str = ""


class Handovers:
    """Passes calls to humans and takes them back. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def read(self, call_sid: str) -> tuple[Wanted, int]:
        """Who is wanted for the call, and the server's time, ms. Raises UnknownCall."""
        with (
            translated(self._scripts.where),
            self._scripts.client.pipeline(transaction=False) as pipe,
        ):
            pipe.hmget(call_keys(call_sid).call, *_ASKED)
            pipe.time()
            fields, (seconds, micros) = pipe.execute()
        if fields[0] is None:
            raise UnknownCall(call_sid)
        members = ",".join(f'"{name}":{value}' for name, value in zip(_ASKED, fields, strict=True))
        return (
            Wanted.model_validate_json(f"{{{members}}}"),
            int(seconds) * 1000 + int(micros) // 1000,
        )

    def want(self, call_sid: str, reason: str, *, now_ms: int | None = None) -> Ladder:
        """Have a human rung for `reason`, at once. STALE when one is being rung already."""
        step = Step(fresh(reason), 0, "alerted", reason)
        return self._step(call_sid, "null", step, as_json(reason), now_ms)

    def move(
        self, call_sid: str, before: Alert, step: Step, *, now_ms: int | None = None
    ) -> Ladder:
        """Take one step, unless the alert is no longer as it was read (`before`)."""
        return self._step(call_sid, alert(before), step, "", now_ms)

    def _step(
        self, call_sid: str, before: str, step: Step, needs_human: str, now_ms: int | None
    ) -> Ladder:
        keys = call_keys(call_sid)
        (word,) = self._scripts.run(
            "alert",
            (keys.call, keys.journal, keys.shard.rings),
            (
                moves_row(Event.ALERT),
                call_sid,
                before,
                alert(step.alert),
                "" if step.due_ms is None else step.due_ms,
                step.event,
                step.alert.rung,
                step.reason,
                needs_human,
                clock(now_ms),
            ),
        )
        return Ladder(word)

    def note(self, call_sid: str, event: str, reason: str) -> None:
        """One line in the journal of a call that is open; none when it is not. Twice, two lines."""
        keys = call_keys(call_sid)
        line = secrets.token_hex(4)
        self._scripts.run("remark", (keys.call, keys.journal), (event, reason, line, clock(None)))

    def transfer(
        self, call_sid: str, reason: str, *, lease: Lease | None = None, now_ms: int | None = None
    ) -> Pass:
        """The agent gives the call up: a human is rung, and what is owed is theirs to answer.

        With a lease, only while it is ours. Twice, the first reason stands.
        """
        return self._pass(
            call_sid,
            lease,
            "transferred",
            reason,
            as_json(reason),
            fresh_alert(reason),
            "0",
            now_ms,
        )

    def accept(self, call_sid: str, taken: Alert, *, now_ms: int | None = None) -> Pass:
        """A human is on the line: `taken` tells on which leg. AGAIN when another one was first."""
        return self._pass(call_sid, None, "accepted", taken.reason, "", alert(taken), "1", now_ms)

    def _pass(
        self,
        call_sid: str,
        lease: Lease | None,
        event: str,
        reason: str,
        needs_human: str,
        alert_json: str,
        accepted: str,
        now_ms: int | None,
    ) -> Pass:
        keys = call_keys(call_sid)
        (word,) = self._scripts.run(
            "transfer",
            (*keys.own, keys.shard.leases, keys.shard.owed, keys.shard.rings),
            (
                moves_row(Event.TRANSFER),
                call_sid,
                "" if lease is None else lease.token,
                event,
                reason,
                BY_HUMAN,
                needs_human,
                alert_json,
                accepted,
                SAID_CHANNEL,
                clock(now_ms),
            ),
        )
        return Pass(word)

    def resume(
        self, call_sid: str, reason: str, *, over: bool, now_ms: int | None = None
    ) -> Resume:
        """Give the call back to the agent. `over`: nobody is to be rung any more."""
        keys = call_keys(call_sid)
        (word,) = self._scripts.run(
            "resume",
            (keys.call, keys.journal, keys.shard.rings),
            (
                moves_row(Event.RESUME),
                call_sid,
                BY_AGENT,
                reason,
                "1" if over else "0",
                SAID_CHANNEL,
                clock(now_ms),
            ),
        )
        return Resume(word)
