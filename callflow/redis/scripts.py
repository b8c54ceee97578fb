"""Loads the Lua scripts and runs them.

Each transition is one script in `lua/`, named after it. Clients retry, so a script may run twice
for one request; every one of them is safe to run twice. `prelude.lua` stands before each.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from callflow.errors import StoreError, StoreReadOnly, StoreUnavailable
from callflow.redis.client import Client, address, translated
from callflow.redis.cluster import SETTLE_MANY_S, Cluster
from callflow.redis.connection import Command, ThreadConnection

PAUSE_S = 0.1
"""Between two tries of somebody who is patient: a failover takes seconds."""


class Invocation(NamedTuple):
    """One run of one script: the file's stem, its KEYS and its ARGV."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int, ...]


class Replicas(NamedTuple):
    """How many replicas must have what is to be acknowledged, and how long they are waited for."""

    least: int = 0
    wait_ms: int = 300


NO_REPLICAS = Replicas()


_OF_SEVERAL = {
    **{
        name: ("acts", name)
        for name in ("jot", "record", "say", "take", "urge", "utter", "uttered")
    },
    "dispose": ("acts", "dispose", "finish"),
}
"""Scripts that stand in several files, one after the other."""


@cache
def source(script: str) -> tuple[str, str]:
    """The text of a script with the prelude before it, and its SHA-1 as EVALSHA wants it."""
    folder = resources.files("callflow.store") / "lua"
    text = "\n".join(
        (folder / f"{name}.lua").read_text(encoding="utf-8")
        for name in ("prelude", *_OF_SEVERAL.get(script, (script,)))
    )
    return text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


class Scripts:
    """Runs scripts through one client; threads may share it, forked children may inherit it.

    `replicas`: who must have what `run_assured` writes. `patience_s`: for so long a script is tried
    again while the server is gone; nothing else is, since what is asked for many calls at once is
    asked again by itself.
    """

    def __init__(
        self, client: Client, *, replicas: Replicas = NO_REPLICAS, patience_s: float = 0.0
    ) -> None:
        self.client = client
        self.where = address(client)
        self.replicas = replicas
        self._patience_s = patience_s
        self._exchange: Callable[[Sequence[Command]], list[Any]] = (
            client.exchange
            if isinstance(client, Cluster)
            else ThreadConnection(client.connection_pool).exchange
        )

    def run(self, script: str, keys: Sequence[str], args: Sequence[str | int]) -> Any:
        """Run one script in one round trip (two when the server does not know it yet)."""
        return self._patiently(script, keys, args, ())[0]

    def run_assured(
        self, script: str, keys: Sequence[str], args: Sequence[str | int]
    ) -> tuple[Any, bool]:
        """The same, and whether enough replicas have what it has written, within `wait_ms`.

        The script must write something, even where it changes nothing (`vouch` in the prelude):
        WAIT asks about the last write of its own connection, and where there was none it answers
        at once, with every replica that is connected.
        """
        least, wait_ms = self.replicas
        if not least:
            return self.run(script, keys, args), True
        said, count = self._patiently(script, keys, args, ("WAIT", least, wait_ms))
        return said, int(count) >= least

    def _patiently(
        self, script: str, keys: Sequence[str], args: Sequence[str | int], then: tuple[Any, ...]
    ) -> list[Any]:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                with translated(self.where):
                    return self._once(script, keys, args, then)
            except (StoreUnavailable, StoreReadOnly):
                if time.monotonic() + PAUSE_S > give_up:
                    raise
            time.sleep(PAUSE_S)

    def _once(
        self, script: str, keys: Sequence[str], args: Sequence[str | int], then: tuple[Any, ...]
    ) -> list[Any]:
        text, sha = source(script)
        after: list[Command] = [(then, {})] if then else []
        answers = self._exchange([(("EVALSHA", sha, len(keys), *keys, *args), {}), *after])
        if isinstance(answers[0], NoScriptError):
            answers = self._exchange([(("EVAL", text, len(keys), *keys, *args), {}), *after])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def run_all(self, invocations: Sequence[Invocation]) -> list[Any]:
        """Run many scripts in one round trip, in order; the results come in the same order."""
        if not invocations:
            return []
        with translated(self.where):
            try:
                return self._pipelined(invocations, known=True)
            except NoScriptError:
                # Their text goes with them: loaded by itself, it could go to another server, where
                # a connection of the pool still leads after a failover.
                return self._pipelined(invocations, known=False)

    def _pipelined(self, invocations: Sequence[Invocation], *, known: bool) -> list[Any]:
        with self.client.pipeline(transaction=False) as pipe:
            for one in invocations:
                text, sha = source(one.script)
                if known:
                    pipe.evalsha(sha, len(one.keys), *one.keys, *one.args)
                else:
                    pipe.eval(text, len(one.keys), *one.keys, *one.args)
            return pipe.execute()

    def run_on_all_shards(self, invocations: Sequence[Invocation]) -> list[Any]:
        """As `run_all`; but what a node of a cluster could not do is a StoreError in its place, and
        stops no other node.

        Raises StoreUnavailable where there is one server, and where no script could be run at all.
        """
        client = self.client
        if not isinstance(client, Cluster):
            return self.run_all(invocations)
        with translated(self.where):
            answers = client.exchange(
                [_command(one) for one in invocations], settle_s=SETTLE_MANY_S
            )
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            # These alone: other nodes have run theirs, and what a sweep is given it is given once.
            in_full = [_command(invocations[n], in_full=True) for n in unknown]
            again = client.exchange(in_full, settle_s=SETTLE_MANY_S) if unknown else []
            for n, answer in zip(unknown, again, strict=True):
                answers[n] = answer
        ours = [self._translated(answer) for answer in answers]
        if ours and all(isinstance(one, StoreError) for one in ours):
            raise ours[0]
        return ours

    def _translated(self, answer: Any) -> Any:
        if not isinstance(answer, Exception):
            return answer
        try:
            with translated(self.where):
                raise answer
        except StoreError as error:
            return error


def _command(one: Invocation, *, in_full: bool = False) -> Command:
    """By its name; `in_full` to a node that has not run the script yet."""
    text, sha = source(one.script)
    name = ("EVAL", text) if in_full else ("EVALSHA", sha)
    return (*name, len(one.keys), *one.keys, *one.args), {}
