"""Reads calls as a whole and lists them: nothing here changes anything.

A record is kept as a hash whose fields are JSON values and a list for the thread; read together
they are the JSON object that the customer drew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import redis

from callflow.call.record import CallRecord
from callflow.errors import UnknownCall
from callflow.redis.scripts import address, translated
from callflow.store.keys import ALL_SHARDS, call_keys


def _assemble(fields: Iterable[tuple[str, str]], thread: Sequence[str]) -> CallRecord:
    """A record out of the pairs of its hash and the entries of its thread."""
    members = [f'"{name}":{value}' for name, value in fields if name != "claim"]
    members.append(f'"conversation_thread":[{",".join(thread)}]')
    return CallRecord.model_validate_json("{" + ",".join(members) + "}")


class Snapshots:
    """Whole records, one or many, as they are at this moment."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._where = address(client)

    def now_ms(self) -> int:
        """The server's clock, by which everything in a record is stamped."""
        with translated(self._where):
            seconds, micros = self._client.time()
        return int(seconds) * 1000 + int(micros) // 1000

    def find(self, call_sid: str) -> CallRecord | None:
        """The record, or None when there is none (any more)."""
        return self.find_all([call_sid]).get(call_sid)

    def read(self, call_sid: str) -> CallRecord:
        """The record. Raises UnknownCall when there is none (any more)."""
        record = self.find(call_sid)
        if record is None:
            raise UnknownCall(call_sid)
        return record

    def find_all(self, call_sids: Sequence[str]) -> dict[str, CallRecord]:
        """The records of those that exist, in one round trip and in the order asked for."""
        if not call_sids:
            return {}
        with translated(self._where), self._client.pipeline(transaction=False) as pipe:
            for call_sid in call_sids:
                keys = call_keys(call_sid)
                pipe.hgetall(keys.call)
                pipe.lrange(keys.thread, 0, -1)
            replies = iter(pipe.execute())
        return {
            call_sid: _assemble(fields.items(), thread)
            for call_sid, fields, thread in zip(call_sids, replies, replies, strict=True)
            if fields
        }

    def active(self, limit: int = 1000) -> list[CallRecord]:
        """Calls that are not complete, the one that waits longest for anything first."""
        return self._listed([shard.active for shard in ALL_SHARDS], limit)

    def ended(self, limit: int = 1000) -> list[CallRecord]:
        """Complete calls whose records can still be read, the newest end first."""
        return self._listed([shard.ended for shard in ALL_SHARDS], limit, newest_first=True)

    def counts(self) -> dict[str, int]:
        """How many calls are active, held by a worker (`leased`), and owed and unclaimed."""
        with translated(self._where), self._client.pipeline(transaction=False) as pipe:
            for shard in ALL_SHARDS:
                pipe.zcard(shard.active)
                pipe.zcard(shard.leases)
                pipe.zcard(shard.owed)
            replies = pipe.execute()
        return {
            "active": sum(replies[0::3]),
            "leased": sum(replies[1::3]),
            "owed": sum(replies[2::3]),
        }

    def _listed(
        self, indexes: Sequence[str], limit: int, *, newest_first: bool = False
    ) -> list[CallRecord]:
        with translated(self._where), self._client.pipeline(transaction=False) as pipe:
            for index in indexes:
                pipe.zrange(index, 0, limit - 1, desc=newest_first, withscores=True)
            found = [entry for shard in pipe.execute() for entry in shard]
        found.sort(key=lambda entry: entry[1], reverse=newest_first)
        return list(self.find_all([call_sid for call_sid, _ in found[:limit]]).values())
