"""Records who read which call, who did what there, and who signed in: names and deeds, no words.

A call's lines are in a stream beside its record and live as long; the record that lasts takes them
along. Sign-ins are in one stream for all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callflow.redis.client import translated
from callflow.redis.scripts import Scripts, invoke
from callflow.store.keys import PREFIX, call_keys

MOST_VIEWS = 1_000
"""Of one call, about. Somebody who reloads the same call all the time fills it with one line a
minute."""

MOST_SIGN_INS = 10_000
"""About; the oldest go first."""

SIGN_INS_KEPT_MS = 90 * 24 * 3_600_000

SIGN_INS = f"{PREFIX}:sign-ins"

Passage = Literal["signed_in", "refused", "signed_out", "signed_out_everywhere"]
"""What happened at the door."""


@dataclass(frozen=True, slots=True)
class AuditLine:
    """One line. `at`: server clock, ms. `address`: for sign-ins; empty for deeds in a call."""

    at: int
    what: str
    by: str
    address: str = ""


class Audit:
    """Writes and reads what people did. All raise StoreUnavailable when the server is gone."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def record(self, call_sid: str, by: str, deed: str, *, now_ms: int | None = None) -> None:
        """Somebody does `deed` (`read`) in a call. The same again within a minute is one line.

        Raises InvalidCallSid.
        """
        keys = call_keys(call_sid)
        self._scripts.run(
            invoke(
                "add_audit_line",
                {"stream": keys.audit, "call": keys.call},
                once_in_ms=60_000,
                most=MOST_VIEWS,
                what=deed,
                by=by,
                address="",
                now_ms=now_ms,
            )
        )

    def record_sign_in(
        self, what: Passage, by: str, address: str, *, now_ms: int | None = None
    ) -> None:
        """Somebody came or went, from `address`. `by` is empty for a name that nobody has: what is
        typed there may be a password."""
        self._scripts.run(
            invoke(
                "add_audit_line",
                # Of no call: what stands for one is not looked at.
                {"stream": SIGN_INS, "call": SIGN_INS},
                most=MOST_SIGN_INS,
                kept_ms=SIGN_INS_KEPT_MS,
                what=what,
                by=by,
                address=address,
                now_ms=now_ms,
            )
        )

    def of_call(self, call_sid: str) -> list[AuditLine]:
        """Who did what in a call, oldest first; empty when its record has expired."""
        return self._read(call_keys(call_sid).audit)

    def sign_ins(self) -> list[AuditLine]:
        """Who came and went, oldest first."""
        return self._read(SIGN_INS)

    def _read(self, key: str) -> list[AuditLine]:
        with translated(self._scripts.where):
            with self._scripts.client.pipeline(transaction=False) as pipe:
                pipe.xrange(key)
                (stream,) = pipe.execute()
        return [
            AuditLine(int(said["at"]), said["what"], said["by"], said["address"])
            for _, said in stream
        ]
