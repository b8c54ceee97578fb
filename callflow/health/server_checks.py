"""Checks whether a server could lose calls or takes no writes. Changes nothing there.

Managed services forbid CONFIG, and some hide parts of INFO: what cannot be seen is `unknown` and
no failure. Of a cluster each master is examined.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, NamedTuple

from callflow.errors import StoreReadOnly, StoreUnfit
from callflow.health.check import Check, HealthCheck, Severity
from callflow.redis.client import REPLICA_ROLES, Client, ResponseError, address, nodes, translated

OLDEST_VERSION = (6, 2)
CLOCK_TOLERANCE_S = 1.0
NO_EVICTION = "noeviction"
LAG_MOST_S = 2
"""A replica says once a second how far it is."""
LOOK_AGAIN_S = 0.8
LOOKS = 3
"""Each replica has spoken between the first and the last of them."""

_REFUSALS = {
    "NOREPLICAS": (
        "the Redis server takes no writes: it has fewer good replicas than its own "
        "min-replicas-to-write wants; see to the replicas, or lower that setting"
    ),
    "MISCONF": (
        "the Redis server takes no writes: it cannot write to its disk; make room there, and see "
        "its log"
    ),
}


class StoreServer(NamedTuple):
    """The server that holds the calls. `min_replicas`: so many are waited for before anything is
    acknowledged."""

    client: Client
    min_replicas: int = 0


def explain_refusal(error: BaseException) -> str | None:
    """Why the server that answered takes no writes, in words; None where the error is another."""
    text = f"{error} {error.__cause__}"
    return next((words for code, words in _REFUSALS.items() if code in text), None)


def refuse_unfit(client: Client) -> None:
    """Raise StoreUnfit for a server that evicts keys, and StoreReadOnly for a replica.

    What the server does not tell passes. To be asked before the first call is taken.
    """
    for node in nodes(client):
        where = address(node)
        if info(node, "replication").get("role") in REPLICA_ROLES:
            raise StoreReadOnly(where)
        policy = _policy(node)
        if policy not in (None, NO_EVICTION):
            raise StoreUnfit(
                where,
                f"its maxmemory-policy is {policy}, by which it may drop live calls; "
                f"{_EVICTION_WAY_OUT}",
            )


def why_no_writes(client: Client) -> str | None:
    """Why the server, or a node of a cluster, takes no writes; None where nothing tells so. A
    worker that cannot write cannot say that it is well either. Raises StoreError."""
    for node in nodes(client):
        found = check_writes(node)
        if found.severity is Severity.FAILURE:
            return f"{address(node)}: {found.sentence}"
    return None


def info(node: Client, section: str) -> dict[str, Any]:
    """A section of INFO; empty where that is forbidden."""
    with translated(address(node)):
        try:
            found: dict[str, Any] = node.info(section)
        except ResponseError:
            return {}
    return found


def _config(node: Client, name: str) -> tuple[bool, str | None]:
    """Whether CONFIG is forbidden, as on managed services, and what it says."""
    with translated(address(node)):
        try:
            return False, node.config_get(name).get(name)
        except ResponseError:
            return True, None


def _policy(node: Client) -> str | None:
    """The eviction policy; None when the service does not tell."""
    return _config(node, "maxmemory-policy")[1] or info(node, "memory").get("maxmemory_policy")


def _check_answer(server: StoreServer) -> Iterator[Check]:
    where = address(server.client)
    with translated(where):
        server.client.ping()  # The first request also pays for the connection.
        began = time.monotonic()
        server.client.ping()
    took_ms = (time.monotonic() - began) * 1000
    sentence = f"the calls are at {where}; it answers in {took_ms:.1f} ms"
    yield Check("server", Severity.OK, sentence)


def _check_each(
    examine: Callable[[Client, StoreServer], Check], server: StoreServer
) -> Iterator[Check]:
    """What was found at every node, as bad as at the worst of them."""
    found = [(address(node), examine(node, server)) for node in nodes(server.client)]
    _, worst = max(found, key=lambda one: one[1].severity.badness)
    if len({check.sentence for _, check in found}) > 1:
        sentence = "; ".join(f"{where}: {check.sentence}" for where, check in found)
        worst = Check(worst.name, worst.severity, sentence, worst.way_out)
    yield worst


def check_version(version: str, valkey: str | None = None) -> Check:
    """Whether a server of this version will do."""
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    name = f"Valkey {valkey} (as Redis {version})" if valkey else f"Redis {version}"
    if not numbers:
        return Check("version", Severity.UNKNOWN, "the server does not tell its version")
    if numbers >= OLDEST_VERSION:
        return Check("version", Severity.OK, name)
    return Check("version", Severity.FAILURE, f"{name} is too old", "use 6.2 or newer")


def _check_version(node: Client, _server: StoreServer) -> Check:
    server = info(node, "server")
    return check_version(str(server.get("redis_version", "")), server.get("valkey_version"))


def check_primary(node: Client, least: int) -> Check:
    """Whether it is a primary, and `least` replicas keep in step with it."""
    found = info(node, "replication")
    role = found.get("role")
    if role is None:
        return Check("primary", Severity.UNKNOWN, "the server does not tell its role")
    if role in REPLICA_ROLES:
        return Check(
            "primary",
            Severity.FAILURE,
            "this is a replica: no call can be taken here",
            "point CALLFLOW_REDIS_URL at the primary or at the endpoint that follows it",
        )
    replicas = int(found.get("connected_slaves", 0))
    sentence = f"a primary; replicas: {replicas}"
    in_step = _in_step(node, found, least) if replicas >= least > 0 else replicas
    if in_step >= least:
        return Check("primary", Severity.OK, sentence)
    if in_step < replicas:
        sentence += f", of which {in_step} keep in step (the others are frozen, or far behind)"
    return Check(
        "primary",
        Severity.FAILURE,
        f"{sentence}, and CALLFLOW_MIN_REPLICAS is {least}: nothing is acknowledged, no reply is "
        "spoken, and callers are put through to a human",
        "see to the replicas, or lower CALLFLOW_MIN_REPLICAS",
    )


def _in_step(node: Client, found: dict[str, Any], least: int) -> int:
    """How many replicas have all that had been written at the first look."""
    written = int(found.get("master_repl_offset", 0))
    for look in range(LOOKS + 1):
        replicas = (one for name, one in found.items() if name.startswith("slave"))
        count = sum(_follows(one, written) for one in replicas if type(one) is dict)
        if count >= least or look == LOOKS:
            break
        time.sleep(LOOK_AGAIN_S)
        found = info(node, "replication")
    return count


def _follows(replica: dict[str, Any], written: int) -> bool:
    return (
        replica.get("state") == "online"
        and int(replica.get("lag", 0)) <= LAG_MOST_S
        and int(replica.get("offset", 0)) >= written
    )


def check_writes(node: Client) -> Check:
    """Whether this server takes writes."""
    found = [*_full(info(node, "memory")), *_disk(node), *_alone(node)]
    if not found:
        return Check("writes", Severity.OK, "nothing keeps the server from taking them")
    sentences, ways = zip(*found, strict=True)
    sentence = "the server takes no writes, and callers are put through to a human"
    return Check("writes", Severity.FAILURE, f"{sentence}: {'; '.join(sentences)}", "; ".join(ways))


def _full(memory: dict[str, Any]) -> Iterator[tuple[str, str]]:
    used, most = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
    # What replicas and the append-only file still have to take is not counted by the server.
    used -= int(memory.get("mem_not_counted_for_evict", 0))
    if most and used >= most:
        sentence = f"its memory is full ({used / 2**20:.0f} of {most / 2**20:.0f} MiB)"
        yield sentence, "give it more (maxmemory), or end calls; restarting workers is no help"


def _disk(node: Client) -> Iterator[tuple[str, str]]:
    found, way_out = info(node, "persistence"), "make room on its disk, and see its log"
    if found.get("aof_last_write_status") == "err":
        yield "the last write to its append-only file failed", way_out
    if (
        found.get("rdb_last_bgsave_status") == "err"
        and _config(node, "stop-writes-on-bgsave-error")[1] == "yes"
        and _config(node, "save")[1]
    ):
        yield "its last snapshot failed", way_out


def _alone(node: Client) -> Iterator[tuple[str, str]]:
    # Told only where the server itself wants some.
    good = info(node, "replication").get("min_slaves_good_slaves")
    if good is None:
        return
    known = _config(node, "min-replicas-to-write")[1]
    if int(good) < max(1, int(known or 0)):
        sentence = f"{good} good replicas, and its min-replicas-to-write is {known or 'at least 1'}"
        yield sentence, "see to the replicas, or lower that setting"


_EVICTION_WAY_OUT = f"set maxmemory-policy to {NO_EVICTION} (CONFIG SET, or its parameter group)"


def _check_eviction(node: Client, _server: StoreServer) -> Check:
    policy = _policy(node)
    if policy == NO_EVICTION:
        return Check("eviction", Severity.OK, "a full server refuses writes and drops nothing")
    if policy is None:
        return Check(
            "eviction",
            Severity.UNKNOWN,
            "the service does not tell its maxmemory-policy",
            f"see to it that it is {NO_EVICTION}",
        )
    sentence = f"maxmemory-policy is {policy}: a full server drops live calls"
    return Check("eviction", Severity.FAILURE, sentence, _EVICTION_WAY_OUT)


def _check_persistence(node: Client, _server: StoreServer) -> Check:
    forbidden, append_only = _config(node, "appendonly")
    if append_only is None:
        enabled = info(node, "persistence").get("aof_enabled")
        append_only = "yes" if enabled == 1 else None if forbidden else "no"
    if append_only == "yes":
        return Check("persistence", Severity.OK, "every change is appended to a file")
    if append_only is None:
        return Check(
            "persistence",
            Severity.UNKNOWN,
            "a managed service, which does not tell whether it writes to disk",
            "see to it that it has a replica in another zone",
        )
    return Check(
        "persistence",
        Severity.WARNING,
        "the append-only file is off: a restart of this server forgets all calls",
        "CONFIG SET appendonly yes (and in redis.conf), unless a replica takes over in time",
    )


def _check_clock(node: Client, _server: StoreServer) -> Check:
    before = time.time()
    with translated(address(node)):
        seconds, micros = node.time()
    ahead_s = seconds + micros / 1e6 - (before + time.time()) / 2
    sentence = f"the server's clock and this machine's differ by {abs(ahead_s):.2f} s"
    if abs(ahead_s) <= CLOCK_TOLERANCE_S:
        return Check("clock", Severity.OK, sentence)
    sentence += ": calls are timed by the server's alone, but logs cannot be compared"
    return Check("clock", Severity.WARNING, sentence, "synchronise both with NTP")


SERVER_CHECKS: Final = (
    HealthCheck("server", _check_answer),
    HealthCheck("version", partial(_check_each, _check_version)),
    HealthCheck(
        "primary",
        partial(_check_each, lambda node, server: check_primary(node, server.min_replicas)),
    ),
    HealthCheck("writes", partial(_check_each, lambda node, _: check_writes(node))),
    HealthCheck("eviction", partial(_check_each, _check_eviction)),
    HealthCheck("persistence", partial(_check_each, _check_persistence)),
    HealthCheck("clock", partial(_check_each, _check_clock)),
)
