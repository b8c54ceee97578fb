"""What a failover may take, and what it has taken.

A primary acknowledges before its replicas have it, so the one that is promoted may lack the newest
writes. Where replicas are waited for, nothing is acknowledged and nothing is spoken that they do
not have. Where they are not, a loss is found by those who know more than the record: the address
that the carrier was given names the turn.
"""

from __future__ import annotations

import json

from callflow.call.state import Event, moves_row
from callflow.errors import CallEnded, StoreUnreplicated, UnknownCall
from callflow.redis.scripts import Scripts
from callflow.store.encoding import clock
from callflow.store.keys import call_keys


class Losses:
    """Keeps from losses, finds and journals them. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    @property
    def guarded(self) -> bool:
        """True when nothing is acknowledged, and no reply spoken, that a failover could lose."""
        return self._scripts.replicas.least > 0

    def note(self, call_sid: str, turn: int, *, told: int = 0, now_ms: int | None = None) -> bool:
        """Whoever asks knows that `turn` was heard, and that the reply to `told` was passed on to
        the caller: what the record does not have of it a failover has taken. It is journaled
        (`lost`) and let go, and the call goes on behind it. False when nothing is missing; twice is
        once.

        Raises UnknownCall and CallEnded.
        """
        keys = call_keys(call_sid)
        (word,) = self._scripts.run(
            "lost",
            (keys.call, keys.journal, keys.shard.owed, keys.shard.leases),
            (moves_row(Event.HEAR_AFTER_LOSS), call_sid, turn, told, clock(now_ms)),
        )
        match word:
            case "unknown":
                raise UnknownCall(call_sid)
            case "ended":
                raise CallEnded(call_sid, str(Event.HEAR_AFTER_LOSS))
            case _:
                return bool(word == "lost")

    def has_reply(self, call_sid: str, turn: int, text: str) -> bool:
        """Whether the reply to `turn`, as far as `text`, is in the record and on the replicas: what
        was read of a primary, or told by it, a failover may have taken meanwhile.

        Raises UnknownCall, and StoreUnreplicated when too few replicas have it in time.
        """
        (word, *said), assured = self._scripts.run_assured(
            "assure", (call_keys(call_sid).call,), ()
        )
        if word == "unknown":
            raise UnknownCall(call_sid)
        answered, draft = int(said[0]), json.loads(said[1])
        if answered < turn:
            known = draft["text"] if draft and draft["turn"] == turn else ""
            if not known.startswith(text):
                return False
        if not assured:
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return True
