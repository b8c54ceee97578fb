"""The way to a human and back: who is being rung for a call, who has it.

Every step of the ladder is a compare-and-set on the alert in the record, so that two processes may
take the same step at once and one number is rung once. Each step also says when the ladder goes on
by itself, in an index that the watchdog reads: a process that dies between two steps costs time.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from callflow.call.ladder import fresh
from callflow.call.record import Frozen, Handling, HumanAlert, TurnAnalysis
from callflow.call.state import CallState, Event
from callflow.errors import UnknownCall
from callflow.redis.client import translated
from callflow.redis.scripts import Scripts
from callflow.store.encoding import (
    BY_AGENT,
    BY_HUMAN,
    alert_json,
    as_json,
    fresh_alert,
    on_call,
    optional_json,
)
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.reader import from_fields
from callflow.store.result import Lease, Result


class AlertStatus(Frozen):
    """What whoever rings humans needs to know of a call: a few fields of its record."""

    call_state: CallState
    site: str | None
    language: str
    scenario_type: str | None
    needs_human: str | None
    handling: Handling
    alert: HumanAlert | None
    alert_due: int | None
    analysis: TurnAnalysis | None = None

    @property
    def unclear(self) -> bool:
        """Nothing was made of what the caller said last."""
        return self.analysis is not None and self.analysis.unclear > 0


_FIELDS = tuple(AlertStatus.model_fields)


@dataclass(frozen=True, slots=True)
class AlertStep:
    """One step of the ladder. `due_ms`: when it goes on by itself, from now; None: not at all."""

    alert: HumanAlert
    due_ms: int | None
    event: str
    reason: str = ""


class Handovers:
    """Passes calls to humans and takes them back. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def read(self, call_sid: str) -> tuple[AlertStatus, int]:
        """Who is wanted for the call, and the server's time, ms. Raises UnknownCall."""
        with (
            translated(self._scripts.where),
            self._scripts.client.pipeline(transaction=False) as pipe,
        ):
            pipe.hmget(call_keys(call_sid).call, *_FIELDS)
            pipe.time()
            fields, (seconds, micros) = pipe.execute()
        if fields[0] is None:
            raise UnknownCall(call_sid)
        status = from_fields(AlertStatus, zip(_FIELDS, fields, strict=True))
        return status, int(seconds) * 1000 + int(micros) // 1000

    def want(self, call_sid: str, reason: str, *, now_ms: int | None = None) -> Result:
        """Have a human rung for `reason`, at once. STALE when one is being rung already."""
        step = AlertStep(fresh(reason), 0, "alerted", reason)
        return self._step(call_sid, "null", step, reason, now_ms)

    def move(
        self, call_sid: str, before: HumanAlert, step: AlertStep, *, now_ms: int | None = None
    ) -> Result:
        """Take one step; STALE where the alert is no longer as it was read (`before`)."""
        return self._step(call_sid, alert_json(before), step, None, now_ms)

    def _step(
        self,
        call_sid: str,
        before: str,
        step: AlertStep,
        needs_human: str | None,
        now_ms: int | None,
    ) -> Result:
        reply = self._scripts.run(
            on_call(
                "move_alert",
                call_sid,
                Event.ALERT,
                before=before,
                alert=alert_json(step.alert),
                due_ms=step.due_ms,
                event=step.event,
                rung=step.alert.contact_index,
                reason=step.reason,
                needs_human=optional_json(needs_human),
                now_ms=now_ms,
            )
        )
        return Result(reply.word)

    def add_journal_line(self, call_sid: str, event: str, reason: str) -> None:
        """One line in the journal of a call that is open; none when it is not. Twice, two lines."""
        line = secrets.token_hex(4)
        self._scripts.run(
            on_call("add_journal_line", call_sid, event=event, reason=reason, line=line)
        )

    def transfer(
        self, call_sid: str, reason: str, *, lease: Lease | None = None, now_ms: int | None = None
    ) -> Result:
        """The agent gives the call up: a human is rung, and what is owed is theirs to answer.
        AGAIN when a human had it already.

        With a lease, only while it is ours. Twice, the first reason stands.
        """
        more = {
            "lease": None if lease is None else lease.token,
            "event": "transferred",
            "needs_human": as_json(reason),
            "alert": fresh_alert(reason),
        }
        return self._pass(call_sid, reason, now_ms, accepted=False, **more)

    def accept(self, call_sid: str, taken: HumanAlert, *, now_ms: int | None = None) -> Result:
        """A human is on the line: `taken` tells on which leg. AGAIN when another one was first."""
        more = {"event": "accepted", "alert": alert_json(taken)}
        return self._pass(call_sid, taken.reason, now_ms, accepted=True, **more)

    def _pass(
        self,
        call_sid: str,
        reason: str,
        now_ms: int | None,
        *,
        accepted: bool,
        **more: str | None,
    ) -> Result:
        reply = self._scripts.run(
            on_call(
                "transfer",
                call_sid,
                Event.TRANSFER,
                reason=reason,
                by_human=BY_HUMAN,
                accepted=accepted,
                channel=SAID_CHANNEL,
                now_ms=now_ms,
                **more,
            )
        )
        return Result(reply.word)

    def resume(
        self, call_sid: str, reason: str, *, over: bool, now_ms: int | None = None
    ) -> Result:
        """Give the call back to the agent; AGAIN when the agent had it. `over`: nobody is to be
        rung any more."""
        reply = self._scripts.run(
            on_call(
                "resume",
                call_sid,
                Event.RESUME,
                by_agent=BY_AGENT,
                reason=reason,
                over=over,
                channel=SAID_CHANNEL,
                now_ms=now_ms,
            )
        )
        return Result(reply.word)
