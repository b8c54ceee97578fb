"""Counts tries to sign in, so that nobody guesses passwords: one count for all web processes.

A try is counted before the password is looked at, so that many at once are no way around it, and
costs nothing more once there were too many. Whether a name exists makes no difference here.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from callflow.redis.scripts import Scripts
from callflow.store.keys import PREFIX


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many wrong tries within `within_ms` of the first of them."""

    tries: int
    within_ms: int


@dataclass(frozen=True, slots=True)
class Limits:
    """What is allowed: by address, for a name from one address, for a name from anywhere."""

    address: Allowed = Allowed(30, 300_000)
    """A whole desk comes from one address, and may mistype."""
    pair: Allowed = Allowed(4, 300_000)
    """48 an hour, fewer than a name has: one address alone locks nobody out."""
    name: Allowed = Allowed(50, 3_600_000)
    """Higher, since it locks out whoever the name belongs to: somebody who has many addresses
    gets 1,200 guesses a day. Who is signed in already stays so."""


class Attempts:
    """The counts. Both raise StoreUnavailable when the server is gone."""

    def __init__(self, scripts: Scripts, limits: Limits | None = None) -> None:
        self._scripts = scripts
        self._limits = limits or Limits()

    def begin(self, name: str, address: str) -> int:
        """Count a try; 0 when it may be made, else the ms after which another one may."""
        word, *wait_ms = self._run("try", name, address)
        return max(1, int(wait_ms[0])) if word == "over" else 0

    def right(self, name: str, address: str) -> None:
        """The try was right, so it does not count. The wrong ones before it still do: whoever has
        one password must not get more tries for another."""
        self._run("right", name, address)

    def _run(self, what: str, name: str, address: str) -> list[str]:
        # No names and addresses in names of keys: who reads those need not know who signs in.
        keys = tuple(
            f"{PREFIX}:{{sign-in}}:{kind}:{hashlib.sha256(counted.encode()).hexdigest()[:32]}"
            for kind, counted in (
                ("address", address),
                ("pair", f"{address} {name}"),
                ("name", name),
            )
        )
        limits = (self._limits.address, self._limits.pair, self._limits.name)
        allowed = [number for one in limits for number in (one.tries, one.within_ms)]
        said: list[str] = self._scripts.run("attempt", keys, (what, *allowed))
        return said
