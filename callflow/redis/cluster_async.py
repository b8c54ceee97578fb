"""What `cluster.Cluster` is to threads, for an event loop: as much as readers of one call need.

A pipeline here is about one call, so it goes to one node whole; and it only reads, so it may be
asked again as a whole.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import redis.asyncio
from redis.asyncio.client import Pipeline, PubSub
from redis.asyncio.connection import SSLConnection
from redis.exceptions import AskError, MovedError
from redis.exceptions import ConnectionError as RedisConnectionError

from callflow.redis.link import LOST, Asked
from callflow.redis.slots import (
    LONGEST_PAUSE_S,
    PAUSE_S,
    SETTLE_S,
    TRIES,
    Address,
    Command,
    SlotMap,
    given_up,
    parse,
    redirected,
)


class AsyncCluster(redis.asyncio.Redis):
    """A client that connects on first use. `url` as `slots.parse` takes it, `options` as redis-py
    takes them. Raises ValueError."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        named, self._seeds = parse(url)
        self._options = {**options, **named, **_connection_class(url)}
        first = redis.asyncio.ConnectionPool(**self._options, **self._seeds[0]._asdict())
        super().__init__(connection_pool=first)
        self._map: SlotMap | None = None
        self._clients: dict[Address, redis.asyncio.Redis] = {}
        self._turn = itertools.count()

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        """Reads of one call. `transaction` must be False."""
        if transaction:
            raise ValueError("reads of a call are no transaction")
        return _CallPipeline(self)

    def pubsub(self, **options: Any) -> PubSub:
        """A subscription at one node, each time at the next one: what is published anywhere in
        the cluster is heard everywhere."""
        known = self._map.masters if self._map else self._seeds
        return self._node(known[next(self._turn) % len(known)]).pubsub(**options)

    async def aclose(self, close_connection_pool: bool | None = None) -> None:
        """Close every connection; closing twice does nothing."""
        for client in self._clients.values():
            await client.connection_pool.disconnect()
        await super().aclose(close_connection_pool)

    async def read(self, asked: Sequence[Asked]) -> list[Any]:
        """One answer for each command about one call, in order. The first error is raised."""
        commands = [Command(args, dict(options), None) for args, options in asked]
        give_up, tries, pause_s = time.monotonic() + SETTLE_S, 0, PAUSE_S
        left = commands
        while True:
            tries += 1
            await self._exchange(left)
            left = [command for command in left if command.unsettled]
            if not left or (time.monotonic() > give_up and tries >= TRIES):
                break
            if not all(command.asking for command in left):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                # Where nobody can be asked, the next try finds that out once more.
                with suppress(*LOST):
                    await self._learn(left[0])
        for command in commands:
            if isinstance(command.reply, Exception):
                raise given_up(command.reply)
        return [command.reply for command in commands]

    async def _exchange(self, commands: Sequence[Command]) -> None:
        """Ask for each where it is, or where its node has sent us on to."""
        shares: dict[Address, list[Command]] = {}
        known = self._map or await self._learn()
        for command in commands:
            shares.setdefault(command.at or known.owner(command.slot), []).append(command)
        for at, share in shares.items():
            try:
                await self._ask(at, share)
            except LOST as error:
                for command in share:
                    command.reply = error
            for command in share:
                moved = isinstance(command.reply, MovedError)
                command.asking = isinstance(command.reply, AskError) and not moved
                command.at = redirected(command.reply, at) if command.asking else None

    async def _ask(self, at: Address, share: Sequence[Command]) -> None:
        async with self._node(at).pipeline(transaction=False) as pipe:
            for command in share:
                if command.asking:
                    pipe.execute_command("ASKING")
                pipe.execute_command(*command.args, **command.options)
            replies = iter(await pipe.execute(raise_on_error=False))
        for command in share:
            if command.asking:
                next(replies)
            command.reply = next(replies)

    async def _learn(self, unsettled: Command | None = None) -> SlotMap:
        """Ask a node who holds which slot; the one that could not answer at the end."""
        known = self._map.nodes if self._map else ()
        lost = self._map.owner(unsettled.slot) if self._map and unsettled else None
        wanted = dict.fromkeys((*known, *self._seeds))
        failure: Exception = RedisConnectionError("no node of the cluster holds a slot")
        for address in sorted(wanted, key=lambda one: one == lost):
            try:
                node = self._node(address)
                answer = await node.execute_command("CLUSTER", "SLOTS")  # type: ignore[no-untyped-call]
            except LOST as error:
                failure = error
                continue
            if answer:
                self._map = SlotMap.of(answer, address)
                return self._map
        raise failure

    def _node(self, address: Address) -> redis.asyncio.Redis:
        client = self._clients.get(address)
        if client is None:
            pool = redis.asyncio.ConnectionPool(**self._options, **address._asdict())
            client = self._clients[address] = redis.asyncio.Redis(connection_pool=pool)
        return client


def _connection_class(url: str) -> dict[str, Any]:
    return {"connection_class": SSLConnection} if url.startswith("rediss") else {}


class _CallPipeline(Pipeline):
    def __init__(self, cluster: AsyncCluster) -> None:
        super().__init__(cluster.connection_pool, cluster.response_callbacks, False, None)
        self._cluster = cluster

    async def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Read what was asked for."""
        commands: Any = list(self.command_stack)
        await self.reset()  # type: ignore[no-untyped-call]
        return await self._cluster.read(commands)
