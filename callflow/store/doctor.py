"""Looks a server over: could it lose calls, and does anybody answer them? Changes nothing there.

Managed services forbid CONFIG, and some hide parts of INFO: what cannot be seen is `unknown` and
no failure. Each finding is a sentence with a way out, for the person who has to act on it at night.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import redis
from redis.exceptions import ResponseError

from callflow.call.words import waiting_since
from callflow.errors import StoreReadOnly, StoreUnfit
from callflow.store.keys import ALL_SHARDS
from callflow.store.leases import Leases
from callflow.store.script import address, translated
from callflow.store.snapshot import Snapshots

OLDEST_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 1.0
OWED_TOO_LONG_MS = 10_000
"""No turn waits so long on a deployment that works: the ladder has reached a human before."""

UNDERSTUDY = " (understudy)"
"""How the name of a worker ends that swept because no watchdog did."""

SWEEP_SAMPLES_S = (0.0, 0.5, 0.6)
"""Pauses before each look for a sweep: one may just have run out, and the next be on its way."""

WATCHDOG_WAY_OUT = (
    "start `celery -A callflow worker -Q watchdog -P solo -c 1` and `celery -A callflow beat`"
)

SAMPLED = 100
NO_EVICTION = "noeviction"


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how bad it is, a sentence, and what can be done."""

    name: str
    grade: Grade
    sentence: str
    way_out: str = ""


def refuse_unfit(client: redis.Redis) -> None:
    """Raise StoreUnfit for a server that evicts keys, and StoreReadOnly for a replica.

    What the server does not tell passes. To be asked before the first call is taken.
    """
    where = address(client)
    with translated(where):
        if _section(client, "replication").get("role") in _REPLICA_ROLES:
            raise StoreReadOnly(where)
        policy = _policy(client)
    if policy not in (None, NO_EVICTION):
        raise StoreUnfit(
            where,
            f"its maxmemory-policy is {policy}, by which it may drop live calls; "
            f"{_EVICTION_WAY_OUT}",
        )


class Doctor:
    """Examines the server that holds the calls, and whether the calls on it are looked after."""

    def __init__(self, client: redis.Redis, leases: Leases, snapshots: Snapshots) -> None:
        self._client = client
        self._leases = leases
        self._snapshots = snapshots
        self._where = address(client)

    def checks(self) -> Iterator[Check]:
        """One finding after the other, as they are made. Raises StoreError when it is cut off."""
        with translated(self._where):
            self._client.ping()  # The first request also pays for the connection.
            began = time.monotonic()
            self._client.ping()
            took_ms = (time.monotonic() - began) * 1000
            yield Check(
                "server",
                Grade.OK,
                f"the calls are at {self._where}; it answers in {took_ms:.1f} ms",
            )
            yield _version(_section(self._client, "server"))
            yield _primary(_section(self._client, "replication"))
            yield _eviction(_policy(self._client))
            yield self._persistence()
            yield self._clock()
            yield self._workers()
            yield self._sweeps()
            yield self._owed()

    def _persistence(self) -> Check:
        forbidden, append_only = _config(self._client, "appendonly")
        if append_only is None:
            enabled = _section(self._client, "persistence").get("aof_enabled")
            append_only = "yes" if enabled == 1 else None if forbidden else "no"
        if append_only == "yes":
            return Check("persistence", Grade.OK, "every change is appended to a file")
        if append_only is None:
            return Check(
                "persistence",
                Grade.UNKNOWN,
                "a managed service, which does not tell whether it writes to disk",
                "see to it that it has a replica in another zone",
            )
        return Check(
            "persistence",
            Grade.WARNING,
            "the append-only file is off: a restart of this server forgets all calls",
            "CONFIG SET appendonly yes (and in redis.conf), unless a replica takes over in time",
        )

    def _clock(self) -> Check:
        before = time.time()
        seconds, micros = self._client.time()
        ahead_s = seconds + micros / 1e6 - (before + time.time()) / 2
        told = f"the server's clock and this machine's differ by {abs(ahead_s):.2f} s"
        if abs(ahead_s) <= CLOCK_TOLERANCE_S:
            return Check("clock", Grade.OK, told)
        return Check(
            "clock",
            Grade.WARNING,
            f"{told}: calls are timed by the server's alone, but logs cannot be compared",
            "synchronise both with NTP",
        )

    def _workers(self) -> Check:
        processes = self._leases.present_now()
        nodes = {name.partition("/")[0] for name in processes}
        if processes:
            told = f"{len(nodes)} with {len(processes)} processes: {', '.join(sorted(nodes))}"
            return Check("workers", Grade.OK, told)
        return Check(
            "workers",
            Grade.FAILURE,
            "none is present: no caller gets a reply",
            "start some: celery -A callflow worker -Q takeover,turns (or `callflow up`)",
        )

    def _sweeps(self) -> Check:
        understudy = ""
        for pause_s in SWEEP_SAMPLES_S:
            time.sleep(pause_s)
            by, ago_ms = self._leases.last_sweep() or ("", 0)
            if by.endswith(UNDERSTUDY):
                understudy = by.removesuffix(UNDERSTUDY)
            elif by:
                return Check("watchdog", Grade.OK, f"{by} swept {max(0, ago_ms)} ms ago")
        if understudy:
            return Check(
                "watchdog",
                Grade.WARNING,
                f"swept by an understudy of {understudy}: no watchdog worker takes sweeps, or no "
                "beat asks for them",
                WATCHDOG_WAY_OUT,
            )
        return Check(
            "watchdog",
            Grade.FAILURE,
            "nobody has swept for a second: the call of a dead worker would not be taken over",
            "start workers (each is an understudy), `celery -A callflow beat` and a worker -Q "
            "watchdog; `callflow sweep` does one round by hand",
        )

    def _owed(self) -> Check:
        counts = self._snapshots.counts()
        with self._client.pipeline(transaction=False) as pipe:
            for shard in ALL_SHARDS:
                pipe.zrange(shard.owed, 0, SAMPLED)
                pipe.zrange(shard.leases, 0, SAMPLED)
            sids = sorted({sid for found in pipe.execute() for sid in found})
        since = [
            at
            for record in self._snapshots.find_all(sids).values()
            if (at := waiting_since(record)) is not None
        ]
        oldest_ms = max(0, self._snapshots.now_ms() - min(since)) if since else 0
        told = (
            f"{counts['owed'] + counts['leased']} of {counts['active']} calls wait for a reply: "
            f"{counts['leased']} in work, {counts['owed']} unclaimed"
        )
        if since:
            told += f"; the longest waits {oldest_ms / 1000:.1f} s"
        if oldest_ms <= OWED_TOO_LONG_MS:
            return Check("owed turns", Grade.OK, told)
        return Check(
            "owed turns",
            Grade.FAILURE,
            told,
            "look at `callflow calls watch`; add workers if they are all busy",
        )


def _version(server: dict[str, Any]) -> Check:
    version = str(server.get("redis_version", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    valkey = server.get("valkey_version")
    name = f"Valkey {valkey} (as Redis {version})" if valkey else f"Redis {version}"
    if not numbers:
        return Check("version", Grade.UNKNOWN, "the server does not tell its version")
    if numbers >= OLDEST_VERSION:
        return Check("version", Grade.OK, name)
    return Check("version", Grade.FAILURE, f"{name} is too old", "use 6.2 or newer")


_REPLICA_ROLES = ("slave", "replica")


def _primary(replication: dict[str, Any]) -> Check:
    role = replication.get("role")
    if role is None:
        return Check("primary", Grade.UNKNOWN, "the server does not tell its role")
    if role in _REPLICA_ROLES:
        return Check(
            "primary",
            Grade.FAILURE,
            "this is a replica: no call can be taken here",
            "point CALLFLOW_REDIS_URL at the primary or at the endpoint that follows it",
        )
    replicas = int(replication.get("connected_slaves", 0))
    return Check("primary", Grade.OK, f"a primary; replicas: {replicas}")


_EVICTION_WAY_OUT = f"set maxmemory-policy to {NO_EVICTION} (CONFIG SET, or its parameter group)"


def _eviction(policy: str | None) -> Check:
    if policy == NO_EVICTION:
        return Check("eviction", Grade.OK, "a full server refuses writes and drops nothing")
    if policy is None:
        return Check(
            "eviction",
            Grade.UNKNOWN,
            "the service does not tell its maxmemory-policy",
            f"see to it that it is {NO_EVICTION}",
        )
    told = f"maxmemory-policy is {policy}: a full server drops live calls"
    return Check("eviction", Grade.FAILURE, told, _EVICTION_WAY_OUT)


def _policy(client: redis.Redis) -> str | None:
    """The eviction policy; None when the service does not tell."""
    _, told = _config(client, "maxmemory-policy")
    return told or _section(client, "memory").get("maxmemory_policy")


def _config(client: redis.Redis, name: str) -> tuple[bool, str | None]:
    """Whether CONFIG is forbidden, as on managed services, and what it says."""
    try:
        return False, client.config_get(name).get(name)
    except ResponseError:
        return True, None


def _section(client: redis.Redis, name: str) -> dict[str, Any]:
    """A section of INFO; empty where that is forbidden."""
    try:
        found: dict[str, Any] = client.info(name)
    except ResponseError:
        return {}
    return found
