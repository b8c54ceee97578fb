"""Queues complete calls for the store that lasts: their keys stay until it has them.

The end of a call enters it in an index (`end_call.lua`). Who has put it into the lasting store says
so, and only then do its keys get their lifetime (`settle_archived.lua`). While they live it is seen
now and then whether more was written of the call: each line of its journal is kept in the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from callflow.errors import StoreError
from callflow.redis.client import translated
from callflow.redis.scripts import ScriptReply, Scripts, invoke
from callflow.store.encoding import on_call
from callflow.store.keys import ALL_SHARDS, ARCHIVED, call_keys
from callflow.store.reader import CLAIM_FIELD
from callflow.store.result import Result

LOOKS = 6
"""So often in its lifetime a call that is archived is looked at again."""

MISSED_AFTER_MS = 10_000
"""Nobody has begun to archive for so long: an understudy does. There is no haste: keys stay."""


class Settled(StrEnum):
    """What became of a call that the lasting store has."""

    KEPT = "kept"
    """Its keys have their lifetime."""
    GROWN = "grown"
    """There are later lines: archive them, and ask again."""
    OVER = "over"
    """Its keys are gone, with nothing in them that is not archived."""
    OPEN = "open"
    """It is not complete: a failover has taken its end back. It ends again."""


@dataclass(frozen=True, slots=True)
class ArchiveBacklog:
    """What is to be archived, as it was known at one moment of the server's clock, ms."""

    now_ms: int
    calls: tuple[str, ...]
    """that the lasting store does not have yet, the first end first"""
    again: tuple[str, ...]
    """that it has, and of which more may have been written"""
    count: int
    """how many it does not have yet: more than `calls`, where those were too many"""
    oldest_ms: int
    """for how long the first of them has been complete; 0 where there is none"""
    failure: StoreError | None = None
    """why a part of the shards is not known: a node of a cluster is gone"""


@dataclass(frozen=True, slots=True)
class StoredCall:
    """All that is stored of one complete call, each field and each thing that was said as the JSON
    that stands there: one that cannot be read must not keep the others from being read. `lines` are
    those of its journal and `views` those of its audit, each with its id, which only ever grow."""

    call_sid: str
    fields_json: Mapping[str, str]
    thread_json: tuple[str, ...]
    lines: tuple[tuple[str, dict[str, str]], ...]
    views: tuple[tuple[str, dict[str, str]], ...]

    def fields(self) -> dict[str, Any]:
        """The record but its thread. Raises ValueError for what is no JSON."""
        own = ((name, text) for name, text in self.fields_json.items() if name != CLAIM_FIELD)
        return {name: json.loads(text) for name, text in own}

    def thread(self) -> tuple[dict[str, Any], ...]:
        """What was said. Raises ValueError for what is no JSON."""
        return tuple(json.loads(entry) for entry in self.thread_json)

    @property
    def through(self) -> str:
        """The ids of the last lines of journal and audit, as `settle` takes them."""
        return " ".join(lines[-1][0] if lines else "" for lines in (self.lines, self.views))


class ArchiveQueue:
    """Complete calls on their way. All raise StoreUnavailable; asked twice they answer the same."""

    def __init__(self, scripts: Scripts, completed_ttl_ms: int) -> None:
        self._scripts = scripts
        self._ttl_ms = completed_ttl_ms

    def look(self, most: int = 100, *, now_ms: int | None = None) -> ArchiveBacklog:
        """One look over all shards, in one round trip; at most so many of each kind in each."""
        asked = [
            invoke("list_unarchived", shard.by_name, most=most, now_ms=now_ms)
            for shard in ALL_SHARDS
        ]
        answers = self._scripts.run_on_all_shards(asked)
        found = [one.facts for one in answers if isinstance(one, ScriptReply)]
        now = int(found[0]["now"])
        ends = sorted(
            (int(float(at)), sid)
            for one in found
            for sid, at in zip(one["waiting"][::2], one["waiting"][1::2], strict=True)
        )
        return ArchiveBacklog(
            now,
            calls=tuple(sid for _, sid in ends),
            again=tuple(sid for one in found for sid in one["again"]),
            count=sum(one["count"] for one in found),
            oldest_ms=max(0, now - ends[0][0]) if ends else 0,
            failure=next((one for one in answers if isinstance(one, StoreError)), None),
        )

    def read(self, call_sids: Sequence[str]) -> list[StoredCall]:
        """Those of them that are complete, whole, in one round trip."""
        if not call_sids:
            return []
        with translated(self._scripts.where), self._scripts.client.pipeline(False) as pipe:
            for call_sid in call_sids:
                keys = call_keys(call_sid)
                pipe.hgetall(keys.call)
                pipe.lrange(keys.thread, 0, -1)
                pipe.xrange(keys.journal)
                pipe.xrange(keys.audit)
            answers = iter(pipe.execute())
        return [
            StoredCall(call_sid, fields, tuple(thread), tuple(lines), tuple(views))
            for call_sid, fields, thread, lines, views in zip(
                call_sids, *[answers] * 4, strict=True
            )
            if fields.get("outcome", "null") != "null"
        ]

    def settle(self, call_sid: str, through: str, *, now_ms: int | None = None) -> Settled:
        """The lasting store has this call, up to the lines with these ids."""
        reply = self._scripts.run(
            on_call(
                "settle_archived",
                call_sid,
                through=through,
                completed_ttl_ms=self._ttl_ms,
                again_ms=max(1, self._ttl_ms // LOOKS),
                now_ms=now_ms,
            )
        )
        return Settled(reply.word)

    def forget(self, call_sid: str) -> bool:
        """Its content was erased from the lasting store: what is here of it goes at once, with all
        that was said. True where there was something; a call that is not complete stays, which is
        one whose end a failover has taken back. Raises InvalidCallSid."""
        return self._scripts.run(on_call("forget_erased", call_sid)).word == Result.OK

    def mark_begun(self, by: str) -> None:
        """Say that `by` begins to archive."""
        with translated(self._scripts.where):
            self._scripts.client.set(ARCHIVED, by, px=MISSED_AFTER_MS)

    def claim_missed(self, by: str) -> bool:
        """True when nobody has begun for long: then this round is `by`'s, and no other's."""
        with translated(self._scripts.where):
            return bool(self._scripts.client.set(ARCHIVED, by, px=MISSED_AFTER_MS, nx=True))
