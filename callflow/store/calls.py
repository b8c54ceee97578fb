"""Every transition of a call, one script each: the only place where a record changes.

Each may be run twice with the same arguments and changes the record once. `now_ms` overrides the
server's clock and is for tests. All raise StoreUnavailable when the server cannot be reached;
whether the transition happened is then unknown, and asking again is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from callflow.call.record import CallRecord, SopChunk
from callflow.call.state import Event, moves_row
from callflow.errors import StoreError
from callflow.redis.scripts import Invocation
from callflow.store.encoding import (
    as_json,
    clock,
    entry,
    fresh_alert,
    pairs,
)
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.lines import UNREPLICATED, Lines
from callflow.store.outcome import (
    Beat,
    Claim,
    Claimed,
    Commit,
    Committed,
    Kept,
    Lease,
    Note,
    Release,
    Released,
)

_CHUNKS = TypeAdapter(tuple[SopChunk, ...])


class CallStore(Lines):
    """The calls of one deployment in one Redis server (or one slot each of a cluster).

    Here stands what workers and the watchdog do to a call; what its line does stands in `Lines`.
    """

    def claim(
        self, call_sid: str, worker: str, claim_id: str, *, now_ms: int | None = None
    ) -> Claimed | Claim:
        """Give an owed call to `worker`, with a fence larger than any before.

        `claim_id` names this attempt: asked again with the same one, the same lease is returned.
        """
        keys = call_keys(call_sid)
        word, *found = self._scripts.run(
            "claim",
            (keys.call, keys.thread, keys.journal, keys.shard.leases, keys.shard.owed),
            (moves_row(Event.CLAIM), call_sid, worker, claim_id, clock(now_ms)),
        )
        if word != "claimed":
            return Claim(word)
        record = CallRecord.model_validate_json(found[0])
        return Claimed(Lease(call_sid, record.fence, worker, claim_id), record)

    def beat(self, *leases: Lease, now_ms: int | None = None) -> list[Beat | StoreError]:
        """Renew leases, all in one round trip; one word each, in the same order. What a node of a
        cluster that is gone could not renew is an error in its place."""
        beats = [
            Invocation(
                "beat",
                (keys.call, keys.journal, keys.shard.leases),
                (moves_row(Event.BEAT), lease.call_sid, lease.token, clock(now_ms)),
            )
            for lease, keys in ((lease, call_keys(lease.call_sid)) for lease in leases)
        ]
        told = self._scripts.run_on_all_shards(beats)
        return [one if isinstance(one, StoreError) else Beat(one[0]) for one in told]

    def note_understood(
        self, lease: Lease, record: CallRecord, *, now_ms: int | None = None
    ) -> Kept:
        """Keep what `record` has understood of the owed turn: language, scenarios, urgency, facts,
        and the procedures for them, so that no takeover reads the words again. Where these always
        fetch a person, one is rung from now on."""
        fields = {
            "understood": as_json(record.understood),
            "language": as_json(record.language),
            "scenario_type": as_json(record.scenario_type),
            "open_scenarios": as_json(record.open_scenarios),
            "urgency": as_json(record.urgency),
            "grounds": as_json(record.grounds),
            "facts": as_json(record.facts),
            "sop_step": as_json(record.sop_step),
            # What is not said is the default: every claim reads all of it.
            "retrieved_sop_chunks": _CHUNKS.dump_json(
                record.retrieved_sop_chunks, exclude_defaults=True
            ).decode(),
        }
        wanted = record.fetches_human
        if wanted is not None:
            fields["needs_human"] = as_json(wanted)
        word, alerted = self._noted(lease, "understood", "", fields, now_ms, wanted=wanted)
        return Kept(word, alerted)

    def note_draft(
        self,
        lease: Lease,
        turn: int,
        text: str,
        *,
        lang: str | None = None,
        now_ms: int | None = None,
    ) -> Note:
        """Keep all of the reply to `turn` that has been sent to the caller so far, and say so;
        `lang` is its language."""
        draft = as_json({"turn": turn, "text": text} | ({} if lang is None else {"lang": lang}))
        fields = {"draft": draft}
        return self._noted(lease, "drafted", SAID_CHANNEL, fields, now_ms, f"\n{draft}")[0]

    def _noted(
        self,
        lease: Lease,
        what: str,
        channel: str,
        fields: Mapping[str, str],
        now_ms: int | None,
        published: str = "",
        wanted: str | None = None,
    ) -> tuple[Note, bool]:
        keys = call_keys(lease.call_sid)
        word, *alerted = self._scripts.run(
            "note",
            (keys.call, keys.journal, keys.shard.rings),
            (
                moves_row(Event.DRAFT),
                lease.call_sid,
                lease.token,
                what,
                channel,
                published,
                fresh_alert(wanted),
                *pairs(fields),
                clock(now_ms),
            ),
        )
        return Note(word), alerted == ["alerted"]

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
        is undone: whoever speaks with the caller asks `has_reply` before they say it.
        """
        keys = call_keys(lease.call_sid)
        learned = {"sop_step": sop_step, "needs_human": needs_human, "facts": facts}
        fields = {name: as_json(value) for name, value in learned.items() if value is not None}
        (word, *rest), assured = self._scripts.run_assured(
            "commit",
            (*keys.own, keys.shard.leases, keys.shard.owed, keys.shard.rings),
            (
                moves_row(Event.COMMIT),
                lease.call_sid,
                lease.token,
                turn,
                entry("agent", turn, text, lang=lang),
                self.timing.owed_ms,
                SAID_CHANNEL,
                fresh_alert(needs_human),
                *pairs(fields),
                clock(now_ms),
            ),
        )
        if not assured and word in (Commit.OK, Commit.MOVED):
            self.handovers.note(lease.call_sid, "remarked", UNREPLICATED)
        return Committed(Commit(word), rest[:1] == ["alerted"], rest[1:] == ["1"])

    def hand_back(
        self, lease: Lease, reason: str, *, costs: bool, now_ms: int | None = None
    ) -> Released:
        """Let go of a turn that is not answered. `costs`: it counts as an attempt that failed."""
        return self._release(
            lease.call_sid, lease.token, Event.HAND_BACK, "handed_back", reason, costs, "", now_ms
        )

    def reclaim(
        self, call_sid: str, fence: int, seen_beat: int, reason: str, *, now_ms: int | None = None
    ) -> Released:
        """Take a call back from a silent worker, unless it has beaten after `seen_beat`."""
        return self._release(
            call_sid, str(fence), Event.RECLAIM, "reclaimed", reason, True, str(seen_beat), now_ms
        )

    def _release(
        self,
        call_sid: str,
        token: str,
        event: Event,
        line: str,
        reason: str,
        costs: bool,
        seen_beat: str,
        now_ms: int | None,
    ) -> Released:
        keys = call_keys(call_sid)
        word, *rest = self._scripts.run(
            "release",
            (keys.call, keys.journal, keys.shard.leases, keys.shard.owed),
            (
                moves_row(event),
                call_sid,
                token,
                line,
                reason,
                int(costs),
                seen_beat,
                self.timing.owed_ms,
                clock(now_ms),
            ),
        )
        return Released(Release(word), int(rest[0]) if rest else 0)
