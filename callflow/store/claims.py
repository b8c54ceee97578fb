"""Gives a thing to whoever asks for it first, and to nobody else."""

from __future__ import annotations

import secrets

from callflow.redis.scripts import Scripts, invoke
from callflow.store.keys import PREFIX
from callflow.store.result import Result


def claim_once(scripts: Scripts, key: str, ttl_ms: int, *, by: str | None = None) -> bool:
    """True for the first that claims `key`, whatever process it is asked by; remembered for
    `ttl_ms`, which must be longer than the thing is good for.

    `by` names who asks, and has it however often they ask: their first answer may have been lost.
    None: this one request, so the next one with the same key has it no more. Raises
    StoreUnavailable when the server is gone.
    """
    name = secrets.token_hex(8) if by is None else by
    claim = {"claim": f"{PREFIX}:{key}"}
    reply = scripts.run(invoke("claim_once", claim, name=name, ttl_ms=ttl_ms))
    return reply.word == Result.OK
