"""The watchdog's eyes: which leases are overdue, whose holder is gone, what nobody has claimed.

Presence: a process that runs turns keeps one subscription to a channel of its own name. The server
drops it within milliseconds of the process's death, so one PUBSUB NUMSUB tells which of many names
are still alive. It can only hasten a reclaim: a lease without a beat for `stale_ms` is taken back
whoever seems present. And it may be wrong once: after the server restarts or fails over all
subscriptions are gone at the same moment, so absence is not believed until the workers have had
time to come back. A wrong guess costs a turn done twice and said once; the fence sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callflow.call.deadline import Timing
from callflow.store.keys import ALL_SHARDS, EPOCH, SWEPT, call_keys, presence_channel
from callflow.store.script import Invocation, Scripts, translated

BATCH = 500
"""Calls of one kind that one sweep takes from one shard; the next sweep is a moment away."""

RING_REWAKE_MS = 2_000
"""A due ring that was given to a sweep and not moved on for so long has lost its message."""

EPOCH_TTL_S = 7 * 24 * 3600

UNDERSTUDY_AFTER_MS = 1_000
"""With no sweep for so long, any worker's parent process sweeps in the watchdog's stead."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call whose last beat is overdue, and who should have beaten."""

    call_sid: str
    worker: str
    fence: int
    last_beat: int


@dataclass(frozen=True, slots=True)
class Findings:
    """What one look over all shards found. Times are on the server's clock, ms."""

    now_ms: int
    suspects: tuple[Suspect, ...]
    unclaimed: tuple[str, ...]
    """Owed calls past their deadline: see `take_unclaimed`."""
    abandoned: tuple[str, ...]
    """Calls in which nothing has happened for very long."""
    rings: tuple[str, ...]
    """Calls for which the ladder of humans is to go on: each is given to one look only."""
    presence_counts: bool
    """False while an absent subscription proves nothing."""


class Leases:
    """Reads the indexes over all calls. Several watchdogs may look at once."""

    def __init__(self, scripts: Scripts, timing: Timing) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._timing = timing

    def mark_sweep(self, by: str) -> None:
        """Say that `by` sweeps now, so that no understudy has to."""
        with translated(self._scripts.where):
            self._client.set(SWEPT, by, px=UNDERSTUDY_AFTER_MS)

    def take_missed_sweep(self, by: str) -> bool:
        """True when nobody has swept for a second: then this round is `by`'s, and no other's."""
        with translated(self._scripts.where):
            return bool(self._client.set(SWEPT, by, px=UNDERSTUDY_AFTER_MS, nx=True))

    def last_sweep(self) -> tuple[str, int] | None:
        """Who swept last and how many ms ago; None when that is more than a second ago."""
        with translated(self._scripts.where), self._client.pipeline() as pipe:
            pipe.get(SWEPT)
            pipe.pttl(SWEPT)
            by, left_ms = pipe.execute()
        return None if by is None else (by, UNDERSTUDY_AFTER_MS - left_ms)

    def look(self, *, now_ms: int | None = None) -> Findings:
        """One look over all shards: one pipelined request, a second where a beat is overdue."""
        timing = self._timing
        args = (
            timing.overdue_ms,
            timing.abandoned_ms,
            BATCH,
            RING_REWAKE_MS,
            "" if now_ms is None else str(now_ms),
        )
        found = self._scripts.run_all(
            [
                Invocation("sweep", (shard.leases, shard.owed, shard.active, shard.rings), args)
                for shard in ALL_SHARDS
            ]
        )
        now = int(found[0][0])
        overdue = [call_sid for _, flat, *_ in found for call_sid in flat[::2]]
        return Findings(
            now_ms=now,
            suspects=self._suspects(overdue),
            unclaimed=tuple(sid for _, _, lost, *_ in found for sid in lost),
            abandoned=tuple(sid for _, _, _, gone, _ in found for sid in gone),
            rings=tuple(sid for *_, due in found for sid in due),
            presence_counts=self._presence_counts(now) if overdue else True,
        )

    def take_unclaimed(
        self, call_sids: Sequence[str], *, now_ms: int | None = None
    ) -> list[tuple[str, int]]:
        """Those of `call_sids` that are to be woken now, each with the attempts it has cost.

        Each is given to one sweep only, and its deadline is set on.
        """
        timing = self._timing
        args = (timing.owed_ms, timing.rewake_ms, "" if now_ms is None else str(now_ms))
        asked = [
            Invocation("rewake", (keys.call, keys.shard.owed), (call_sid, *args))
            for call_sid, keys in ((sid, call_keys(sid)) for sid in call_sids)
        ]
        replies = zip(call_sids, self._scripts.run_all(asked), strict=True)
        return [(sid, int(reply[1])) for sid, reply in replies if reply[0] == "wake"]

    def present(self, workers: Sequence[str]) -> frozenset[str]:
        """Those of `workers` whose processes have their subscription open."""
        if not workers:
            return frozenset()
        channels = {presence_channel(worker): worker for worker in workers}
        with translated(self._scripts.where):
            counts = self._client.pubsub_numsub(*channels)
        return frozenset(channels[str(channel)] for channel, count in counts if count)

    def present_now(self) -> list[str]:
        """The names of all processes with an open subscription, for people who look."""
        with translated(self._scripts.where):
            channels = self._client.pubsub_channels(presence_channel("*"))
        return sorted(str(channel).removeprefix(presence_channel("")) for channel in channels)

    def _suspects(self, call_sids: Sequence[str]) -> tuple[Suspect, ...]:
        if not call_sids:
            return ()
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for call_sid in call_sids:
                pipe.hmget(call_keys(call_sid).call, "assigned_worker", "fence", "last_heartbeat")
            rows = pipe.execute()
        return tuple(
            Suspect(call_sid, (worker or "").strip('"'), int(fence or 0), int(beat or 0))
            for call_sid, (worker, fence, beat) in zip(call_sids, rows, strict=True)
            if worker != "null"
        )

    def _presence_counts(self, now_ms: int) -> bool:
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            pipe.info("server")
            pipe.info("replication")
            pipe.get(EPOCH)
            server, replication, known = pipe.execute()
            # run_id changes with a restart, master_replid with a promotion.
            life = f"{server['run_id']}/{replication['master_replid']}"
            known_life, _, since = (known or "").rpartition(" ")
            if known_life != life:
                # Never seen: the server is as old as it says. Another one was seen before: its
                # subscribers have lost their connections at some time up to now.
                age_ms = 0 if known_life else int(server["uptime_in_seconds"]) * 1000
                since = str(now_ms - age_ms)
                self._client.set(EPOCH, f"{life} {since}", ex=EPOCH_TTL_S)
        return now_ms - int(since) >= self._timing.resubscribe_ms
