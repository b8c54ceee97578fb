"""Why a server takes no writes, or acknowledges none, by what it tells of itself. Changes nothing.

A worker that cannot write cannot say that it is well either: who asks why it is silent asks here
first.
"""

from __future__ import annotations

import time
from typing import Any

from callflow.health.check import Check, Grade
from callflow.redis.client import REPLICA_ROLES, Client, ResponseError, address, nodes, translated

LAG_MOST_S = 2
"""A replica says once a second how far it is."""

LOOK_AGAIN_S = 0.8
LOOKS = 3
"""Each replica has spoken between the first and the last of them."""


def config(client: Client, name: str) -> tuple[bool, str | None]:
    """Whether CONFIG is forbidden, as on managed services, and what it says."""
    try:
        return False, client.config_get(name).get(name)
    except ResponseError:
        return True, None


def section(client: Client, name: str) -> dict[str, Any]:
    """A section of INFO; empty where that is forbidden."""
    try:
        found: dict[str, Any] = client.info(name)
    except ResponseError:
        return {}
    return found


def why_none(client: Client) -> str | None:
    """Why the server, or a node of a cluster, takes no writes; None where nothing tells so.

    Raises StoreError where it cannot be asked.
    """
    with translated(address(client)):
        for node in nodes(client):
            found = writes(node)
            if found.grade is Grade.FAILURE:
                return f"{address(node)}: {found.sentence}"
    return None


def writes(node: Client) -> Check:
    """Whether this server takes writes."""
    told = [*_full(section(node, "memory")), *_disk(node), *_alone(node)]
    if not told:
        return Check("writes", Grade.OK, "nothing keeps the server from taking them")
    sentences, ways = zip(*told, strict=True)
    return Check(
        "writes",
        Grade.FAILURE,
        f"the server takes no writes, and callers are put through to a human: "
        f"{'; '.join(sentences)}",
        "; ".join(ways),
    )


_Told = list[tuple[str, str]]


def _full(memory: dict[str, Any]) -> _Told:
    used, most = int(memory.get("used_memory", 0)), int(memory.get("maxmemory", 0))
    # What replicas and the append-only file still have to take is not counted by the server.
    used -= int(memory.get("mem_not_counted_for_evict", 0))
    if not most or used < most:
        return []
    told = f"its memory is full ({used / 2**20:.0f} of {most / 2**20:.0f} MiB)"
    return [(told, "give it more (maxmemory), or end calls; restarting workers is no help")]


def _disk(node: Client) -> _Told:
    found = section(node, "persistence")
    told: _Told = []
    way_out = "make room on its disk, and see its log"
    if found.get("aof_last_write_status") == "err":
        told.append(("the last write to its append-only file failed", way_out))
    if (
        found.get("rdb_last_bgsave_status") == "err"
        and config(node, "stop-writes-on-bgsave-error")[1] == "yes"
        and config(node, "save")[1]
    ):
        told.append(("its last snapshot failed", way_out))
    return told


def _alone(node: Client) -> _Told:
    # Told only where the server itself wants some.
    good = section(node, "replication").get("min_slaves_good_slaves")
    if good is None:
        return []
    known = config(node, "min-replicas-to-write")[1]
    least = max(1, int(known or 0))
    if int(good) >= least:
        return []
    return [
        (
            f"{good} good replicas, and its min-replicas-to-write is {known or 'at least 1'}",
            "see to the replicas, or lower that setting",
        )
    ]


def primary(node: Client, least: int) -> Check:
    """Whether it is a primary, and `least` replicas keep in step with it."""
    found = section(node, "replication")
    role = found.get("role")
    if role is None:
        return Check("primary", Grade.UNKNOWN, "the server does not tell its role")
    if role in REPLICA_ROLES:
        return Check(
            "primary",
            Grade.FAILURE,
            "this is a replica: no call can be taken here",
            "point CALLFLOW_REDIS_URL at the primary or at the endpoint that follows it",
        )
    replicas = int(found.get("connected_slaves", 0))
    told = f"a primary; replicas: {replicas}"
    in_step = _in_step(node, found, least) if replicas >= least > 0 else replicas
    if in_step >= least:
        return Check("primary", Grade.OK, told)
    if in_step < replicas:
        told += f", of which {in_step} keep in step (the others are frozen, or far behind)"
    return Check(
        "primary",
        Grade.FAILURE,
        f"{told}, and CALLFLOW_MIN_REPLICAS is {least}: nothing is acknowledged, no reply is "
        "spoken, and callers are put through to a human",
        "see to the replicas, or lower CALLFLOW_MIN_REPLICAS",
    )


def _in_step(node: Client, found: dict[str, Any], least: int) -> int:
    """How many replicas have all that had been written at the first look."""
    written = int(found.get("master_repl_offset", 0))
    for _ in range(LOOKS):
        count = sum(_follows(one, written) for one in _replicas(found))
        if count >= least:
            return count
        time.sleep(LOOK_AGAIN_S)
        found = section(node, "replication")
    return sum(_follows(one, written) for one in _replicas(found))


def _replicas(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for name, one in found.items() if name.startswith("slave") and type(one) is dict]


def _follows(replica: dict[str, Any], written: int) -> bool:
    return (
        replica.get("state") == "online"
        and int(replica.get("lag", 0)) <= LAG_MOST_S
        and int(replica.get("offset", 0)) >= written
    )
