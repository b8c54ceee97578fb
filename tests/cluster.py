"""A Redis Cluster for tests: three masters, each with a replica, as real servers on loopback."""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from redis.crc import key_slot

from callflow.lab.embedded_server import EmbeddedServer, find_server_binary
from callflow.store.keys import call_keys
from tests.waiting import wait_until

MASTERS = 3

SLOTS = 16_384
"""In https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/."""

TLS = 2
_TLS_ALONE = ("tls-cluster yes", "tls-replication yes")
"""Nodes tell their TLS ports to others only where they speak it among themselves."""

# Below the range from which Linux and macOS choose the ports of outgoing connections.
_PORTS = range(20_000, 32_000, 3)
"""Each with its next two: nodes speak to each other at one, and by TLS at the other."""


@dataclass
class TestCluster:
    """`servers`: three masters, then the replica of each, as they were when they started."""

    __test__ = False

    servers: list[EmbeddedServer]

    @property
    def url(self) -> str:
        """Names two of the nodes: one may be dead when a process starts."""
        return self._url("redis+cluster", 0)

    @property
    def tls_url(self) -> str:
        """The same by TLS."""
        return self._url("rediss+cluster", TLS)

    def _url(self, scheme: str, further: int) -> str:
        hosts = ",".join(f"127.0.0.1:{server.port + further}" for server in self.servers[:2])
        return f"{scheme}://:{self.servers[0].password}@{hosts}"

    def node(self, number: int) -> redis.Redis:
        """A client for one server alone."""
        return redis.Redis.from_url(self.servers[number].url, decode_responses=True)

    def node_id(self, number: int) -> str:
        """The name by which the others know it."""
        with self.node(number) as client:
            return _ask(client, "CLUSTER", "MYID")

    def owner(self, slot: int) -> int:
        """The number of the server that answers for a slot, by what a living node says."""
        return self._owner(slot, self._living()[0])

    def masters(self) -> list[int]:
        """The numbers of the servers that hold slots, by what a living node says."""
        told = self._slots(self._living()[0])
        return sorted({self._number(port) for _, _, (_, port, *_), *_ in told})

    def _owner(self, slot: int, by: int) -> int:
        for first, last, (_, port, *_), *_ in self._slots(by):
            if first <= slot <= last:
                return self._number(port)
        raise AssertionError(f"nobody holds slot {slot}")

    def _all_know(self, slot: int, owner: int) -> bool:
        return all(self._owner(slot, by) == owner for by in self._living())

    def _living(self) -> list[int]:
        return [number for number, server in enumerate(self.servers) if server.alive]

    def _slots(self, by: int) -> list[tuple[int, int, tuple[str, int]]]:
        with self.node(by) as client:
            found: list[tuple[int, int, tuple[str, int]]] = client.execute_command(
                "CLUSTER", "SLOTS"
            )
            return found

    def _number(self, port: int) -> int:
        return [server.port for server in self.servers].index(port)

    def move_slot(self, slot: int, to: int) -> None:
        """Hand a slot over key by key, as redis-cli and ElastiCache do; calls go on meanwhile."""
        with self.moving(slot, to):
            """All of it is moved in the end."""

    @contextmanager
    def moving(self, slot: int, to: int) -> Iterator[Callable[..., None]]:
        """A slot on its way: what is called with keys moves them, the end of the block the rest."""
        source = self.owner(slot)
        with self.node(source) as giver, self.node(to) as taker:
            here, there = self.node_id(source), self.node_id(to)
            _ask(taker, "CLUSTER", "SETSLOT", slot, "IMPORTING", here)
            _ask(giver, "CLUSTER", "SETSLOT", slot, "MIGRATING", there)
            server = self.servers[to]

            def move(*keys: str) -> None:
                target = ("127.0.0.1", server.port, "", 0, 5000, "AUTH", server.password)
                _ask(giver, "MIGRATE", *target, "KEYS", *keys)

            try:
                yield move
            finally:
                while keys := _listed(giver, "CLUSTER", "GETKEYSINSLOT", slot, 10):
                    move(*keys)
                for client in (taker, giver):
                    _ask(client, "CLUSTER", "SETSLOT", slot, "NODE", there)
                wait_until(lambda: self._all_know(slot, to), f"not all know of slot {slot}")

    def move_at_once(self, slot: int, to: int) -> None:
        """Hand a slot over as a whole (Valkey 9); returns when all know that."""
        there = self.node_id(to)
        with self.node(self.owner(slot)) as giver:
            _ask(giver, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", there)
        wait_until(lambda: self._all_know(slot, to), f"slot {slot} never moved")

    def subscribers(self, number: int, channel: str) -> int:
        """How many listen to a channel at one server; 0 where that does not answer."""
        url = self.servers[number].url
        with redis.Redis.from_url(url, socket_timeout=0.2, decode_responses=True) as client:
            try:
                return int(client.pubsub_numsub(channel)[0][1])
            except redis.TimeoutError:
                return 0

    def wait_for_replicas(self) -> None:
        """Wait until all that was written is on every replica."""
        wait_until(lambda: all(map(self._replicated, self.masters())), "a replica is behind")

    def owner_of(self, call_sid: str) -> int:
        """The number of the server that has a call."""
        return self.owner(slot_of_call(call_sid))

    def _replicated(self, number: int) -> bool:
        """WAIT would not do: it asks about what its own connection has written."""
        with self.node(number) as client:
            told = client.info("replication")
        replicas = [one for name, one in told.items() if re.fullmatch(r"slave\d+", name)]
        return any(one["offset"] >= told["master_repl_offset"] for one in replicas)

    def settled(self) -> bool:
        """True when every living node knows a master for every slot, and no failed one."""
        for server in self.servers:
            if server.alive:
                with redis.Redis.from_url(server.url, decode_responses=True) as client:
                    info = str(client.execute_command("CLUSTER", "INFO"))
                if "cluster_state:ok" not in info or "slots_fail:0" not in info:
                    return False
        return True

    def flush(self) -> None:
        """Forget everything that is stored."""
        for number in self.masters():
            with self.node(number) as client:
                client.flushall()


def slot_of_call(call_sid: str) -> int:
    """Where all of a call is."""
    return key_slot(call_keys(call_sid).call.encode())


@contextmanager
def cluster(
    *,
    node_timeout_ms: int = 2_000,
    options: Sequence[str] = (),
    binary: Path | None = None,
    tls: Sequence[str] = (),
) -> Iterator[TestCluster]:
    """Six servers, ready for commands; they end with the block. `tls`: how they speak it, two
    ports further on."""
    password = secrets.token_hex(16)
    with ExitStack() as running:
        servers = [
            running.enter_context(
                EmbeddedServer.start(
                    binary=binary or find_server_binary(),
                    port=port,
                    password=password,
                    options=(
                        "cluster-enabled yes",
                        f"cluster-port {port + 1}",
                        f"cluster-node-timeout {node_timeout_ms}",
                        "cluster-require-full-coverage no",
                        "cluster-allow-replica-migration no",
                        "repl-diskless-sync-delay 0",
                        *options,
                        *((f"tls-port {port + TLS}", *_TLS_ALONE, *tls) if tls else ()),
                    ),
                )
            )
            for port in _free_ports(2 * MASTERS)
        ]
        built = TestCluster(servers)
        _join(built, TLS if tls else 0)
        yield built


def _ask(client: redis.Redis, *command: str | int) -> str:
    return str(client.execute_command(*command))  # type: ignore[no-untyped-call]


def _listed(client: redis.Redis, *command: str | int) -> list[str]:
    return list(client.execute_command(*command))  # type: ignore[no-untyped-call]


def _join(built: TestCluster, further: int) -> None:
    clients = [built.node(number) for number in range(2 * MASTERS)]
    for number, client in enumerate(clients):
        if number < MASTERS:
            bounds = [SLOTS * number // MASTERS, SLOTS * (number + 1) // MASTERS - 1]
            _ask(client, "CLUSTER ADDSLOTSRANGE", *bounds)
        if number:
            port = built.servers[0].port
            _ask(client, "CLUSTER", "MEET", "127.0.0.1", port + further, port + 1)
    wait_until(
        lambda: all(_knows_all(client) for client in clients), "the nodes did not meet", within_s=20
    )
    for number in range(MASTERS, 2 * MASTERS):
        _ask(clients[number], "CLUSTER REPLICATE", built.node_id(number - MASTERS))
    wait_until(
        lambda: built.settled() and all(_has_replica(one) for one in clients[:MASTERS]),
        "the cluster did not settle",
        within_s=20,
    )
    for client in clients:
        client.close()


def _knows_all(client: redis.Redis) -> bool:
    lines = _ask(client, "CLUSTER", "INFO")
    return f"cluster_known_nodes:{2 * MASTERS}" in lines


def _has_replica(client: redis.Redis) -> bool:
    told = client.info("replication")
    return any(told.get(f"slave{n}", {}).get("state") == "online" for n in range(2))


def _free_ports(count: int) -> list[int]:
    """Ports that are free, and whose next two are too."""
    found: list[int] = []
    while len(found) < count:
        port = secrets.choice(_PORTS)
        if port not in found and all(_free(port + more) for more in (0, 1, TLS)):
            found.append(port)
    return found


def _free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
