"""All calls at a glance, for people who watch: what has not changed costs little to look at again.

One look is one pipelined request over the shards, however many calls there are. It reads what
stands in the records, so it is right after whatever was lost on the way: no notification is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import PrivateAttr, ValidationError

from callflow.call.history import JournalEntry
from callflow.call.limits import OPEN_CALLS_MOST
from callflow.call.record import CallRecord, ThreadEntry
from callflow.errors import StoreError
from callflow.redis.cluster import Cluster
from callflow.redis.each import run_each
from callflow.redis.scripts import Client, Invocation, Scripts, translated
from callflow.store.encoding import clock
from callflow.store.keys import ALL_SHARDS, SHARDS, call_keys

ENDED_MS = 15_000
"""For so long a call that has ended stays in sight, so that one sees how it ended."""

FROM_THE_START = ""
"""In place of the id of a journal's line: before all of them."""


class Sight(CallRecord):
    """A call as people watch it: its record without its procedures and its conversation.

    `conversation_thread` has at most three entries: the last one, the last one in which the caller
    said a word or pressed a key, and the one that waits for a reply since. Whoever needs the
    conversation reads the record (`Snapshots`). `journal_length` grows with each line.
    """

    journal_length: int = 0
    _raw: str = PrivateAttr("")
    _stamp: str = PrivateAttr("")

    @property
    def raw(self) -> str:
        """All of it as it was read: the same where nothing has changed."""
        return self._raw

    @property
    def last_entry(self) -> ThreadEntry | None:
        """What was said last by anybody and is finished."""
        return self.conversation_thread[-1] if self.conversation_thread else None

    @property
    def heard_at(self) -> int | None:
        """When the caller last said a word or pressed a key (server clock, ms); None: never, or
        very long ago. Silence is a turn, and no sign of life."""
        said = (each for each in reversed(self.conversation_thread) if each.role == "caller")
        return next((each.at for each in said if each.text or each.digits), None)

    @property
    def draft_length(self) -> int:
        """How many letters of an unfinished reply were sent to the caller."""
        return 0 if self.draft is None else len(self.draft.text)

    @property
    def hurried(self) -> bool:
        """Danger was heard in words that nobody has understood yet: the call counts as P1."""
        return self.hurry > self.answered


_FIELDS = tuple(
    sorted(
        Sight.model_fields.keys()
        - {"call_sid", "conversation_thread", "journal_length", "retrieved_sop_chunks"}
        # Of no use to whoever watches many calls, and some of it is long.
        - {"acts", "cut", "notes", "sayings", "sent", "sop_step", "urgency_set"}
    )
)


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found. `now_ms` is the server's clock."""

    now_ms: int
    sights: tuple[Sight, ...]
    hidden: int = 0
    """active calls that were left out because there are too many"""
    blind: frozenset[int] = frozenset()
    """numbers of the shards that could not be looked at: a node of the cluster is gone"""
    unreadable: tuple[str, ...] = ()
    """calls whose records, or lines of whose journals, cannot be read, as those of a newer release:
    the others are seen"""
    failure: StoreError | None = None
    """why some shards are `blind`"""


class Watching:
    """Looks at all calls, for one reader: threads must not share it.

    What it remembers of the last look saves work and nothing else; each shard in turn is looked at
    as if for the first time, so whatever was changed behind the scripts is seen, too.
    """

    def __init__(self, client: Client) -> None:
        self._scripts = Scripts(client)
        self._client = client
        self._last: tuple[dict[str, Sight], ...] = tuple({} for _ in ALL_SHARDS)
        self._turn = 0
        self._blurred: set[str] = set()
        """calls with a line in the journal that cannot be read"""

    def look(
        self,
        limit: int = OPEN_CALLS_MOST,
        *,
        ended_ms: int = ENDED_MS,
        now_ms: int | None = None,
    ) -> Look:
        """All active calls, and those that ended in the last `ended_ms`. One round trip.

        A call in which nothing has changed since the last look is the very same object. Where one
        node of a cluster is gone the calls of the others are seen all the same. Raises
        StoreUnavailable where nothing can be seen.
        """
        share = -(-limit // SHARDS)
        self._turn = (self._turn + 1) % SHARDS
        asked = []
        for number, shard in enumerate(ALL_SHARDS):
            arguments: list[str | int] = [share, ended_ms, shard.active.removesuffix("active")]
            arguments += [clock(now_ms), len(_FIELDS), *_FIELDS, *self._stamps(number)]
            asked.append(Invocation("look", (shard.active, shard.ended), tuple(arguments)))
        told = run_each(self._scripts, asked)
        seen = {n: one for n, one in enumerate(told) if not isinstance(one, StoreError)}
        unreadable = [
            sid for n, (*_, sids, changed) in seen.items() for sid in self._take(n, sids, changed)
        ]
        self._blurred &= {sid for last in self._last for sid in last}
        return Look(
            max(int(now) for now, *_ in seen.values()),
            tuple(sight for n in seen for sight in self._last[n].values()),
            hidden=sum(int(hidden) for _, hidden, *_ in seen.values()),
            blind=frozenset(range(SHARDS)) - seen.keys(),
            unreadable=(*unreadable, *sorted(self._blurred)),
            failure=next((one for one in told if isinstance(one, StoreError)), None),
        )

    def entries(self, after: Mapping[str, str]) -> dict[str, list[tuple[str, JournalEntry]]]:
        """The lines of each journal behind the one of that id (FROM_THE_START: all), with their
        ids, oldest first. One round trip. Where a node of a cluster is gone its calls are missing.
        A line that cannot be read is left out, and later looks name its call as unreadable.
        """
        if not after:
            return {}
        with translated(self._scripts.where), self._client.pipeline(transaction=False) as pipe:
            for call_sid, line in after.items():
                pipe.xrange(call_keys(call_sid).journal, f"({line}" if line else "-")
            told = pipe.execute(raise_on_error=not isinstance(self._client, Cluster))
            streams = {
                call_sid: stream
                for call_sid, stream in zip(after, told, strict=True)
                if not isinstance(stream, Exception)
            }
            if not streams:
                raise told[0]
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
                self._blurred.add(call_sid)

    def _stamps(self, number: int) -> list[str]:
        """What need not be told again of one shard."""
        if number == self._turn:
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
                last[sid] = sight = Sight.model_validate_json(raw)
            except ValidationError:
                unreadable.append(sid)
                last.pop(sid, None)
            else:
                sight._raw, sight._stamp = raw, stamp
        for sid in last.keys() - set(sids):
            del last[sid]
        return unreadable
