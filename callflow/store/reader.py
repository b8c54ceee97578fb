"""Reads calls: whole, one or many, with their journals; or all of them at a glance.

A record is kept as a hash whose fields are JSON values and a list for the thread; read together
they are the JSON object that the customer drew. Whoever watches all calls reads the records, too,
so they see what is right after whatever was lost on the way, and what has not changed costs little
to look at again: one look is one pipelined request over the shards, however many calls there are.
Nothing here changes anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from pydantic import PrivateAttr, ValidationError

from callflow.call.history import JournalEntry
from callflow.call.limits import OPEN_CALLS_MOST
from callflow.call.record import CallRecord, Frozen
from callflow.errors import StoreError, UnknownCall
from callflow.redis.client import Client, address, translated
from callflow.redis.cluster import Cluster
from callflow.redis.scripts import ScriptReply, Scripts, invoke
from callflow.store.keys import ALL_SHARDS, SHARDS, call_keys

RecordT = TypeVar("RecordT", bound=Frozen)

CLAIM_FIELD: Final = "claim"
"""The one field of a record's hash that is no part of the record: which claim its fence is of."""

ENDED_MS: Final = 15_000
"""For so long a call that has ended is still seen, so that one sees how it ended."""

FROM_THE_START: Final = ""
"""In place of the id of a journal's line: before all of them."""


def from_fields(
    model: type[RecordT], fields: Iterable[tuple[str, str | None]], thread: Sequence[str] = ()
) -> RecordT:
    """A record, or a part of one, out of fields of its hash and entries of its thread, all JSON.
    Fields that are not there have their defaults. Raises ValidationError."""
    members = [f'"{n}":{value}' for n, value in fields if value is not None and n != CLAIM_FIELD]
    members.append(f'"conversation_thread":[{",".join(thread)}]')
    return model.model_validate_json(f"{{{','.join(members)}}}")


class CallReader:
    """Whole records, one or many, as they are at this moment."""

    def __init__(self, client: Client) -> None:
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
            call_sid: from_fields(CallRecord, fields.items(), thread)
            for call_sid, fields, thread in zip(call_sids, replies, replies, strict=True)
            if fields
        }

    def journal(self, call_sid: str) -> list[JournalEntry]:
        """What happened to a call, oldest first; empty when there is no such call (any more)."""
        return self.journals([call_sid])[call_sid]

    def journals(self, call_sids: Sequence[str]) -> dict[str, list[JournalEntry]]:
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


class CallSummary(CallRecord):
    """A call as people watch it: its record without its procedures and its conversation.

    `conversation_thread` has at most three entries: the last one, the last one in which the caller
    said a word or pressed a key, and the one that waits for a reply since. Whoever needs the
    conversation reads the record (`CallReader`). `journal_length` grows with each line.
    """

    journal_length: int = 0
    _raw: str = PrivateAttr("")
    _stamp: str = PrivateAttr("")

    @property
    def raw(self) -> str:
        """All of it as it was read: the same where nothing has changed."""
        return self._raw

    @property
    def heard_at(self) -> int | None:
        """When the caller last said a word or pressed a key (server clock, ms); None: never, or
        very long ago. Silence is a turn, and no sign of life."""
        said = (each for each in reversed(self.conversation_thread) if each.role == "caller")
        return next((each.at for each in said if each.text or each.digits), None)

    @property
    def hurried(self) -> bool:
        """Danger was heard in words that nobody has understood yet: the call counts as P1."""
        return self.hurry > self.answered


_FIELDS = " ".join(
    sorted(
        CallSummary.model_fields.keys()
        - {"call_sid", "conversation_thread", "journal_length", "retrieved_sop_chunks"}
        # Of no use to whoever watches many calls, and some of it is long.
        - {"acts", "cut", "notes", "sayings", "sent", "sop_step", "urgency_set"}
    )
)


@dataclass(frozen=True, slots=True)
class CallsOverview:
    """What one look found. `now_ms` is the server's clock."""

    now_ms: int
    calls: tuple[CallSummary, ...]
    hidden: int = 0
    """active calls that were left out because there are too many"""
    blind: frozenset[int] = frozenset()
    """numbers of the shards that could not be looked at: a node of the cluster is gone"""
    unreadable: tuple[str, ...] = ()
    """calls whose records, or lines of whose journals, cannot be read, as those of a newer release:
    the others are seen"""
    failure: StoreError | None = None
    """why some shards are `blind`"""


class CallWatcher:
    """Looks at all calls, for one reader: threads must not share it.

    What it remembers of the last look saves work and nothing else; each shard in turn is looked at
    as if for the first time, so whatever was changed behind the scripts is seen, too.
    """

    def __init__(self, client: Client) -> None:
        self._scripts = Scripts(client)
        self._client = client
        self._last: tuple[dict[str, CallSummary], ...] = tuple({} for _ in ALL_SHARDS)
        self._fresh_shard = 0
        self._unreadable_journals: set[str] = set()
        """calls with a line in the journal that cannot be read"""

    def look(
        self,
        limit: int = OPEN_CALLS_MOST,
        *,
        ended_ms: int = ENDED_MS,
        now_ms: int | None = None,
    ) -> CallsOverview:
        """All active calls, and those that ended in the last `ended_ms`. One round trip.

        A call in which nothing has changed since the last look is the very same object. Where one
        node of a cluster is gone the calls of the others are seen all the same. Raises
        StoreUnavailable where nothing can be seen.
        """
        self._fresh_shard = (self._fresh_shard + 1) % SHARDS
        asked = [
            invoke(
                "watch",
                shard.by_name,
                most=-(-limit // SHARDS),
                ended_ms=ended_ms,
                base=shard.active.removesuffix("active"),
                fields=_FIELDS,
                known=self._stamps(number),
                now_ms=now_ms,
            )
            for number, shard in enumerate(ALL_SHARDS)
        ]
        answers = self._scripts.run_on_all_shards(asked)
        seen = {n: one.facts for n, one in enumerate(answers) if isinstance(one, ScriptReply)}
        unreadable = [
            sid for n, one in seen.items() for sid in self._take(n, one["calls"], one["changed"])
        ]
        self._unreadable_journals &= {sid for last in self._last for sid in last}
        return CallsOverview(
            max(int(one["now"]) for one in seen.values()),
            tuple(one for n in seen for one in self._last[n].values()),
            hidden=sum(one["hidden"] for one in seen.values()),
            blind=frozenset(range(SHARDS)) - seen.keys(),
            unreadable=(*unreadable, *sorted(self._unreadable_journals)),
            failure=next((one for one in answers if isinstance(one, StoreError)), None),
        )

    def journal_lines(self, after: Mapping[str, str]) -> dict[str, list[tuple[str, JournalEntry]]]:
        """The lines of each journal behind the one of that id (FROM_THE_START: all), with their
        ids, oldest first. One round trip. Where a node of a cluster is gone its calls are missing.
        A line that cannot be read is left out, and later looks name its call as unreadable.
        """
        if not after:
            return {}
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for call_sid, line in after.items():
                pipe.xrange(call_keys(call_sid).journal, f"({line}" if line else "-")
            answers = pipe.execute(raise_on_error=not isinstance(self._client, Cluster))
            streams = {
                call_sid: stream
                for call_sid, stream in zip(after, answers, strict=True)
                if not isinstance(stream, Exception)
            }
            if not streams:
                raise answers[0]
        return {
            call_sid: list(self._lines(call_sid, stream)) for call_sid, stream in streams.items()
        }

    def _lines(
        self, call_sid: str, stream: Sequence[tuple[str, dict[str, str]]]
    ) -> Iterator[tuple[str, JournalEntry]]:
        for line, fields in stream:
            try:
                yield line, JournalEntry.model_validate(fields)
            except ValidationError:
                self._unreadable_journals.add(call_sid)

    def _stamps(self, number: int) -> list[str]:
        """What need not be told again of one shard."""
        if number == self._fresh_shard:
            return []
        return [word for sid, one in self._last[number].items() for word in (sid, one._stamp)]

    def _take(self, number: int, sids: Sequence[str], changed: Sequence[str]) -> list[str]:
        """Remember what one shard has told. Returns the calls whose records cannot be read."""
        unreadable, last = [], self._last[number]
        for sid, stamp, raw in zip(changed[::3], changed[1::3], changed[2::3], strict=True):
            before = last.get(sid)
            if before is not None and before.raw == raw:
                before._stamp = stamp
                continue
            try:
                last[sid] = summary = CallSummary.model_validate_json(raw)
            except ValidationError:
                unreadable.append(sid)
                last.pop(sid, None)
            else:
                summary._raw, summary._stamp = raw, stamp
        for sid in last.keys() - set(sids):
            del last[sid]
        return unreadable
