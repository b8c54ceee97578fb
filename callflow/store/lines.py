"""The line's side of a call: it opens, the caller speaks, it closes.

Each may be asked twice and changes the record once; see `calls.py` for the workers' side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callflow.call.deadline import Timing
from callflow.call.ladder import NOT_UNDERSTOOD_TURNS
from callflow.call.limits import LIMIT, THREAD_MOST_ENTRIES
from callflow.call.state import OPENED, Event, moves_row
from callflow.call.utterance import clean
from callflow.errors import CallEnded, StoreUnreplicated, TurnOutOfOrder, UnknownCall
from callflow.redis.scripts import Scripts
from callflow.store.desk_work import DeskWork
from callflow.store.encoding import (
    BY_HUMAN,
    FRESH,
    as_json,
    clock,
    entry,
    fresh_alert,
    pairs,
    waits_as,
)
from callflow.store.handovers import Handovers
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.losses import Losses
from callflow.store.outcome import Finish, Hear, Heard, Interrupt, Open
from callflow.store.recorded import Recorded
from callflow.store.sayings import Sayings

NOT_UNDERSTOOD = "not_understood"
"""Why a human is rung for a caller whom nobody has understood, turn after turn."""

UNREPLICATED = "unreplicated"
"""Stands in the journal for what too few replicas had in time."""


class Lines:
    """What happens on the lines of one deployment. `handovers`: the way to a human and back;
    `recorded`: the facts that people note; `desk_work`: what else they do; `sayings`: what they
    have said to callers; `losses`: what a failover may take. `archiving`: records last, so those of
    complete calls stay until the lasting store has them (`Unarchived`)."""

    def __init__(
        self,
        scripts: Scripts,
        timing: Timing,
        thread_most_entries: int = THREAD_MOST_ENTRIES,
        archiving: bool = False,
    ) -> None:
        self._scripts = scripts
        self._thread_most_entries = thread_most_entries
        self._archiving = archiving
        self.timing = timing
        self.handovers = Handovers(scripts)
        self.recorded = Recorded(scripts)
        self.desk_work = DeskWork(scripts, self._finish)
        self.sayings = Sayings(scripts, thread_most_entries)
        self.losses = Losses(scripts)

    def open(
        self,
        call_sid: str,
        *,
        site: str | None = None,
        language: str = "en",
        greeting: str = "",
        alert: str | None = None,
        needs_human: str | None = None,
        facts: Mapping[str, Any] | None = None,
        now_ms: int | None = None,
    ) -> Open:
        """Create the record of a call that was received; a second time changes nothing. No
        replicas are waited for: a call that a failover has lost is opened by its next turn.

        `greeting`: what the caller hears first, kept as the agent's turn 0. `alert`: why a human is
        to be rung from the start; `needs_human`: why one is wanted, whom somebody else rings.
        `facts`: what is known of the site.
        """
        keys = call_keys(call_sid)
        fields = {
            "call_sid": as_json(call_sid),
            "call_state": as_json(str(OPENED)),
            **FRESH,
            "language": as_json(clean(call_sid, language)),
            "site": as_json(None if site is None else clean(call_sid, site)),
            "needs_human": as_json(needs_human),
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
        danger: bool = False,
        after_loss: bool = False,
        now_ms: int | None = None,
    ) -> Heard:
        """Store what the caller said in `turn` (from 1): then only a failover can lose it, and only
        where no replicas are waited for.

        The first text stored for a turn stands; the same turn again is REPEATED. An empty text is
        silence, or keys (`digits`). So many turns in a row that were not `understood`, a thread
        that has grown too long, or `wants_human` (a reason), have a human rung. `danger`: the words
        speak of it. `after_loss`: whoever asks knows that the turns before were heard, so a record
        that does not have them has lost them, and goes on from here. Where the thread is full the
        turn counts, its words are not kept, and a human is to have the call. Raises UnknownCall,
        CallEnded, TurnOutOfOrder when `turn` is not the next, and InvalidUtterance, storing
        nothing; StoreUnreplicated when too few replicas have it in time: asked again, it waits on.
        """
        if turn < 1:
            raise TurnOutOfOrder(call_sid, turn, 0)
        keys, keyed = call_keys(call_sid), None if digits is None else clean(call_sid, digits)
        said = entry("caller", turn, clean(call_sid, text), keyed)
        (word, *rest), assured = self._scripts.run_assured(
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
                *_rung_for(NOT_UNDERSTOOD),
                *_rung_for(wants_human),
                self._thread_most_entries,
                *_rung_for(LIMIT),
                int(danger),
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
        if not assured:
            raise self._unreplicated(call_sid, journaled=word == "repeated")
        return _heard(word, rest)

    def _unreplicated(self, call_sid: str, *, journaled: bool) -> StoreUnreplicated:
        if not journaled:
            self.handovers.note(call_sid, "remarked", UNREPLICATED)
        return StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)

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
        """Complete the call: its line is closed. It expires after the completed TTL, which begins
        when the lasting store has it, where there is one.

        Raises StoreUnreplicated when too few replicas have it in time: ask again.
        """
        (word, *_), assured = self._finish("finish", call_sid, outcome, (clock(now_ms),))
        if not assured and word != Finish.UNKNOWN:
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return Finish(word)

    def _finish(
        self, script: str, call_sid: str, outcome: str, more: Sequence[str]
    ) -> tuple[list[str], bool]:
        """Run `script`, which ends in that of the end, with `more` behind its arguments."""
        keys = call_keys(call_sid)
        shard = keys.shard
        said: tuple[list[str], bool] = self._scripts.run_assured(
            script,
            (
                *keys.own,
                *(shard.leases, shard.owed, shard.active, shard.rings),
                *(shard.ended, shard.unarchived),
            ),
            (
                moves_row(Event.END),
                call_sid,
                as_json(outcome),
                outcome,
                self.timing.completed_ttl_ms,
                SAID_CHANNEL,
                int(self._archiving),
                *more,
            ),
        )
        return said


def _rung_for(reason: str | None) -> tuple[str, str]:
    """A reason to have a human rung and the alert for it, as scripts take them."""
    return "" if reason is None else as_json(reason), fresh_alert(reason)


def _heard(word: str, rest: Sequence[str]) -> Heard:
    if word == "repeated":
        return Heard(Hear.REPEATED)
    message, alerted, room, urgency, hurried, phrases = rest
    return Heard(
        Hear(word),
        wake=message == "wake",
        waits=message == "waits",
        alerted=alerted == "alerted",
        full=room == "full",
        urgency=waits_as(urgency, hurried),
        phrases=phrases == "phrases",
    )
