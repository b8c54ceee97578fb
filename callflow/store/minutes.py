"""Which minutes were told to CloudWatch: each is told by one process, whichever comes first."""

from __future__ import annotations

import secrets

from callflow.redis.client import Client, address, translated
from callflow.store.keys import PREFIX

REMEMBERED_S = 3_600
"""Longer than any process keeps a minute that it could not tell."""


class Minutes:
    """Gives out minutes, one process each. Raises StoreUnavailable when the server is gone."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._where = address(client)
        self._name = secrets.token_hex(8)

    def take(self, number: int) -> bool:
        """True for the one process that is to tell minute `number` (since 1970), however often it
        asks: its first answer may have been lost."""
        key = f"{PREFIX}:minute:{number}"
        with translated(self._where), self._client.pipeline(transaction=False) as pipe:
            pipe.set(key, self._name, nx=True, ex=REMEMBERED_S)
            pipe.get(key)
            return bool(pipe.execute()[1] == self._name)
