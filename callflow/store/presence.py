"""The open subscription by which a living process is known: it vanishes when the process dies."""

from __future__ import annotations

import redis
from redis.client import PubSub

from callflow.store.keys import presence_channel
from callflow.store.script import address, translated


class Presence:
    """One process's line to the server. Use it from one thread only."""

    def __init__(self, client: redis.Redis, worker: str) -> None:
        self._client = client
        self._where = address(client)
        self._channel = presence_channel(worker)
        self._line: PubSub | None = None

    def keep(self) -> None:
        """Open the line, or see to it that it is still open. Call it about once a beat.

        Raises StoreUnavailable when it is lost; the next call opens another.
        """
        with translated(self._where):
            try:
                if self._line is None:
                    self._line = self._client.pubsub()  # type: ignore[no-untyped-call]
                    self._line.subscribe(self._channel)
                    # The first answer is the server's word that we are subscribed.
                    self._line.get_message(timeout=1.0)
                while self._line.get_message(timeout=0) is not None:
                    """Nothing is ever said on this channel but confirmations: drain them."""
            except redis.RedisError:
                self.close()
                raise

    def close(self) -> None:
        """Hang up; closing twice does nothing."""
        line, self._line = self._line, None
        if line is not None:
            line.close()
