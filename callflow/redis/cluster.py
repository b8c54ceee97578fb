"""A Redis Cluster behind the same calls as one server: each command goes to the node of its slot.

It is a client like redis-py's own for one server, so stores, lists and journals need not know which
of the two they have. What differs is told by `nodes`: whoever asks about servers and not about keys
asks each of them.

redis-py's cluster client is not used: it connects as soon as it is built, asks for commands that a
least-privilege user need not have, and takes every connection from a pool (see `Scripts`).
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.crc import key_slot
from redis.exceptions import AskError, MovedError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from callflow.redis.link import LOST, Asked
from callflow.redis.slots import (
    BRIEFLY_S,
    LONGEST_PAUSE_S,
    PAUSE_S,
    REDIRECTS_AT_ONCE,
    SETTLE_S,
    TRIES,
    UNDER_WAY,
    Address,
    Command,
    SlotMap,
    connection_class,
    given_up,
    parse,
    redirected,
)

MAP_AGE_S = 2.0
"""Who keeps something open at a node looks so often whether it is still a master. Well below the
time for which an absent subscription proves nothing after a failover."""


_OURS = {
    # Trying again is ours: elsewhere, and not at the node that is gone.
    "retry": Retry(NoBackoff(), 0),
    # The first thing that is asked tells whether it is healthy, as a PING would.
    "health_check_interval": 0,
}


class Cluster(redis.Redis):
    """A client that connects on first use; threads may share it, forked children inherit it.

    `url` as `slots.parse` takes it, `options` as redis-py takes them. Raises ValueError.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        named, self._seeds = parse(url)
        self._options = {**options, **named, "connection_class": connection_class(url)}
        first = self._seeds[0]._asdict()
        super().__init__(connection_pool=redis.ConnectionPool(**self._options, **first))
        self._map: SlotMap | None = None
        self._map_at = 0.0
        self._told_by = self._seeds[0]
        self._mine = threading.local()
        self._clients: dict[Address, redis.Redis] = {}

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command at the node that holds its key, or at any one when it has none."""
        (reply,) = self.ask_all([(args, options)])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Pipeline:
        """Commands that are sent at once: one request for each node that has a part in them.

        Each runs by itself (`transaction` must be False). One without a key goes where the one
        before it goes.
        """
        if transaction:
            raise ValueError("a pipeline over several nodes is no transaction")
        return _ClusterPipeline(self)

    def map(self, max_age_s: float = math.inf) -> SlotMap:
        """Who holds which slot, as it was known at most so long ago."""
        known = self._map
        if known is None or time.monotonic() - self._map_at > max_age_s:
            return self._learn()
        return known

    def node(self, address: Address) -> redis.Redis:
        """A client for one node alone, made once."""
        client = self._clients.get(address)
        if client is None:
            pool = redis.ConnectionPool(**{**self._options, **address._asdict()})
            client = self._clients[address] = redis.Redis(connection_pool=pool)
        return client

    def close(self) -> None:
        """Close every connection that this thread has; closing twice does nothing."""
        for connection in self._connections().values():
            connection.disconnect()
        for client in self._clients.values():
            client.connection_pool.disconnect()
        super().close()

    def ask_all(self, asked: Sequence[Asked], *, settle_s: float = SETTLE_S) -> list[Any]:
        """One answer for each command, in order; an error is an answer.

        Follows MOVED and ASK. Tries again for `settle_s` where slots move or their node is gone.
        """
        commands: list[Command] = []
        for args, options in asked:
            commands.append(Command(args, options, commands[-1] if commands else None))
        give_up, tries, pause_s = time.monotonic() + settle_s, 0, PAUSE_S
        left = commands
        while True:
            lost = self._exchange(left)
            unsettled = {id(command.leader) for command in left if command.unsettled}
            left = [command for command in left if id(command.leader) in unsettled]
            tries += 1
            if not left or (time.monotonic() > give_up and tries >= TRIES):
                return [given_up(command.reply, settle_s) for command in commands]
            sent_on = all(isinstance(one.reply, AskError) for one in left if one.unsettled)
            if not sent_on or tries > REDIRECTS_AT_ONCE:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            self._redirect(left, lost)

    def _redirect(self, left: Sequence[Command], lost: set[Address]) -> None:
        """Find out where each of `left` goes next."""
        moved_to, unknown = None, False
        for command in left:
            error, command.asking = command.reply, False
            if not isinstance(error, AskError):
                unknown, command.at = unknown or command.unsettled, None
                continue
            command.at = redirected(error, self._where(command))
            if isinstance(error, MovedError):
                moved_to = command.at
            else:
                command.asking = True
        if moved_to or unknown:
            # Where nobody can be asked, the commands themselves find that out once more.
            with suppress(*LOST):
                self._learn(moved_to, lost)
        for command in left:
            if command.leader.slot is None and command.at is None:
                command.at = next((one for one in self.map().masters if one not in lost), None)

    def _where(self, command: Command) -> Address:
        leader = command.leader
        return leader.at or self.map().owner(leader.slot)

    def _exchange(self, commands: Sequence[Command]) -> set[Address]:
        """Send each to its node, then read all answers; returns the nodes that were lost."""
        shares: dict[Address, list[Command]] = {}
        try:
            for command in commands:
                command.reply = UNDER_WAY
                shares.setdefault(self._where(command), []).append(command)
        except LOST as error:
            for command in commands:
                command.reply = error
            return set()
        lost: set[Address] = set()
        under_way = {address: self._connection(address) for address in shares}
        try:
            for step in (_send, self._read):
                for address, share in shares.items():
                    if address not in lost and not _done(step, under_way[address], share):
                        lost.add(address)
        except BaseException:
            # Whatever ended this (a drained worker's SystemExit): answers that are still on their
            # way must not be taken for the answers to what is asked next.
            for connection in under_way.values():
                connection.disconnect()
            raise
        return lost

    def _read(self, connection: Any, share: Sequence[Command]) -> None:
        for command in share:
            try:
                if command.asking:
                    connection.read_response()
                name = command.args[0]
                command.reply = self.parse_response(  # type: ignore[no-untyped-call]
                    connection, name, **command.options
                )
            except ResponseError as error:
                command.reply = error

    def _learn(self, first: Address | None = None, lost: Collection[Address] = ()) -> SlotMap:
        """Ask a node who holds which slot: `first`, who has told us last, those that are known,
        those that were named; those that were just lost at the end."""
        known = self._map.nodes if self._map else ()
        wanted = dict.fromkeys((first or self._told_by, self._told_by, *known, *self._seeds))
        failure: Exception = RedisConnectionError("no node of the cluster holds a slot")
        for address in sorted(wanted, key=lambda one: one in lost):
            connection = self._connection(address)
            try:
                connection.send_command("CLUSTER", "SLOTS")
                answer = connection.read_response()
            except LOST as error:
                connection.disconnect()
                failure = error
                continue
            if answer:
                found = SlotMap.of(answer, address)
                self._map, self._map_at, self._told_by = found, time.monotonic(), address
                return found
        raise failure

    def _connections(self) -> dict[Address, Any]:
        """This thread's own, by node."""
        mine = self._mine
        # A forked child that inherited them must not read its parent's answers.
        if getattr(mine, "pid", None) != os.getpid():
            mine.pid, mine.connections = os.getpid(), {}
        found: dict[Address, Any] = mine.connections
        return found

    def _connection(self, address: Address) -> Any:
        connections = self._connections()
        if address not in connections:
            pool = self.connection_pool
            kwargs = {**pool.connection_kwargs, **address._asdict(), **_OURS}
            connections[address] = pool.connection_class(**kwargs)
        return connections[address]


_Step = Callable[[Any, Sequence[Command]], None]


def _done(step: _Step, connection: Any, share: Sequence[Command]) -> bool:
    """Take one step with one node; False when it was lost, with what it has not answered."""
    try:
        step(connection, share)
    except LOST as error:
        connection.disconnect()
        for command in share:
            if command.reply is UNDER_WAY:
                command.reply = error
        return False
    return True


def _send(connection: Any, share: Sequence[Command]) -> None:
    commands = [
        one
        for command in share
        for one in ((("ASKING",), command.args) if command.asking else (command.args,))
    ]
    connection.send_packed_command(connection.pack_commands(commands))


class _ClusterPipeline(Pipeline):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.connection_pool, cluster.response_callbacks, False, None)
        self._cluster = cluster

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run what was collected; the first error is raised, after all others have run."""
        commands = list(self.command_stack)
        self.reset()
        replies = self._cluster.ask_all(commands, settle_s=BRIEFLY_S)
        for reply in replies if raise_on_error else ():
            if isinstance(reply, Exception):
                raise reply
        return replies


def nodes(client: redis.Redis) -> list[redis.Redis]:
    """The servers behind `client`: itself, or one client for each master of a cluster."""
    if isinstance(client, Cluster):
        return [client.node(address) for address in client.map(MAP_AGE_S).masters]
    return [client]


def home(client: redis.Redis, name: str) -> redis.Redis:
    """The server that a channel of this name is at home at; another one after its slot has moved
    or its master was replaced. It is looked for again every `MAP_AGE_S`."""
    if isinstance(client, Cluster):
        return client.node(client.map(MAP_AGE_S).owner(key_slot(name.encode())))
    return client
