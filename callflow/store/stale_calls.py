"""Finds calls in which nothing is said any more: is somebody still there?

The end of a call is told to us once. A failover may take it although it was acknowledged, or the
carrier may never have reached us with it, and the record would stay open until it counts as
abandoned. So the carrier is asked, which alone knows. The calls that were given out are kept in an
index of their own, and a lost one is given out again.
"""

from __future__ import annotations

from callflow.errors import StoreError
from callflow.redis.lua import invoke
from callflow.redis.scripts import Scripts
from callflow.store.keys import ALL_SHARDS

MOST_OF_A_SHARD = 1
"""At one look: so few that all of them are asked about before the next."""


class StaleCalls:
    """Finds them; several processes may look at once. Raises StoreUnavailable."""

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
