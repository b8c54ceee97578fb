"""The sessions of people who have signed in: any web process knows them, and none keeps them.

A session is found by the hash of its token: who reads the store cannot sign in with what is there.
All keys of one person carry one hash tag, so that one script sees the session and whether its
holder was signed out everywhere. What a holder is, is not this module's business.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from callflow.errors import StoreUnreplicated
from callflow.redis.scripts import Scripts
from callflow.store.encoding import clock
from callflow.store.keys import PREFIX


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long a session lasts: without a request, and at most."""

    idle_ms: int = 1_800_000
    most_ms: int = 43_200_000


class Sessions:
    """Begins, finds and ends sessions. All raise StoreUnavailable when the server is gone.

    `key` names the holder (32 hex digits), `hashed` is the hash of the session's token.
    """

    def __init__(self, scripts: Scripts, lifetimes: Lifetimes | None = None) -> None:
        self._scripts = scripts
        self._lifetimes = lifetimes or Lifetimes()

    def begin(self, key: str, hashed: str, holder: str, *, now_ms: int | None = None) -> None:
        """Let the token with this hash stand for `holder`. Twice for one token is once."""
        self._run("begin", key, hashed, holder, now_ms)

    def find(self, key: str, hashed: str, *, now_ms: int | None = None) -> str | None:
        """The holder, and the session is in use until now; None when it has ended or never was."""
        word, *holder = self._run("look", key, hashed, "", now_ms)
        return holder[0] if word == "known" else None

    def end(self, key: str, hashed: str, *, assured: bool = True) -> None:
        """End one session; one that has ended stays so. Raises StoreUnreplicated when too few
        replicas know that in time, where that must be `assured`: a failover would bring it back.
        """
        self._run("end", key, hashed, "", None, assured=assured)

    def end_all(self, key: str) -> None:
        """End every session that this holder has, wherever it was begun. Raises
        StoreUnreplicated as `end` does."""
        self._run("end_all", key, "", "", None, assured=True)

    def _run(
        self,
        what: Literal["begin", "look", "end", "end_all"],
        key: str,
        hashed: str,
        holder: str,
        now_ms: int | None,
        *,
        assured: bool = False,
    ) -> list[str]:
        base = f"{PREFIX}:{{{key}}}"
        keys = (f"{base}:session:{hashed}", f"{base}:signed-out")
        lifetimes = (self._lifetimes.idle_ms, self._lifetimes.most_ms)
        args = (what, holder, *lifetimes, clock(now_ms))
        said: list[str]
        if not assured:
            said = self._scripts.run("session", keys, args)
            return said
        said, enough = self._scripts.run_assured("session", keys, args)
        if not enough:
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return said
