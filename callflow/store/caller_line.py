"""Keeps which socket holds a caller's line, and how much of a reply was sent on it and heard.

What is owed to a worker stands in an index of leases; what is owed to an ear stands here. A web
process beats for every socket that it holds open. One that is frozen, cut off or stalled cannot,
and the next sweep has the carrier bring the caller to another process. The clock is the server's.

A wrong guess (a process that was slow, and lives) costs a caller "I am still here" in the middle of
what was being said. It is not said twice: by its name in `holder` a socket that has lost its line
can neither keep how much was heard nor take the line back.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Final

from callflow.call.state import Event
from callflow.call.utterance import clean
from callflow.errors import StoreError
from callflow.redis.scripts import Scripts, invoke
from callflow.store.encoding import as_json, entry, on_call
from callflow.store.keys import ShardKeys, call_keys
from callflow.store.result import Result


class ReplyPlayback:
    """The playback of replies. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def interrupt(
        self, call_sid: str, turn: int, heard: str, *, now_ms: int | None = None
    ) -> Result:
        """The caller spoke into the reply to `turn` when they had heard so much of it: OK; AGAIN
        where it was interrupted before; UNKNOWN where there is no such reply.

        The reply stays whole in the thread, with what was heard beside it. The first time stands.
        """
        reply = self._scripts.run(
            on_call(
                "interrupt",
                call_sid,
                Event.INTERRUPT,
                turn=turn,
                heard=as_json(clean(call_sid, heard)),
                begins=entry("agent", turn, "").split('"text"')[0],
                now_ms=now_ms,
            )
        )
        return Result(reply.word)

    def save_sent(
        self,
        call_sid: str,
        turn: int,
        length: int,
        *,
        left_ms: int = 0,
        played: int | None = None,
        holder: str | None = None,
        now_ms: int | None = None,
    ) -> None:
        """A relay socket has sent `length` letters of the reply to `turn`, all that it has sent
        takes `left_ms` to say, and the carrier tells that `played` letters were heard (None: it
        tells nothing): the next socket needs to know, should this one break. Nothing happens where
        the call is over, or another socket than `holder` has the line by now."""
        self._scripts.run(
            on_call(
                "save_playback",
                call_sid,
                turn=turn,
                length=length,
                left_ms=left_ms,
                played=played,
                holder=holder,
                now_ms=now_ms,
            )
        )

    def save_played(
        self,
        call_sid: str,
        turn: int,
        length: int,
        *,
        holder: str | None = None,
        now_ms: int | None = None,
    ) -> None:
        """The carrier tells that the caller has heard `length` letters of the reply to `turn`. Late
        word of an earlier turn, or of less, or of a socket that has lost the line, changes
        nothing."""
        self._scripts.run(
            on_call(
                "save_playback", call_sid, turn=turn, played=length, holder=holder, now_ms=now_ms
            )
        )


COVER_MS: Final = 1_500
"""For so long one beat answers for a line. Frozen at once after it, with a look every 0.2 s, the
carrier is asked after 1.7 s at most; the caller hears us again before 4 s are over."""


class CallerLines:
    """The lines of callers that are held by sockets. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def take(
        self, call_sid: str, holder: str, *, cover_ms: int = COVER_MS, now_ms: int | None = None
    ) -> Result:
        """`holder`, a socket, has the line from now on, whoever had it before: OK, ENDED or
        UNKNOWN. Twice is once."""
        asked = on_call("take_line", call_sid, holder=holder, cover_ms=cover_ms, now_ms=now_ms)
        return Result(self._scripts.run(asked).word)

    def beat(
        self, held: Mapping[str, str], *, back: bool, now_ms: int | None = None
    ) -> frozenset[str]:
        """Answer for these lines (CallSid: holder) a while longer; those that are lost.

        `back`: a line that nobody is known to hold is taken back, since a failover may have
        forgotten it. Not after a gap in the beats: the carrier may have been asked for it
        meanwhile. What a node of a cluster that is gone does not tell is not lost.
        """

        def shard_of(call_sid: str) -> ShardKeys:
            return call_keys(call_sid).shard

        asked = [
            invoke(
                "beat_lines",
                shard.by_name,
                cover_ms=COVER_MS,
                back=back,
                held=[word for sid in sids for word in (sid, held[sid])],
                now_ms=now_ms,
            )
            for shard, sids in groupby(sorted(held, key=lambda s: shard_of(s).lines), shard_of)
        ]
        told = self._scripts.run_on_all_shards(asked) if asked else []
        return frozenset(
            sid for one in told if not isinstance(one, StoreError) for sid in one.facts["lost"]
        )

    def release(
        self, call_sid: str, holder: str | None = None, *, due_ms: int | None = None
    ) -> Result:
        """The carrier has the line: OK; FENCED where another socket than `holder` has taken it.

        `due_ms`: whether the carrier knows is not known; the line is lost when it has not asked us
        for what comes next within that time.
        """
        asked = on_call("release_line", call_sid, holder=holder, due_ms=due_ms)
        return Result(self._scripts.run(asked).word)
