"""Runs the Lua scripts: one at a time, many in one round trip, or one on each shard.

Clients retry, so a script may run twice for one request; every one of them is safe to run twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from callflow.errors import StoreError, StoreReadOnly, StoreUnavailable
from callflow.redis.client import Client, address, translated
from callflow.redis.cluster import SETTLE_MANY_S, Cluster
from callflow.redis.connection import Command, ThreadConnection
from callflow.redis.lua import Invocation, ScriptReply, command, reply

PAUSE_S = 0.1
"""Between two tries of somebody who is patient: a failover takes seconds."""


class Replicas(NamedTuple):
    """How many replicas must have what is to be acknowledged, and how long they are waited for."""

    least: int = 0
    wait_ms: int = 300


NO_REPLICAS = Replicas()


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

    def run(self, asked: Invocation) -> ScriptReply:
        """Run one script in one round trip (two when the server does not know it yet)."""
        return reply(self._patiently(asked, ())[0])

    def run_assured(self, asked: Invocation) -> tuple[ScriptReply, bool]:
        """The same, and whether enough replicas have what it has written, within `wait_ms`.

        The script must write something, even where it changes nothing (`vouch` in the prelude):
        WAIT asks about the last write of its own connection, and where there was none it answers
        at once, with every replica that is connected.
        """
        least, wait_ms = self.replicas
        if not least:
            return self.run(asked), True
        said, count = self._patiently(asked, ("WAIT", least, wait_ms))
        return reply(said), int(count) >= least

    def _patiently(self, asked: Invocation, then: tuple[Any, ...]) -> list[Any]:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                with translated(self.where):
                    return self._once(asked, then)
            except (StoreUnavailable, StoreReadOnly):
                if time.monotonic() + PAUSE_S > give_up:
                    raise
            time.sleep(PAUSE_S)

    def _once(self, asked: Invocation, then: tuple[Any, ...]) -> list[Any]:
        after: list[Command] = [(then, {})] if then else []
        answers = self._exchange([command(asked), *after])
        if isinstance(answers[0], NoScriptError):
            answers = self._exchange([command(asked, in_full=True), *after])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def run_all(self, invocations: Sequence[Invocation]) -> list[ScriptReply]:
        """Run many scripts in one round trip, in order; the results come in the same order."""
        if not invocations:
            return []
        with translated(self.where):
            try:
                return self._pipelined(invocations, in_full=False)
            except NoScriptError:
                # Their text goes with them: loaded by itself, it could go to another server, where
                # a connection of the pool still leads after a failover.
                return self._pipelined(invocations, in_full=True)

    def _pipelined(self, invocations: Sequence[Invocation], *, in_full: bool) -> list[ScriptReply]:
        pipe: Any
        with self.client.pipeline(transaction=False) as pipe:
            for one in invocations:
                words, options = command(one, in_full=in_full)
                pipe.execute_command(*words, **options)
            return [reply(answer) for answer in pipe.execute()]

    def run_on_all_shards(
        self, invocations: Sequence[Invocation]
    ) -> list[ScriptReply | StoreError]:
        """As `run_all`; but what a node of a cluster could not do is a StoreError in its place, and
        stops no other node.

        Raises StoreUnavailable where there is one server, and where no script could be run at all.
        """
        client = self.client
        if not isinstance(client, Cluster):
            return list(self.run_all(invocations))
        with translated(self.where):
            answers = client.exchange([command(one) for one in invocations], settle_s=SETTLE_MANY_S)
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            # These alone: other nodes have run theirs, and what a sweep is given it is given once.
            in_full = [command(invocations[n], in_full=True) for n in unknown]
            again = client.exchange(in_full, settle_s=SETTLE_MANY_S) if unknown else []
            for n, answer in zip(unknown, again, strict=True):
                answers[n] = answer
        ours = [self._outcome(answer) for answer in answers]
        failures = [one for one in ours if isinstance(one, StoreError)]
        if failures and len(failures) == len(ours):
            raise failures[0]
        return ours

    def _outcome(self, answer: Any) -> ScriptReply | StoreError:
        if not isinstance(answer, Exception):
            return reply(answer)
        try:
            with translated(self.where):
                raise answer
        except StoreError as error:
            return error
