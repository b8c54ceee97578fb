"""Keeps from losses in a failover, finds and journals them.

A primary acknowledges before its replicas have it, so the one that is promoted may lack the newest
writes. Where replicas are waited for, nothing is acknowledged and nothing is spoken that they do
not have. Where they are not, a loss is found by those who know more than the record: the address
that the carrier was given names the turn.
"""

from __future__ import annotations

import json

from callflow.call.state import Event
from callflow.errors import CallEnded, StoreUnreplicated, UnknownCall
from callflow.redis.scripts import Scripts
from callflow.store.encoding import on_call
from callflow.store.result import Result


class Failover:
    """What a failover may take, and has taken. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    @property
    def guarded(self) -> bool:
        """True when nothing is acknowledged, and no reply spoken, that a failover could lose."""
        return self._scripts.replicas.least > 0

    def admit_loss(
        self, call_sid: str, turn: int, *, told: int = 0, now_ms: int | None = None
    ) -> bool:
        """Whoever asks knows that `turn` was heard, and that the reply to `told` was passed on to
        the caller: what the record does not have of it a failover has taken. It is journaled
        (`lost`) and let go, and the call goes on behind it. False when nothing is missing; twice is
        once.

        Raises UnknownCall and CallEnded.
        """
        event = Event.HEAR_AFTER_LOSS
        reply = self._scripts.run(
            on_call("admit_loss", call_sid, event, turn=turn, told=told, now_ms=now_ms)
        )
        if reply.word == Result.UNKNOWN:
            raise UnknownCall(call_sid)
        if reply.word == Result.ENDED:
            raise CallEnded(call_sid, str(event))
        return reply.word == Result.OK

    def has_reply(self, call_sid: str, turn: int, text: str) -> bool:
        """Whether the reply to `turn`, as far as `text`, is in the record and on the replicas: what
        was read of a primary, or told by it, a failover may have taken meanwhile.

        Raises UnknownCall, and StoreUnreplicated when too few replicas have it in time.
        """
        (word, facts), assured = self._scripts.run_assured(on_call("check_reply", call_sid))
        if word == Result.UNKNOWN:
            raise UnknownCall(call_sid)
        if int(facts["answered"]) < turn:
            draft = json.loads(facts["draft"])
            known = draft["text"] if draft and draft["turn"] == turn else ""
            if not known.startswith(text):
                return False
        if not assured:
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return True
