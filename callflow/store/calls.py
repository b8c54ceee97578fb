"""The calls of one deployment: each method is one transition, and runs one script.

Each may be run twice with the same arguments and changes the record once. `now_ms` overrides the
server's clock and is for tests. All raise StoreUnavailable when the server cannot be reached;
whether the transition happened is then unknown, and asking again is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from pydantic import TypeAdapter

from callflow.call.ladder import NOT_UNDERSTOOD_TURNS
from callflow.call.limits import LIMIT, THREAD_MOST_ENTRIES, Timing
from callflow.call.record import CallRecord, SopChunk
from callflow.call.state import OPENED, Event, moves_row
from callflow.call.utterance import clean
from callflow.errors import CallEnded, StoreError, StoreUnreplicated, TurnOutOfOrder, UnknownCall
from callflow.redis.scripts import ScriptReply, Scripts
from callflow.store.caller_line import CallerLines, ReplyPlayback
from callflow.store.encoding import (
    BY_HUMAN,
    FRESH,
    as_json,
    entry,
    fresh_alert,
    on_call,
    optional_json,
    pairs,
    urgency_of,
)
from callflow.store.failover import Failover
from callflow.store.handovers import Handovers
from callflow.store.keys import SAID_CHANNEL
from callflow.store.result import (
    AnalysisSaved,
    Claimed,
    Committed,
    Lease,
    Released,
    Result,
    UtteranceStored,
)
from callflow.store.staff_actions import StaffActions

NOT_UNDERSTOOD = "not_understood"
"""Why a human is rung for a caller whom nobody has understood, turn after turn."""

UNREPLICATED = "unreplicated"
"""Stands in the journal for what too few replicas had in time."""

_CHUNKS = TypeAdapter(tuple[SopChunk, ...])


class Opening(TypedDict, total=False):
    """What is known of a call when it is opened: see `CallStore.open`."""

    site: str | None
    language: str
    greeting: str
    needs_human: str | None
    facts: Mapping[str, Any] | None


class Heard(TypedDict, total=False):
    """What is known of what a caller said, beside the words: see `CallStore.record_utterance`."""

    digits: str | None
    confidence: float | None
    understood: bool
    wants_human: str | None
    after_loss: bool


class CallStore:
    """The calls of one deployment in one Redis server (or one slot each of a cluster).

    `handovers`: the way to a human and back; `staff`: what people do in a call; `playback`: how
    much of a reply was heard; `failover`: what a failover may take; `lines`: which socket speaks
    with a caller. `archiving`: records last, so those of complete calls stay until the lasting
    store has them.
    """

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
        self.staff = StaffActions(scripts, self._end, thread_full=2 * thread_most_entries)
        self.playback = ReplyPlayback(scripts)
        self.failover = Failover(scripts)
        self.lines = CallerLines(scripts)

    # The caller's line: it opens, the caller speaks, it closes ------------------------------------

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
    ) -> Result:
        """Create the record of a call that was received: OK, or AGAIN where it is open already. No
        replicas are waited for: a call that a failover has lost is opened by its next turn.

        `greeting`: what the caller hears first, kept as the agent's turn 0. `alert`: why a human is
        to be rung from the start; `needs_human`: why one is wanted, whom somebody else rings.
        `facts`: what is known of the site.
        """
        fields = {
            "call_sid": as_json(call_sid),
            "call_state": as_json(str(OPENED)),
            **FRESH,
            "language": as_json(clean(call_sid, language)),
            "site": as_json(None if site is None else clean(call_sid, site)),
            "needs_human": as_json(needs_human),
            "facts": as_json(facts or {}),
        }
        reply = self._scripts.run(
            on_call(
                "open_call",
                call_sid,
                opening=entry("agent", 0, greeting) if greeting else None,
                alert=fresh_alert(alert),
                fields=pairs(fields),
                now_ms=now_ms,
            )
        )
        return Result(reply.word)

    def record_utterance(
        self,
        call_sid: str,
        turn: int,
        text: str,
        *,
        danger: bool = False,
        now_ms: int | None = None,
        **heard: Unpack[Heard],
    ) -> UtteranceStored:
        """Store what the caller said in `turn` (from 1): then only a failover can lose it, and only
        where no replicas are waited for.

        The first text stored for a turn stands; the same turn again is AGAIN. An empty text is
        silence, or keys (`digits`). `confidence` is the recogniser's own, 0 to 1. So many turns in
        a row that were not `understood`, a thread that has grown too long, or `wants_human` (a
        reason), have a human rung. `danger`: the words speak of it. `after_loss`: whoever asks
        knows that the turns before were heard, so a record that does not have them has lost them,
        and goes on from here. Where the thread is full the turn counts, its words are not kept, and
        a human is to have the call. Raises UnknownCall, CallEnded, TurnOutOfOrder when `turn` is
        not the next, and InvalidUtterance, storing nothing; StoreUnreplicated when too few replicas
        have it in time: asked again, it waits on.
        """
        if turn < 1:
            raise TurnOutOfOrder(call_sid, turn, 0)
        digits, wants_human = heard.get("digits"), heard.get("wants_human")
        keyed = None if digits is None else clean(call_sid, digits)
        said = clean(call_sid, text)
        reply, assured = self._scripts.run_assured(
            on_call(
                "record_utterance",
                call_sid,
                Event.HEAR,
                turn=turn,
                entry=entry("caller", turn, said, keyed, confidence=heard.get("confidence")),
                owed_ms=self.timing.owed_ms,
                after_loss=moves_row(Event.HEAR_AFTER_LOSS) if heard.get("after_loss") else None,
                by_human=BY_HUMAN,
                unclear_most=None if heard.get("understood", True) else NOT_UNDERSTOOD_TURNS,
                unclear_reason=as_json(NOT_UNDERSTOOD),
                unclear_alert=fresh_alert(NOT_UNDERSTOOD),
                reason=optional_json(wants_human),
                alert=fresh_alert(wants_human),
                thread_most=self._thread_most_entries,
                limit_reason=as_json(LIMIT),
                limit_alert=fresh_alert(LIMIT),
                danger=danger,
                now_ms=now_ms,
            )
        )
        _refuse_utterance(call_sid, turn, reply)
        if not assured:
            if reply.word != Result.AGAIN:
                self.handovers.add_journal_line(call_sid, "remarked", UNREPLICATED)
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return _stored(reply)

    def end(self, call_sid: str, outcome: str, *, now_ms: int | None = None) -> Result:
        """Complete the call: its line is closed. ENDED where it was complete before: its first
        outcome stands. It expires after the completed TTL, which begins when the lasting store has
        it, where there is one.

        Raises StoreUnreplicated when too few replicas have it in time: ask again.
        """
        reply, assured = self._end(call_sid, outcome, now_ms=now_ms)
        if not assured and reply.word != Result.UNKNOWN:
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return Result(reply.word)

    def _end(
        self, call_sid: str, outcome: str, *, now_ms: int | None, **by_staff: str | int | None
    ) -> tuple[ScriptReply, bool]:
        return self._scripts.run_assured(
            on_call(
                "end_call",
                call_sid,
                Event.END,
                outcome=as_json(outcome),
                reason=outcome,
                completed_ttl_ms=self.timing.completed_ttl_ms,
                channel=SAID_CHANNEL,
                archiving=self._archiving,
                now_ms=now_ms,
                **by_staff,
            )
        )

    # The worker that has the call -----------------------------------------------------------------

    def claim(
        self, call_sid: str, worker: str, claim_id: str, *, now_ms: int | None = None
    ) -> Claimed | Result:
        """Give an owed call to `worker`, with a fence larger than any before; else why not: IDLE,
        HELD, ENDED or UNKNOWN.

        `claim_id` names this attempt: asked again with the same one, the same lease is returned.
        """
        word, facts = self._scripts.run(
            on_call("claim", call_sid, Event.CLAIM, worker=worker, claim=claim_id, now_ms=now_ms)
        )
        if word != Result.OK:
            return Result(word)
        record = CallRecord.model_validate_json(facts["record"])
        return Claimed(Lease(call_sid, record.fence, worker, claim_id), record)

    def beat(self, *leases: Lease, now_ms: int | None = None) -> list[Result | StoreError]:
        """Renew leases, all in one round trip; one result each, in the same order. What a node of a
        cluster that is gone could not renew is an error in its place."""
        beats = [
            on_call("beat", lease.call_sid, Event.BEAT, lease=lease.token, now_ms=now_ms)
            for lease in leases
        ]
        return [
            one if isinstance(one, StoreError) else Result(one.word)
            for one in self._scripts.run_on_all_shards(beats)
        ]

    def save_analysis(
        self, lease: Lease, record: CallRecord, *, now_ms: int | None = None
    ) -> AnalysisSaved:
        """Keep what `record` has understood of the owed turn: language, scenarios, urgency, facts,
        and the procedures for them, so that no takeover reads the words again. Where these always
        fetch a person, or nothing was made of several turns in a row, one is rung from now on."""
        fields = {
            "understood": as_json(record.understood),
            "language": as_json(record.language),
            "scenario_type": as_json(record.scenario_type),
            "open_scenarios": as_json(record.open_scenarios),
            "urgency": as_json(record.urgency),
            "grounds": as_json(record.grounds),
            "facts": as_json(record.facts),
            "sop_step": as_json(record.sop_step),
            "analysis": "null"
            if record.analysis is None
            else record.analysis.model_dump_json(exclude_defaults=True),
            # What is not said is the default: every claim reads all of it.
            "retrieved_sop_chunks": _CHUNKS.dump_json(
                record.retrieved_sop_chunks, exclude_defaults=True
            ).decode(),
        }
        wanted = record.fetches_human
        unclear = 0 if record.analysis is None else record.analysis.unclear
        if wanted is None and unclear >= NOT_UNDERSTOOD_TURNS:
            wanted = NOT_UNDERSTOOD
        if wanted is not None:
            fields["needs_human"] = as_json(wanted)
        word, facts = self._scripts.run(
            on_call(
                "save_progress",
                lease.call_sid,
                Event.DRAFT,
                lease=lease.token,
                event="understood",
                alert=fresh_alert(wanted),
                fields=pairs(fields),
                now_ms=now_ms,
            )
        )
        return AnalysisSaved(Result(word), "alerted" in facts)

    def save_draft(
        self,
        lease: Lease,
        turn: int,
        text: str,
        *,
        lang: str | None = None,
        now_ms: int | None = None,
    ) -> Result:
        """Keep all of the reply to `turn` that has been sent to the caller so far, and say so;
        `lang` is its language."""
        draft = as_json({"turn": turn, "text": text} | ({} if lang is None else {"lang": lang}))
        reply = self._scripts.run(
            on_call(
                "save_progress",
                lease.call_sid,
                Event.DRAFT,
                lease=lease.token,
                event="drafted",
                channel=SAID_CHANNEL,
                published=f"\n{draft}",
                fields=("draft", draft),
                now_ms=now_ms,
            )
        )
        return Result(reply.word)

    def commit(
        self,
        lease: Lease,
        turn: int,
        text: str,
        *,
        sop_step: int | None = None,
        needs_human: str | None = None,
        facts: Mapping[str, Any] | None = None,
        lang: str | None = None,
        now_ms: int | None = None,
    ) -> Committed:
        """Store the reply to `turn`, in the language `lang`, and let the call go.

        `sop_step`, `needs_human` and `facts` stay as they are where they are None; a reason to
        fetch a human has one rung. That too few replicas have it in time is journaled, and nothing
        is undone: whoever speaks with the caller asks `Failover.has_reply` before they say it.
        """
        learned = {"sop_step": sop_step, "needs_human": needs_human, "facts": facts}
        fields = {name: as_json(value) for name, value in learned.items() if value is not None}
        (word, said), assured = self._scripts.run_assured(
            on_call(
                "commit",
                lease.call_sid,
                Event.COMMIT,
                lease=lease.token,
                turn=turn,
                entry=entry("agent", turn, text, lang=lang),
                owed_ms=self.timing.owed_ms,
                channel=SAID_CHANNEL,
                alert=fresh_alert(needs_human),
                fields=pairs(fields),
                now_ms=now_ms,
            )
        )
        if not assured and word in (Result.OK, Result.MOVED):
            self.handovers.add_journal_line(lease.call_sid, "remarked", UNREPLICATED)
        return Committed(Result(word), "alerted" in said, "hurried" in said)

    def hand_back(
        self, lease: Lease, reason: str, *, costs: bool, now_ms: int | None = None
    ) -> Released:
        """Let go of a turn that is not answered. `costs`: it counts as an attempt that failed."""
        return self._release(
            Event.HAND_BACK,
            lease.call_sid,
            lease.token,
            event="handed_back",
            reason=reason,
            costs=costs,
            now_ms=now_ms,
        )

    # The watchdog ---------------------------------------------------------------------------------

    def reclaim(
        self, call_sid: str, fence: int, seen_beat: int, reason: str, *, now_ms: int | None = None
    ) -> Released:
        """Take a call back from a silent worker; ALIVE where it has beaten after `seen_beat`."""
        return self._release(
            Event.RECLAIM,
            call_sid,
            str(fence),
            event="reclaimed",
            reason=reason,
            costs=True,
            seen_beat=seen_beat,
            now_ms=now_ms,
        )

    def _release(self, move: Event, call_sid: str, lease: str, **named: Any) -> Released:
        owed_ms = self.timing.owed_ms
        word, facts = self._scripts.run(
            on_call("release", call_sid, move, lease=lease, owed_ms=owed_ms, **named)
        )
        return Released(Result(word), int(facts.get("attempts", 0)))


def _refuse_utterance(call_sid: str, turn: int, reply: ScriptReply) -> None:
    match Result(reply.word):
        case Result.UNKNOWN:
            raise UnknownCall(call_sid)
        case Result.ENDED:
            raise CallEnded(call_sid, str(Event.HEAR))
        case Result.AHEAD:
            raise TurnOutOfOrder(call_sid, turn, int(reply.facts["heard"]))


def _stored(reply: ScriptReply) -> UtteranceStored:
    if reply.word == Result.AGAIN:
        return UtteranceStored(Result.AGAIN)
    return UtteranceStored(
        Result.OK,
        wake="wake" in reply.facts,
        waits="waits" in reply.facts,
        alerted="alerted" in reply.facts,
        full="full" in reply.facts,
        urgency=urgency_of(reply),
        phrases="phrases" in reply.facts,
    )
