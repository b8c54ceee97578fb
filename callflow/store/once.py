"""Things that may be used once, whichever process is asked: what was used is remembered."""

from __future__ import annotations

from callflow.redis.scripts import Scripts
from callflow.store.keys import PREFIX

REMEMBERED_MS = 3_600_000
"""Longer than anything of the kind is good for."""


class Once:
    """Remembers what was used. Raises StoreUnavailable when the server is gone."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def first(self, kind: str, hashed: str) -> bool:
        """True the first time that this is used. A use whose answer was lost counts: it may have
        been somebody else's."""
        key = f"{PREFIX}:once:{kind}:{hashed}"
        (word,) = self._scripts.run("once", (key,), (REMEMBERED_MS,))
        return bool(word == "first")
