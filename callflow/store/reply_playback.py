"""Keeps how much of a reply was sent to be spoken, and how much of it the caller has heard."""

from __future__ import annotations

from callflow.call.state import Event
from callflow.call.utterance import clean
from callflow.redis.scripts import Scripts
from callflow.store.encoding import as_json, entry, on_call
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
