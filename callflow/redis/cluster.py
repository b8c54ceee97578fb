"""A Redis Cluster behind the same calls as one server: each command goes to the node of its slot.

redis-py's `RedisCluster` finds the nodes, knows their slots and connects to them. How commands are
sent is ours where threads ask, because redis-py 8.1 does not hold what a call needs:

- its pipeline gives up as a whole where one node cannot be connected to, and then no other node's
  beats are sent; here what one node cannot do is an error in its place;
- it sends on alone what was redirected: a WAIT after it, which asks about the last write of its own
  connection, or a TIME, which is the clock that stamped a key, would go elsewhere;
- it tries again by number and not by time, and a caller's turn has four seconds;
- it takes each connection from a pool: 31 µs of CPU a script in place of 16 (`ThreadConnection`).

Event loops only read, each time one call; for them its pipeline is tried again as a whole.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import redis
import redis.asyncio
from redis.asyncio.client import PubSub
from redis.asyncio.cluster import ClusterNode as AsyncClusterNode
from redis.asyncio.cluster import ClusterPipeline as AsyncClusterPipeline
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.cluster import ClusterNode, RedisCluster
from redis.crc import key_slot
from redis.exceptions import AskError, AuthenticationError, MovedError, RedisClusterException
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.retry import Retry

from callflow.redis.connection import (
    CONNECTION_ERRORS,
    CONNECTIONS,
    Command,
    ThreadConnection,
    is_read_only,
    is_temporary,
    receive,
    send,
)
from callflow.redis.url import parse_cluster

NODES_AGE_S = 2.0
"""Who keeps something open at a node looks so often whether it is still a master. Well below the
time for which an absent subscription proves nothing after a failover."""

SETTLE_S = 1.5
"""For so long a command is tried again while slots move or a master is being replaced; a caller's
turn has four seconds. What takes longer is as if the server were gone, and is told so."""

SETTLE_MANY_S = 0.3
"""For what is asked about many calls at once, of many nodes: a beat, a sweep, a list. It is asked
again by itself, and the calls of the other nodes cannot wait."""

TRIES = 2
"""A node that answers nothing is waited for twice, whatever time that takes: as one server is."""

PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.1

REDIRECTS_AT_ONCE = 4
"""A command is sent on without a pause so often; then nodes disagree, and need time to agree."""

_KEYLESS = frozenset({"CONFIG", "INFO", "PING", "PUBSUB", "SCRIPT", "TIME", "WAIT"})
"""Commands without a key, as far as callflow gives them; all others have one."""


def _first_key(args: Sequence[Any]) -> str | None:
    name = str(args[0]).partition(" ")[0]
    if name in _KEYLESS:
        return None
    return str(args[3] if name in ("EVAL", "EVALSHA") else args[1])


def _may_settle(error: Any) -> bool:
    """True for what may be over in a moment: a wrong password stays wrong."""
    if not isinstance(error, Exception) or isinstance(error, AuthenticationError):
        return False
    retried = (AskError, *CONNECTION_ERRORS)
    return isinstance(error, retried) or is_temporary(error) or is_read_only(error)


def _given_up(answer: Any, settle_s: float) -> Any:
    """What is not settled in time is as good as not there."""
    if isinstance(answer, AskError) or (isinstance(answer, Exception) and is_temporary(answer)):
        return RedisConnectionError(f"it has not settled in {settle_s} s: {answer}")
    return answer


@contextmanager
def _causes_raised() -> Iterator[None]:
    """Raise what was wrong with the nodes in place of redis-py's summary of it."""
    try:
        yield
    except RedisClusterException as error:
        cause: BaseException = error
        while isinstance(cause, RedisClusterException):
            deeper = cause.__cause__ or cause.__context__
            cause = deeper or RedisConnectionError(str(cause))
        raise cause from None
    except IndexError:
        raise RedisConnectionError("no node of the cluster holds a slot") from None


_node: Any = ClusterNode


class _Topology(RedisCluster):
    """The nodes of a cluster and their slots."""

    def command(self, **_: Any) -> dict[str, dict[str, Any]]:
        """Nothing: where keys stand is known, and no right to ask for COMMAND is needed."""
        return {}

    def __del__(self) -> None:
        """Nothing: in a forked child its lock may be held by a thread that is not there."""


class _Process:
    """What one process knows of a cluster: a forked child begins anew."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.learning = threading.Lock()
        self.topology: Any = None
        self.learned_at = 0.0
        self.connections: dict[str, ThreadConnection] = {}


class _Group:
    """Commands that go to one node, on one connection: one with a key, and those without that
    follow it. What has to be sent again is sent again with all that belongs to it."""

    __slots__ = ("answers", "asking", "commands", "node", "slot")

    def __init__(self, command: Command, key: str | None) -> None:
        self.commands = [command]
        self.slot = None if key is None else key_slot(key.encode())
        self.node: Any = None
        """The one that it was sent on to; None: the owner of its slot."""
        self.asking = False
        self.answers: list[Any] = []

    @property
    def problem(self) -> Any:
        """The first answer that may be another one in a moment; None where all are settled."""
        return next((one for one in self.answers if _may_settle(one)), None)

    @property
    def wire(self) -> list[Command]:
        if not self.asking:
            return self.commands
        return [one for command in self.commands for one in ((("ASKING",), {}), command)]


class Cluster(redis.Redis):
    """A client that connects on first use; threads may share it, forked children inherit it.

    `url` as `parse_cluster` takes it, `options` as redis-py takes them. Raises ValueError.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        scheme, self._seeds, named = parse_cluster(url)
        first = self._seeds[0]._asdict()
        kind = CONNECTIONS[scheme]
        pool = redis.ConnectionPool(**{**options, **named, **first, "connection_class": kind})
        super().__init__(connection_pool=pool)
        given = {n: v for n, v in pool.connection_kwargs.items() if n not in first}

        class Complete(kind):  # type: ignore[misc, valid-type]
            """RedisCluster drops options that it does not know, such as ssl_min_version."""

            def __init__(self, **kwargs: Any) -> None:
                super().__init__(**{**given, **kwargs})

        self._connection_class = Complete
        self._process = _Process()

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Run one command at the node that holds its key, or at any one when it has none."""
        (reply,) = self.exchange([(args, options)])
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

    def close(self) -> None:
        """Close every connection that this thread has; closing twice does nothing."""
        for connection in self._process.connections.values():
            connection.get().disconnect()
        if self._process.topology is not None:
            self._process.topology.close()
        super().close()

    def primaries(self) -> list[redis.Redis]:
        """A client for each master, which is the same one for as long as it is one."""
        topology = self._topology(NODES_AGE_S)
        nodes = sorted(topology.get_primaries(), key=lambda node: node.name)
        return [topology.get_redis_connection(node) for node in nodes]

    def owner(self, name: str) -> redis.Redis:
        """A client for the master to which the slot of `name` belongs."""
        topology = self._topology(NODES_AGE_S)
        node = _owner_of(topology, key_slot(name.encode()))
        client: redis.Redis = topology.get_redis_connection(node)
        return client

    def exchange(self, commands: Sequence[Command], *, settle_s: float = SETTLE_S) -> list[Any]:
        """One answer for each command, in order; an error is an answer.

        Follows MOVED and ASK. Tries again for `settle_s` where slots move or their node is gone.
        """
        groups: list[_Group] = []
        for command in commands:
            key = _first_key(command[0])
            if key is None and groups:
                groups[-1].commands.append(command)
            else:
                groups.append(_Group(command, key))
        give_up, tries, pause_s = time.monotonic() + settle_s, 0, PAUSE_S
        left = groups
        while True:
            lost = self._exchange_once(left)
            left = [group for group in left if group.problem is not None]
            tries += 1
            if not left or (time.monotonic() > give_up and tries >= TRIES):
                return [
                    _given_up(self._parsed(command, answer), settle_s)
                    for group in groups
                    for command, answer in zip(group.commands, group.answers, strict=True)
                ]
            sent_on = all(isinstance(group.problem, AskError) for group in left)
            if not sent_on or tries > REDIRECTS_AT_ONCE:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            # Where nobody can be asked, the commands themselves find that out once more.
            with suppress(*CONNECTION_ERRORS):
                self._redirect(left, lost)

    def _parsed(self, command: Command, answer: Any) -> Any:
        (name, *_), options = command
        callbacks: Any = self.response_callbacks
        callback = callbacks.get(name)
        if callback is None or isinstance(answer, Exception):
            return answer
        return callback(answer, **{key: v for key, v in options.items() if key != "keys"})

    def _exchange_once(self, groups: Sequence[_Group]) -> list[str]:
        """Send each to its node, then read all answers; returns the names of lost nodes."""
        try:
            topology = self._topology()
        except CONNECTION_ERRORS as error:
            for group in groups:
                group.answers = [error] * len(group.commands)
            return []
        shares: dict[str, tuple[Any, list[_Group]]] = {}
        for group in groups:
            node = group.node or _owner_of(topology, group.slot)
            if node.name not in shares:
                shares[node.name] = self._connection(topology, node), []
            shares[node.name][1].append(group)
        lost: dict[str, Exception] = {}
        answers: dict[str, list[Any]] = {name: [] for name in shares}
        steps: tuple[Callable[[Any, list[Command], list[Any]], None], ...] = (_send, _receive)
        try:
            for step in steps:
                for name, (connection, share) in shares.items():
                    wire = [command for group in share for command in group.wire]
                    if name not in lost:
                        try:
                            step(connection, wire, answers[name])
                        except CONNECTION_ERRORS as error:
                            connection.disconnect()
                            lost[name] = error
        except BaseException:
            # Whatever ended this (a drained worker's SystemExit): answers that are still on their
            # way must not be taken for the answers to what is asked next.
            for connection, _ in shares.values():
                connection.disconnect()
            raise
        for name, (connection, share) in shares.items():
            _deal_out(share, answers[name], lost.get(name), connection)
        return list(lost)

    def _redirect(self, left: Sequence[_Group], lost: Sequence[str]) -> None:
        """Find out where each of `left` goes next."""
        topology = self._topology()
        if any(not isinstance(group.problem, AskError) for group in left) or any(
            isinstance(group.problem, MovedError) for group in left
        ):
            self._learn(topology, lost)
        for group in left:
            error, group.node, group.asking = group.problem, None, False
            if isinstance(error, MovedError):
                topology.nodes_manager.move_slot(error)
            elif isinstance(error, AskError):
                found = topology.get_node(error.host, error.port)
                group.node = found or _node(error.host, error.port)
                group.asking = True
            elif group.slot is None:
                nodes = topology.get_primaries()
                group.node = next((one for one in nodes if one.name not in lost), None)

    def _topology(self, max_age_s: float = math.inf) -> Any:
        """The nodes and their slots, as they were at most so long ago."""
        if self._process.pid != os.getpid():
            self._process = _Process()
        process = self._process
        if process.topology is None:
            if not process.learning.acquire(timeout=SETTLE_S):
                raise RedisConnectionError("the nodes of the cluster are still being looked for")
            try:
                if process.topology is None:
                    with _causes_raised():
                        process.topology = self._connect()
                    process.learned_at = time.monotonic()
            finally:
                process.learning.release()
        elif time.monotonic() - process.learned_at > max_age_s:
            self._learn(process.topology)
        return process.topology

    def _connect(self) -> _Topology:
        (host, port), *others = self._seeds
        return _Topology(
            url=f"redis://[{host}]:{port}" if ":" in host else f"redis://{host}:{port}",
            startup_nodes=[_node(*other) for other in others],
            connection_class=self._connection_class,
            require_full_coverage=False,
            protocol=2,
            decode_responses=True,
            retry=Retry(NoBackoff(), 0),
        )

    def _learn(self, topology: Any, lost: Sequence[str] = ()) -> None:
        """Ask all nodes that are known, then those that were named; one thread does, and no other
        waits for it: each node that is frozen costs an answer's time-out."""
        process = self._process
        if process.learning.acquire(blocking=False):
            try:
                with _causes_raised():
                    topology.nodes_manager.initialize(
                        additional_startup_nodes_info=list(self._seeds),
                        # Workers' subscriptions are among the connections to the node asked.
                        disconnect_startup_nodes_pools=False,
                        last_failed_node_name=next(iter(lost), None),
                    )
                process.learned_at = time.monotonic()
            finally:
                process.learning.release()

    def _connection(self, topology: Any, node: Any) -> Any:
        connections = self._process.connections
        if node.name not in connections:
            pool = topology.get_redis_connection(node).connection_pool
            connections[node.name] = ThreadConnection(pool)
        return connections[node.name].get()


def _owner_of(topology: Any, slot: int | None) -> Any:
    """Who holds `slot`; any master for None, and for one that nobody holds: that one says so
    itself, with CLUSTERDOWN."""
    nodes = None if slot is None else topology.nodes_manager.slots_cache.get(slot)
    return nodes[0] if nodes else topology.get_default_node()


def _send(connection: Any, commands: list[Command], _: list[Any]) -> None:
    send(connection, commands)


def _receive(connection: Any, commands: list[Command], answers: list[Any]) -> None:
    receive(connection, len(commands), answers)


def _deal_out(
    share: Sequence[_Group], answers: list[Any], error: Exception | None, connection: Any
) -> None:
    """Give each its answers; those which a lost node has not given are `error`."""
    missing = sum(len(group.wire) for group in share) - len(answers)
    rest = iter([*answers, *[error] * missing])
    for group in share:
        found = [next(rest) for _ in group.wire]
        if group.asking:
            # An ASKING that was refused is the answer: what follows it would be sent on for ever.
            pairs = zip(found[::2], found[1::2], strict=True)
            found = [one if isinstance(one, Exception) else answer for one, answer in pairs]
        group.answers = found
        for answer in group.answers:
            if isinstance(answer, AskError) and not answer.host:
                # A node that does not know its own name leaves it out.
                answer.host = connection.host


class _ClusterPipeline(Pipeline):
    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.connection_pool, cluster.response_callbacks, False, None)
        self._cluster = cluster

    def execute(self, raise_on_error: bool = True) -> list[Any]:
        """Run what was collected; the first error is raised, after all others have run."""
        commands = list(self.command_stack)
        self.reset()
        replies = self._cluster.exchange(commands, settle_s=SETTLE_MANY_S)
        for reply in replies if raise_on_error else ():
            if isinstance(reply, Exception):
                raise reply
        return replies


class AsyncCluster(redis.asyncio.RedisCluster):
    """The same for an event loop: as much as readers of one call need. Raises ValueError."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        scheme, seeds, named = parse_cluster(url)
        super().__init__(
            startup_nodes=[AsyncClusterNode(*seed) for seed in seeds],
            ssl=scheme == "rediss",
            require_full_coverage=False,
            retry=redis.asyncio.retry.Retry(NoBackoff(), 0),
            protocol=2,
            decode_responses=True,
        )
        # RedisCluster does not know all that a connection may be given, such as ssl_password.
        self.connection_kwargs.update({**options, **named})
        nodes = [AsyncClusterNode(*seed, **self.connection_kwargs) for seed in seeds]
        self.nodes_manager.startup_nodes = {node.name: node for node in nodes}
        self.commands_parser: Any = _FirstKeys()
        self.seeds = seeds
        self._turn = itertools.count()
        self._learning = False

    def pipeline(
        self, transaction: Any | None = None, shard_hint: Any | None = None
    ) -> AsyncClusterPipeline:
        """Reads of one call. `transaction` must be False."""
        if transaction:
            raise ValueError("reads of a call are no transaction")
        return _SettlingPipeline(self)  # type: ignore[abstract]

    async def subscription(self) -> PubSub:
        """A subscription at one node, each time at the next one: what is published anywhere in
        the cluster is heard everywhere."""
        with _causes_raised():
            await self.initialize()
        known = self.get_primaries()
        return self.pubsub(node=known[next(self._turn) % len(known)])

    async def settle(self, ask: Callable[[], Awaitable[list[Any]]]) -> list[Any]:
        """The answers to one read, asked for again while slots move or their node is gone."""
        give_up, tries, pause_s = time.monotonic() + SETTLE_S, 0, PAUSE_S
        while True:
            tries += 1
            try:
                with _causes_raised():
                    return await ask()
            except (redis.RedisError, OSError) as error:
                if not _may_settle(error):
                    raise
                if time.monotonic() > give_up and tries >= TRIES:
                    raise _given_up(error, SETTLE_S) from error
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
            if not self._learning:
                self._learning = True
                try:
                    # Where nobody can be asked, the next try finds that out once more.
                    with suppress(*CONNECTION_ERRORS), _causes_raised():
                        seeds: list[tuple[str, int]] = [*self.seeds]
                        await self.nodes_manager.initialize(additional_startup_nodes_info=seeds)
                finally:
                    self._learning = False


class _FirstKeys:
    """Where the key of a command stands, as far as callflow gives them, without asking for it."""

    async def initialize(self, node: Any) -> None:
        """All is known."""

    async def get_keys(self, *args: Any) -> list[str] | None:
        """The first key of a command."""
        key = _first_key(args)
        return None if key is None else [key]


class _SettlingPipeline(AsyncClusterPipeline):
    def __init__(self, cluster: AsyncCluster) -> None:
        super().__init__(cluster)
        self._cluster = cluster
        self._commands: list[Command] = []

    def execute_command(self, *args: Any, **options: Any) -> Any:
        """Collect one command."""
        self._commands.append((args, options))
        return self

    async def execute(
        self, raise_on_error: bool = True, allow_redirections: bool = True
    ) -> list[Any]:
        """Read what was asked for. The first error is raised."""
        commands, self._commands = self._commands, []

        async def ask() -> list[Any]:
            pipe = AsyncClusterPipeline(self._cluster)  # type: ignore[abstract]
            for args, options in commands:
                pipe.execute_command(*args, **dict(options))
            return await pipe.execute()

        return await self._cluster.settle(ask)
