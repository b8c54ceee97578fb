"""Names of all keys, and why they fall where they fall.

Every key of a call and every index entry about it carry one hash tag, so that a script which
touches all of them touches one Redis Cluster slot. The tags are few and fixed, so that a sweep
over all calls is one pipelined request over the tags, however many calls there are.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache

from callflow.errors import InvalidCallSid

PREFIX = "callflow"

SHARDS = 16
"""Number of hash tags. Fixed: another number would look for every live call in the wrong place."""

SAID_CHANNEL = f"{PREFIX}:said"
"""Pub/sub: the CallSid of a call that has changed, and with it, behind a line break, the draft that
has grown or the entry of a reply that was committed. A hint that may be lost, never the truth."""

SWEPT = f"{PREFIX}:swept"
"""Who swept last; expires when the next sweep is overdue, so that an understudy may take it."""

ARCHIVED = f"{PREFIX}:archived"
"""Who last began to archive; expires when the next round is overdue."""

EPOCH = f"{PREFIX}:epoch"
"""Which life of which server we talk to, and since when: see `leases.py`."""

_CALL_SID = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


def presence_channel(worker: str) -> str:
    """The channel that a process of this name keeps a subscription to while it lives."""
    return f"{PREFIX}:presence:{worker}"


@dataclass(frozen=True)
class ShardKeys:
    """The indexes of one shard, each a sorted set of CallSids."""

    leases: str
    """by the last beat of the worker that holds the call"""
    owed: str
    """by the time at which the message for an owed turn counts as lost"""
    active: str
    """by the last time anything was said: every call that is not complete"""
    rings: str
    """by the time at which the ladder of humans goes on: calls for which somebody is to be rung"""
    lines: str
    """by the time until which a process of ours answers for the caller's open socket"""
    ended: str
    """by the end: complete calls whose records can still be read"""
    unarchived: str
    """by the end: complete calls that the lasting store does not have yet"""
    archived: str
    """by when it is next seen whether more was written of them: complete calls that it has"""
    asked: str
    """by the time at which the carrier was last to be asked whether a quiet call is still there"""
    holders: str
    """no set, but a hash: which socket holds the line of a call, for those in `lines`"""
    looked: str
    """no set: exists while sweeps look at `lines` without a gap"""
    swept: str
    """no set, but as SWEPT: in a cluster, where a part of the shards may be gone"""

    @cached_property
    def by_name(self) -> Mapping[str, str]:
        """As scripts name them."""
        return asdict(self)


@dataclass(frozen=True)
class CallKeys:
    """The keys of one call: a hash, a list and two streams, and its shard's indexes."""

    call: str
    thread: str
    journal: str
    audit: str
    shard: ShardKeys

    @cached_property
    def by_name(self) -> Mapping[str, str]:
        """As scripts name them, those of its shard among them."""
        return {name: getattr(self, name) for name in ("call", "thread", "journal", "audit")} | (
            dict(self.shard.by_name)
        )

    @property
    def own(self) -> tuple[str, str, str]:
        """The keys that end with the call."""
        return self.call, self.thread, self.journal


def _shard(number: int) -> ShardKeys:
    base = f"{PREFIX}:{{{number:02d}}}"
    return ShardKeys(
        leases=f"{base}:leases",
        owed=f"{base}:owed",
        active=f"{base}:active",
        rings=f"{base}:rings",
        lines=f"{base}:lines",
        ended=f"{base}:ended",
        unarchived=f"{base}:unarchived",
        archived=f"{base}:archived",
        asked=f"{base}:asked",
        holders=f"{base}:holders",
        looked=f"{base}:looked",
        swept=f"{base}:swept",
    )


ALL_SHARDS: tuple[ShardKeys, ...] = tuple(_shard(number) for number in range(SHARDS))


@lru_cache(maxsize=4096)
def call_keys(call_sid: str) -> CallKeys:
    """The keys of `call_sid`. Raises InvalidCallSid for a key that could not be Twilio's."""
    if not _CALL_SID.fullmatch(call_sid):
        raise InvalidCallSid(call_sid)
    number = zlib.crc32(call_sid.encode()) % SHARDS
    base = f"{PREFIX}:{{{number:02d}}}"
    return CallKeys(
        call=f"{base}:call:{call_sid}",
        thread=f"{base}:thread:{call_sid}",
        journal=f"{base}:journal:{call_sid}",
        audit=f"{base}:audit:{call_sid}",
        shard=ALL_SHARDS[number],
    )
