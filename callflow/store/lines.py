"""The line's side of a call: it opens, the caller speaks, it closes.

Each may be asked twice and changes the record once; see `calls.py` for the workers' side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from callflow.call.deadline import Timing
from callflow.call.ladder import NOT_UNDERSTOOD_TURNS
from callflow.call.state import OPENED, Event, moves_row
from callflow.call.utterance import clean
from callflow.errors import CallEnded, TurnOutOfOrder, UnknownCall
from callflow.store.encoding import (
    BY_HUMAN,
    FRESH,
    as_json,
    clock,
    entry,
    fresh_alert,
    pairs,
)
from callflow.store.handovers import Handovers
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.outcome import Finish, Hear, Heard, Interrupt, Open
from callflow.store.recorded import Recorded
from callflow.store.script import Scripts

NOT_UNDERSTOOD = "not_understood"
"""Why a human is rung for a caller whom nobody has understood, turn after turn."""


class Lines:
    """What happens on the lines of one deployment. `handovers`: the way to a human and back;
    `recorded`: the facts that people note."""

    def __init__(self, scripts: Scripts, timing: Timing) -> None:
        self._scripts = scripts
        self.timing = timing
        self.handovers = Handovers(scripts)
        self.recorded = Recorded(scripts)

    def open(
        self,
        call_sid: str,
        *,
        site: str | None = None,
        language: str = "en",
        greeting: str = "",
        alert: str | None = None,
        facts: Mapping[str, Any] | None = None,
        now_ms: int | None = None,
    ) -> Open:
        """Create the record of a call that was received; a second time changes nothing.

        `greeting`: what the caller hears first, kept as the agent's turn 0. `alert`: why a human is
        to be rung from the start. `facts`: what is known of the site.
        """
        keys = call_keys(call_sid)
        fields = {
            "call_sid": as_json(call_sid),
            "call_state": as_json(str(OPENED)),
            **FRESH,
            "language": as_json(clean(call_sid, language)),
            "site": as_json(None if site is None else clean(call_sid, site)),
            "facts": as_json(facts or {}),
        }
        (word,) = self._scripts.run(
            "open",
            (keys.call, keys.thread, keys.journal, keys.shard.active, keys.shard.rings),
            (
                call_sid,
                entry("agent", 0, greeting) if greeting else "",
                fresh_alert(alert),
                *pairs(fields),
                clock(now_ms),
            ),
        )
        return Open(word)

    def hear(
        self,
        call_sid: str,
        turn: int,
        text: str,
        *,
        digits: str | None = None,
        understood: bool = True,
        wants_human: str | None = None,
        after_loss: bool = False,
        now_ms: int | None = None,
    ) -> Heard:
        """Store what the caller said in `turn` (from 1). Once this returns it is never lost.

        The first text stored for a turn stands; the same turn again is REPEATED. An empty text is
        silence, or keys (`digits`). So many turns in a row that were not `understood`, or
        `wants_human` (a reason), have a human rung. `after_loss`: whoever asks knows that the turns
        before were heard, so a record that does not have them has lost them, and goes on from here.
        Raises UnknownCall, CallEnded, TurnOutOfOrder when `turn` is not the next, and
        InvalidUtterance: nothing is stored then.
        """
        keys = call_keys(call_sid)
        if turn < 1:
            raise TurnOutOfOrder(call_sid, turn, 0)
        keyed = None if digits is None else clean(call_sid, digits)
        said = entry("caller", turn, clean(call_sid, text), keyed)
        word, *rest = self._scripts.run(
            "hear",
            (*keys.own, keys.shard.owed, keys.shard.active, keys.shard.leases, keys.shard.rings),
            (
                moves_row(Event.HEAR),
                call_sid,
                turn,
                said,
                self.timing.owed_ms,
                moves_row(Event.HEAR_AFTER_LOSS) if after_loss else "",
                BY_HUMAN,
                "" if understood else NOT_UNDERSTOOD_TURNS,
                as_json(NOT_UNDERSTOOD),
                fresh_alert(NOT_UNDERSTOOD),
                "" if wants_human is None else as_json(wants_human),
                fresh_alert(wants_human),
                clock(now_ms),
            ),
        )
        match word:
            case "unknown":
                raise UnknownCall(call_sid)
            case "ended":
                raise CallEnded(call_sid, str(Event.HEAR))
            case "ahead":
                raise TurnOutOfOrder(call_sid, turn, int(rest[0]))
            case "repeated":
                return Heard(Hear.REPEATED)
            case _:
                return Heard(Hear(word), wake=rest[0] == "wake", alerted=rest[1] == "alerted")

    def interrupt(
        self, call_sid: str, turn: int, heard: str, *, now_ms: int | None = None
    ) -> Interrupt:
        """The caller spoke into the reply to `turn` when they had heard so much of it.

        The reply stays whole in the thread, with what was heard beside it. The first time stands.
        """
        keys = call_keys(call_sid)
        (word,) = self._scripts.run(
            "interrupt",
            keys.own,
            (
                moves_row(Event.INTERRUPT),
                turn,
                as_json(clean(call_sid, heard)),
                entry("agent", turn, "").split('"text"')[0],
                clock(now_ms),
            ),
        )
        return Interrupt(word)

    def sent(
        self,
        call_sid: str,
        turn: int,
        length: int,
        *,
        left_ms: int = 0,
        played: int | None = None,
        now_ms: int | None = None,
    ) -> None:
        """A relay socket has sent `length` letters of the reply to `turn`, all that it has sent
        takes `left_ms` to say, and the carrier tells that `played` letters were heard (None: it
        tells nothing): the next socket needs to know, should this one break. Nothing happens where
        the call is over."""
        heard = "" if played is None else played
        arguments = ("sent", turn, length, left_ms, heard, clock(now_ms))
        self._scripts.run("sent", (call_keys(call_sid).call,), arguments)

    def played(self, call_sid: str, turn: int, length: int, *, now_ms: int | None = None) -> None:
        """The carrier tells that the caller has heard `length` letters of the reply to `turn`. Late
        word of an earlier turn, or of less, changes nothing."""
        arguments = ("played", turn, 0, 0, length, clock(now_ms))
        self._scripts.run("sent", (call_keys(call_sid).call,), arguments)

    def end(self, call_sid: str, outcome: str, *, now_ms: int | None = None) -> Finish:
        """Complete the call: its line is closed. It expires after the completed TTL."""
        keys = call_keys(call_sid)
        shard = keys.shard
        (word,) = self._scripts.run(
            "finish",
            (*keys.own, shard.leases, shard.owed, shard.active, shard.rings, shard.ended),
            (
                moves_row(Event.END),
                call_sid,
                as_json(outcome),
                outcome,
                self.timing.completed_ttl_ms,
                SAID_CHANNEL,
                clock(now_ms),
            ),
        )
        return Finish(word)
