"""Keeps the open subscription by which a living process is known: it vanishes with the process.

In a cluster it is at the master that holds the slot of its channel's name, and moves with that: at
a node that is no master any more nobody asks for it.
"""

from __future__ import annotations

import time

from callflow.redis.client import (
    REPLICA_ROLES,
    Client,
    PubSub,
    RedisConnectionError,
    RedisError,
    address,
    owner,
    translated,
)
from callflow.store.keys import presence_channel

LOOK_EVERY_S = 1.0
"""How often a process looks whether others see it: well below the time for which an absent line
proves nothing after a failover."""


class Presence:
    """One process's line to the server. Use it from one thread only."""

    def __init__(self, client: Client, worker: str) -> None:
        self._client = client
        self._where = address(client)
        self._channel = presence_channel(worker)
        self._line: PubSub | None = None
        self._server: Client | None = None
        self._seen_at = 0.0

    def keep(self) -> None:
        """Open the line, or see to it that it is still open. Call it about once a beat.

        Raises StoreUnavailable when it is lost; the next call opens another.
        """
        with translated(self._where):
            try:
                server = owner(self._client, self._channel)
                if server is not self._server:
                    self.close()
                if self._line is None:
                    self._server = server
                    self._line = server.pubsub()  # type: ignore[no-untyped-call]
                    self._line.subscribe(self._channel)
                    # The first answer is the server's word that we are subscribed.
                    self._line.get_message(timeout=1.0)
                    self._seen_at = time.monotonic()
                while self._line.get_message(timeout=0) is not None:
                    """Nothing is ever said on this channel but confirmations: drain them."""
                self._be_seen(server)
            except RedisError:
                self.close()
                raise

    def _be_seen(self, server: Client) -> None:
        """A primary that was demoted keeps its connections: there nobody asks who is present."""
        if time.monotonic() - self._seen_at < LOOK_EVERY_S:
            return
        with server.pipeline(transaction=False) as asking:
            asking.info("replication")
            asking.pubsub_numsub(self._channel)
            replication, ((_, count),) = asking.execute()
        if replication.get("role") in REPLICA_ROLES:
            # What is asked here is asked of the demoted one, too: all of it begins anew.
            server.connection_pool.disconnect()
            raise RedisConnectionError("the server that is asked is a replica")
        if not count:
            raise RedisConnectionError("the server that is asked does not know of this line")
        self._seen_at = time.monotonic()

    def close(self) -> None:
        """Hang up; closing twice does nothing."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
