"""What happened to a call, in order: who claimed it, beat by whom, lost by whom, answered when.

The journal is written by the same scripts that change the record, so it cannot tell another story.
It carries no word of what was said.
"""

from __future__ import annotations

from collections.abc import Sequence

import redis

from callflow.call.history import JournalEntry
from callflow.redis.scripts import address, translated
from callflow.store.keys import call_keys


class Journal:
    """Reads journals; the scripts write them."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._where = address(client)

    def read(self, call_sid: str) -> list[JournalEntry]:
        """All lines of one call, oldest first; empty when there is no such call (any more)."""
        return self.read_all([call_sid])[call_sid]

    def read_all(self, call_sids: Sequence[str]) -> dict[str, list[JournalEntry]]:
        """The journals of many calls in one round trip."""
        if not call_sids:
            return {}
        with translated(self._where), self._client.pipeline(transaction=False) as pipe:
            for call_sid in call_sids:
                pipe.xrange(call_keys(call_sid).journal)
            streams = pipe.execute()
        return {
            call_sid: [JournalEntry.model_validate(fields) for _, fields in stream]
            for call_sid, stream in zip(call_sids, streams, strict=True)
        }
