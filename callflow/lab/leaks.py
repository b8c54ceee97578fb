"""Finds keys that would stay for ever: an operator's and a test's question, asked by scanning."""

from __future__ import annotations

from callflow.redis.client import Client, address, nodes, translated
from callflow.store.keys import PREFIX


def keys_without_lifetime(client: Client) -> list[str]:
    """callflow's keys that do not expire. With no call open and no index left there are none.

    Scans the whole database: never on the path of a call.
    """
    with translated(address(client)):
        found = sorted(
            {key for node in nodes(client) for key in node.scan_iter(f"{PREFIX}:*", count=1000)}
        )
        with client.pipeline(transaction=False) as pipe:
            for key in found:
                pipe.pttl(key)
            lifetimes = pipe.execute()
    # -2: it expired between the two questions.
    return [key for key, left_ms in zip(found, lifetimes, strict=True) if left_ms == -1]
