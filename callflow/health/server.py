"""Looks a server over: could it lose calls? Changes nothing there.

Managed services forbid CONFIG, and some hide parts of INFO: what cannot be seen is `unknown` and
no failure. Of a cluster each node is looked at. Whether the calls are looked after is told by
`store/rounds.py`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

from callflow.errors import StoreReadOnly, StoreUnfit
from callflow.health.check import Check, Grade
from callflow.health.writes import config, primary, section, writes
from callflow.redis.client import REPLICA_ROLES, Client, address, nodes, translated

OLDEST_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 1.0
NO_EVICTION = "noeviction"
_BADNESS = (Grade.OK, Grade.UNKNOWN, Grade.WARNING, Grade.FAILURE)


def refuse_unfit(client: Client) -> None:
    """Raise StoreUnfit for a server that evicts keys, and StoreReadOnly for a replica.

    What the server does not tell passes. To be asked before the first call is taken.
    """
    with translated(address(client)):
        for node in nodes(client):
            where = address(node)
            if section(node, "replication").get("role") in REPLICA_ROLES:
                raise StoreReadOnly(where)
            policy = _policy(node)
            if policy not in (None, NO_EVICTION):
                raise StoreUnfit(
                    where,
                    f"its maxmemory-policy is {policy}, by which it may drop live calls; "
                    f"{_EVICTION_WAY_OUT}",
                )


class Doctor:
    """Examines the server that holds the calls, or each master of a cluster."""

    def __init__(self, client: Client, min_replicas: int = 0) -> None:
        """`min_replicas`: so many are waited for before anything is acknowledged."""
        self._client = client
        self._min_replicas = min_replicas
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
            yield self._of_each(lambda node: _version(section(node, "server")))
            yield self._of_each(lambda node: primary(node, self._min_replicas))
            yield self._of_each(writes)
            yield self._of_each(lambda node: _eviction(_policy(node)))
            yield self._of_each(_persistence)
            yield self._of_each(_clock)

    def _of_each(self, examine: Callable[[Client], Check]) -> Check:
        """What was found at every node, as bad as at the worst of them."""
        found = [(address(node), examine(node)) for node in nodes(self._client)]
        _, worst = max(found, key=lambda one: _BADNESS.index(one[1].grade))
        told = {check.sentence: where for where, check in found}
        if len(told) == 1:
            return worst
        sentence = "; ".join(f"{where}: {check.sentence}" for where, check in found)
        return Check(worst.name, worst.grade, sentence, worst.way_out)


def _persistence(client: Client) -> Check:
    forbidden, append_only = config(client, "appendonly")
    if append_only is None:
        enabled = section(client, "persistence").get("aof_enabled")
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


def _clock(client: Client) -> Check:
    before = time.time()
    seconds, micros = client.time()
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


def _policy(client: Client) -> str | None:
    """The eviction policy; None when the service does not tell."""
    _, told = config(client, "maxmemory-policy")
    return told or section(client, "memory").get("maxmemory_policy")
