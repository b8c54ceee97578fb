"""Finds calls that waited too long: a beat is overdue, a holder gone, a turn owed, a line quiet.

Presence: a process that runs turns keeps one subscription to a channel of its own name. The server
drops it within milliseconds of the process's death, so one PUBSUB NUMSUB tells which of many names
are still alive. It can only hasten a reclaim: a lease without a beat for `stale_ms` is taken back
whoever seems present. And it may be wrong once: after the server restarts or fails over all
subscriptions are gone at the same moment, so absence is not believed until the workers have had
time to come back. A wrong guess costs a turn done twice and said once; the fence sees to that.

In a cluster each node knows its own subscribers alone and has its own clock: presence is asked of
every master and not believed while one of them cannot be asked, and an age is counted by the clock
of the node that stamped it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from callflow.call.limits import Timing
from callflow.call.urgency import Urgency
from callflow.errors import StoreError
from callflow.redis.client import CONNECTION_ERRORS, nodes, translated
from callflow.redis.cluster import Cluster
from callflow.redis.scripts import ScriptReply, Scripts, invoke
from callflow.store.encoding import on_call, urgency_of
from callflow.store.keys import ALL_SHARDS, EPOCH, SWEPT, call_keys, presence_channel
from callflow.store.result import Result

MOST_OF_A_SHARD = 1
"""Of `StaleCalls`, at one look: so few that all of them are asked about before the next."""

BATCH = 500
"""Calls of one kind that one sweep takes from one shard; the next sweep is a moment away."""

REWAKE_MS = 2_000
"""A due ring or line that was given to a sweep and not moved on for so long has lost its
message."""

LOOK_GAP_MS = 1_000
"""Nobody looked for so long: whoever holds a line could not beat either, and is given as long."""

EPOCH_TTL_S = 7 * 24 * 3600

LIFE_EVERY_S = 1.0
"""How often it is looked whether the server is another than it was."""

UNDERSTUDY_AFTER_MS = 1_000
"""With no sweep for so long, any worker's parent process sweeps in the watchdog's stead."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A call whose last beat is overdue, and who should have beaten."""

    call_sid: str
    worker: str
    fence: int
    last_beat: int
    silent_ms: int
    """Since that beat, by the clock that stamped it."""


@dataclass(frozen=True, slots=True)
class Unclaimed:
    """An owed call whose message counts as lost. `attempts`: how many workers its turn has cost."""

    call_sid: str
    attempts: int
    owed_since: int
    urgency: Urgency | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What one look over all shards found."""

    suspects: tuple[Suspect, ...]
    unclaimed: tuple[str, ...]
    """Owed calls past their deadline: see `take_unclaimed`."""
    abandoned: tuple[str, ...]
    """Calls in which nothing has happened for very long."""
    rings: tuple[str, ...]
    """Calls for which the ladder of humans is to go on: each is given to one look only."""
    lines: tuple[str, ...]
    """Calls whose callers no web process listens to any more: each is given to one look only."""
    presence_counts: bool
    """False while an absent subscription proves nothing."""
    failure: StoreError | None = None
    """Why a part of the shards could not be looked at: a node of the cluster is gone."""


class Leases:
    """Reads the indexes over all calls. Several watchdogs may look at once."""

    def __init__(self, scripts: Scripts, timing: Timing) -> None:
        self._scripts = scripts
        self._client = scripts.client
        self._timing = timing
        self._life_at = float("-inf")
        # One where one server has them all; one with each shard, so wherever there is a node left.
        spread = isinstance(self._client, Cluster)
        self._marks = tuple(shard.swept for shard in ALL_SHARDS) if spread else (SWEPT,)

    def mark_sweep(self, by: str) -> None:
        """Say that `by` sweeps now, so that no understudy has to."""
        self._ask_marks(("SET", by, "PX", UNDERSTUDY_AFTER_MS))

    def take_missed_sweep(self, by: str) -> bool:
        """True when nobody has swept for a second: then this round is `by`'s, and no other's (in a
        cluster two may take it at the same moment, which does no harm)."""
        taken = self._ask_marks(("SET", by, "PX", UNDERSTUDY_AFTER_MS, "NX"))
        return any(answer for (answer,) in taken)

    def last_sweep(self) -> tuple[str, int] | None:
        """Who swept last and how many ms ago; None when that is more than a second ago."""
        marks = [(left, by) for by, left in self._ask_marks(("GET",), ("PTTL",)) if by is not None]
        if not marks:
            return None
        left_ms, by = max(marks)
        return by, UNDERSTUDY_AFTER_MS - left_ms

    def _ask_marks(self, *commands: tuple[str | int, ...]) -> list[tuple[Any, ...]]:
        """The answers of each mark of a sweep that can be asked; a node of a cluster that is gone
        must not end all sweeps. Each command is a name and what follows the key."""
        many = len(commands)
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for mark in self._marks:
                for name, *rest in commands:
                    pipe.execute_command(name, mark, *rest)  # type: ignore[no-untyped-call]
            # Of one server the error is raised within, where it has the command tried again.
            told = pipe.execute(raise_on_error=len(self._marks) == 1)
            answers = [tuple(told[n : n + many]) for n in range(0, len(told), many)]
            known = [one for one in answers if not any(isinstance(a, Exception) for a in one)]
            if not known:
                raise next(answer for answer in told if isinstance(answer, Exception))
        return known

    def look(self, *, now_ms: int | None = None) -> Findings:
        """One look over all shards: one pipelined request, a second where a beat is overdue, and
        once a second.

        Where one node of a cluster is gone the calls of the others are looked after all the same.
        """
        timing = self._timing
        looks = [
            invoke(
                "sweep",
                shard.by_name,
                overdue_ms=timing.overdue_ms,
                abandoned_ms=timing.abandoned_ms,
                most=BATCH,
                rewake_ms=REWAKE_MS,
                gap_ms=LOOK_GAP_MS,
                now_ms=now_ms,
            )
            for shard in ALL_SHARDS
        ]
        told = self._scripts.run_on_all_shards(looks)
        found = [one.facts for one in told if isinstance(one, ScriptReply)]
        failure = next((one for one in told if isinstance(one, StoreError)), None)
        overdue = {sid: int(one["now"]) for one in found for sid in one["overdue"][::2]}
        now = int(found[0]["now"])
        counts = self._presence_counts(now) if overdue or self._life_is_due() else True
        return Findings(
            suspects=self._suspects(overdue),
            unclaimed=tuple(sid for one in found for sid in one["unclaimed"]),
            abandoned=tuple(sid for one in found for sid in one["abandoned"]),
            rings=tuple(sid for one in found for sid in one["rings"]),
            lines=tuple(sid for one in found for sid in one.get("lines", ())),
            presence_counts=counts or not overdue,
            failure=failure,
        )

    def take_unclaimed(
        self, call_sids: Sequence[str], *, backlog: bool = True, now_ms: int | None = None
    ) -> list[Unclaimed]:
        """Those of `call_sids` that are to be woken now, the oldest owed first.

        Each is given to one sweep only, and its deadline is set on: the further, the longer it has
        waited, where there is a `backlog` that its message may be waiting in.
        """
        owed_ms = self._timing.owed_ms
        longest_ms = self._timing.rewake_ms if backlog else owed_ms
        asked = [
            on_call("rewake", sid, owed_ms=owed_ms, longest_ms=longest_ms, now_ms=now_ms)
            for sid in call_sids
        ]
        # Where a node has just gone the deadline stands: the next sweep finds it.
        woken = [
            Unclaimed(
                sid,
                int(reply.facts["attempts"]),
                int(reply.facts["owed_since"]),
                urgency_of(reply),
            )
            for sid, reply in zip(call_sids, self._scripts.run_on_all_shards(asked), strict=True)
            if isinstance(reply, ScriptReply) and reply.word == Result.OK
        ]
        return sorted(woken, key=lambda one: one.owed_since)

    def unserved(self, call_sids: Sequence[str]) -> frozenset[str]:
        """Those of `call_sids` in which a reply is owed and no worker has it."""
        if not call_sids:
            return frozenset()
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for call_sid in call_sids:
                asked = ("heard", "answered", "assigned_worker", "outcome")
                pipe.hmget(call_keys(call_sid).call, *asked)
            rows = pipe.execute()
        return frozenset(
            call_sid
            for call_sid, (heard, answered, *others) in zip(call_sids, rows, strict=True)
            if others == ["null", "null"] and int(heard) > int(answered)
        )

    def present(self, workers: Sequence[str]) -> frozenset[str]:
        """Those of `workers` whose processes have their subscription open."""
        if not workers:
            return frozenset()
        channels = {presence_channel(worker): worker for worker in workers}
        with translated(self._scripts.where):
            counts = [
                pair for node in nodes(self._client) for pair in node.pubsub_numsub(*channels)
            ]
        return frozenset(channels[str(channel)] for channel, count in counts if count)

    def present_now(self) -> list[str]:
        """The names of all processes with an open subscription, for people who look."""
        with translated(self._scripts.where):
            channels = {
                str(channel).removeprefix(presence_channel(""))
                for node in nodes(self._client)
                for channel in node.pubsub_channels(presence_channel("*"))
            }
        return sorted(channels)

    def _suspects(self, overdue: Mapping[str, int]) -> tuple[Suspect, ...]:
        """`overdue`: the time at which each was looked at, by its own shard's clock."""
        if not overdue:
            return ()
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for call_sid in overdue:
                pipe.hmget(call_keys(call_sid).call, "assigned_worker", "fence", "last_heartbeat")
            rows = pipe.execute()
        return tuple(
            Suspect(
                call_sid,
                (worker or "").strip('"'),
                int(fence or 0),
                int(beat or 0),
                overdue[call_sid] - int(beat or 0),
            )
            for call_sid, (worker, fence, beat) in zip(overdue, rows, strict=True)
            if worker != "null"
        )

    def _life_is_due(self) -> bool:
        """A failover is noticed when it happens, and not with the first death after it: that one
        would wait for as long as its absence proves nothing."""
        return time.monotonic() - self._life_at > LIFE_EVERY_S

    def _presence_counts(self, now_ms: int) -> bool:
        self._life_at = time.monotonic()
        with translated(self._scripts.where):
            try:
                life, age_ms = self._life()
            except CONNECTION_ERRORS:
                # Whoever is present at a node that is gone may be with us again in a moment.
                return False
            known_life, _, since = str(self._client.get(EPOCH) or "").rpartition(" ")
            if known_life != life:
                # Never seen: the server is as old as it says. Another one was seen before: its
                # subscribers have lost their connections at some time up to now.
                since = str(now_ms - (0 if known_life else age_ms))
                self._client.set(EPOCH, f"{life} {since}", ex=EPOCH_TTL_S)
        return now_ms - int(since) >= self._timing.resubscribe_ms

    def _life(self) -> tuple[str, int]:
        """Which lives of which servers hold the calls, and the age of the youngest, ms."""
        lives, ages_s = [], []
        for node in nodes(self._client):
            with node.pipeline(transaction=False) as pipe:
                pipe.info("server")
                pipe.info("replication")
                server, replication = pipe.execute()
            # run_id changes with a restart, master_replid with a promotion.
            lives.append(f"{server['run_id']}/{replication['master_replid']}")
            ages_s.append(int(server["uptime_in_seconds"]))
        return ",".join(sorted(lives)), 1000 * min(ages_s)


class StaleCalls:
    """Finds calls in which nothing is said any more: is somebody still there?

    The end of a call is told to us once. A failover may take it although it was acknowledged, or
    the carrier may never have reached us with it, and the record would stay open until it counts as
    abandoned. So the carrier is asked, which alone knows. The calls that were given out are kept in
    an index of their own, and a lost one is given out again. Several processes may look at once.
    """

    def __init__(self, scripts: Scripts, quiet_ms: int) -> None:
        """`quiet_ms`: nothing said for so long, and not asked about for as long."""
        self._scripts = scripts
        self._quiet_ms = quiet_ms

    def take(self, *, now_ms: int | None = None) -> list[str]:
        """CallSids whose lines are to be asked for, each given to one look only, and again after
        `quiet_ms`. What a node of a cluster that is gone does not tell is told later."""
        quiet_ms, most = self._quiet_ms, MOST_OF_A_SHARD
        looks = [
            invoke("stale_calls", shard.by_name, quiet_ms=quiet_ms, most=most, now_ms=now_ms)
            for shard in ALL_SHARDS
        ]
        found = self._scripts.run_on_all_shards(looks)
        return [
            sid for one in found if not isinstance(one, StoreError) for sid in one.facts["calls"]
        ]
