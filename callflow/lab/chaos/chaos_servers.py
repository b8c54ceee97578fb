"""Runs the servers of chaos: the calls on a primary with a replica, the broker on one of its own.

Clients know two addresses, an endpoint for each, and are never told of what stands behind them.
The run itself speaks with the servers directly. Every method waits, for up to seconds.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

from callflow.errors import CallflowError
from callflow.lab.chaos.network_proxy import HOST, Endpoint
from callflow.lab.embedded_server import EmbeddedServer, find_server_binary
from callflow.redis.client import Client, connect, translated

IN_STEP_S: Final = 10.0
"""A replica of a few megabytes has them in a blink; the machine may be busy."""

WRITES_HELD_MS: Final = 8_000

_LOOK_AGAIN_S: Final = 0.01

_OPTIONS: Final = (
    # A replica that joins again is not made to wait for others that might want the same.
    "repl-diskless-sync-delay 0",
    "repl-backlog-size 16mb",
)


AnyPair = TypeVar("AnyPair", bound="ServerPair")


class ServersFailed(CallflowError):
    """The servers of a run did not do what a strike needs; it says nothing about callflow."""

    def __init__(self, what: str, within_s: float) -> None:
        super().__init__(f"after {within_s:g} s still not: {what}; try again on a quieter machine")


@dataclass
class ServerPair:
    """A primary with a replica behind one endpoint, as a managed service gives them."""

    primary: EmbeddedServer
    replica: EmbeddedServer
    endpoint: Endpoint
    _clients: dict[int, Client] = field(default_factory=dict, kw_only=True)

    @property
    def url(self) -> str:
        """The one address that clients know."""
        return self._url_by(self.endpoint)

    def _url_by(self, endpoint: Endpoint) -> str:
        return f"redis://:{self.primary.password}@{HOST}:{endpoint.port}/0"

    @property
    def client(self) -> Client:
        """A way of one's own to the primary, past the endpoint."""
        return self.client_of(self.primary)

    def client_of(self, server: EmbeddedServer) -> Client:
        """A way of one's own to any of them."""
        if server.port not in self._clients:
            self._clients[server.port] = connect(server.url)
        return self._clients[server.port]

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def wait_until_in_step(self) -> None:
        """Return once the replica has all that the primary has. Raises ServersFailed."""
        _wait(self._in_step, "the replica is in step")

    @contextmanager
    def writes_held(self) -> Iterator[None]:
        """Nothing is written to the primary meanwhile, and the replica has all there is. It may be
        killed, and lose its role."""
        server, client = self.primary, self.client
        with translated("primary"):
            client.client_pause(WRITES_HELD_MS, all=False)
        self.wait_until_in_step()
        yield
        if server.alive:
            with translated("primary"):
                client.client_unpause()

    def cut_off_replica(self) -> None:
        """From now on the primary's writes are its own."""
        with translated("replica"):
            self.client_of(self.replica).replicaof("NO", "ONE")

    def promote(self) -> None:
        """The replica becomes the primary. Clients are led nowhere yet: see `lead_clients`."""
        self.cut_off_replica()
        self.primary, self.replica = self.replica, self.primary

    def lead_clients(self, *, keep_open: bool = False) -> None:
        """The endpoint leads to the primary. `keep_open`: what is connected stays where it is."""
        self.endpoint.point_at(self.primary.port, keep_open=keep_open)

    def follow(self) -> None:
        """The server that is not the primary becomes its replica, though it be dead or alive."""
        if not self.replica.alive:
            self.replica.restart()
        with translated("replica"):
            self.client_of(self.replica).replicaof(HOST, self.primary.port)

    def fail_over(self) -> None:
        """The primary dies, and the replica is promoted with what it has."""
        self.primary.kill()
        self.promote()
        self.lead_clients()

    def _in_step(self) -> bool:
        with translated("primary"):
            ahead = self.client.info("replication")
        with translated("replica"):
            behind = self.client_of(self.replica).info("replication")
        up = behind.get("master_link_status") == "up" and behind["role"] == "slave"
        # Asked second, it may have more by now: writes go on, unless they are held.
        return bool(up and behind["slave_repl_offset"] >= ahead["master_repl_offset"])


@dataclass
class Servers(ServerPair):
    """The servers of a run: the calls on a pair, the broker on one of its own.

    `ways`: for each worker the first piece of its way to the calls: what happens there, happens to
    it alone. It leads to the endpoint that all have.
    """

    broker: EmbeddedServer
    broker_endpoint: Endpoint
    ways: Mapping[str, Endpoint]

    @property
    def scratch(self) -> Path:
        """A directory that goes with the servers, however the run ends."""
        return self.broker.data_dir

    def url_of(self, worker: str) -> str:
        """Where the calls are by a worker's own way."""
        return self._url_by(self.ways[worker])

    @property
    def broker_url(self) -> str:
        """Where the messages are, as clients know it."""
        return f"redis://:{self.broker.password}@{HOST}:{self.broker_endpoint.port}/0"

    def fill_disk(self) -> None:
        """The primary's files can grow no more, as on a full disk. The replica's can."""
        self._let_grow(0)

    def empty_disk(self) -> None:
        """There is room again, and the primary has noticed. Raises ServersFailed."""
        self._let_grow(resource.RLIM_INFINITY)
        _wait(self._writes_its_file, "the server writes its append-only file again")

    def _let_grow(self, file_bytes: int) -> None:
        limits = (file_bytes, resource.RLIM_INFINITY)
        resource.prlimit(self.primary.pid, resource.RLIMIT_FSIZE, limits)

    def _writes_its_file(self) -> bool:
        with translated("primary"):
            return bool(self.client.info("persistence")["aof_last_write_status"] == "ok")

    def drop_clients(self, server: EmbeddedServer) -> None:
        """The server ends every connection but this one and its replica's."""
        client = self.client_of(server)
        with translated("server"):
            for kind in ("normal", "pubsub"):
                client.client_kill_filter(_type=kind, skipme=True)


def freeze(server: EmbeddedServer) -> None:
    """Stop it where it stands; its connections stay open."""
    os.kill(server.pid, signal.SIGSTOP)


def thaw(server: EmbeddedServer) -> None:
    """Let it go on. One that is not frozen is left as it is."""
    with contextlib.suppress(ProcessLookupError):  # It was killed, or has ended with its owner.
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def server_pair() -> Iterator[ServerPair]:
    """A pair in step, until the block ends."""
    with ExitStack() as stack:
        yield _bring_in_step(stack, ServerPair(*_start_pair(stack, find_server_binary())))


@contextmanager
def running_servers(workers: Sequence[str] = ()) -> Iterator[Servers]:
    """Servers and endpoints, in step, until the block ends. `workers`: who gets an own way."""
    with ExitStack() as stack:
        broker = stack.enter_context(EmbeddedServer.start(options=_OPTIONS))
        stack.callback(thaw, broker)
        binary = _that_survives_a_full_disk(broker.data_dir)
        primary, replica, endpoint = _start_pair(stack, binary)
        broker_endpoint = stack.enter_context(Endpoint.start(broker.port))
        ways = {name: stack.enter_context(Endpoint.start(endpoint.port)) for name in workers}
        servers = Servers(primary, replica, endpoint, broker, broker_endpoint, ways)
        yield _bring_in_step(stack, servers)


def _start_pair(stack: ExitStack, binary: Path) -> tuple[EmbeddedServer, EmbeddedServer, Endpoint]:
    primary = stack.enter_context(EmbeddedServer.start(binary=binary, options=_OPTIONS))
    replica = stack.enter_context(
        EmbeddedServer.start(binary=binary, password=primary.password, options=_OPTIONS)
    )
    endpoint = stack.enter_context(Endpoint.start(primary.port))
    # A frozen one does not obey its guardian when it is to end.
    stack.callback(thaw, primary)
    stack.callback(thaw, replica)
    return primary, replica, endpoint


def _bring_in_step(stack: ExitStack, pair: AnyPair) -> AnyPair:
    stack.callback(pair.close)
    # Told and not configured: once it is the primary it must still be one after a restart.
    pair.follow()
    pair.wait_until_in_step()
    return pair


def _that_survives_a_full_disk(scratch: Path) -> Path:
    """The server in a shell that ignores the signal by which the kernel tells of a file's limit:
    on a full disk there is none, and the write fails."""
    script = scratch / "server.sh"
    script.write_text(f"#!/bin/sh\ntrap '' XFSZ\nexec '{find_server_binary()}' \"$@\"\n")
    script.chmod(0o700)
    return script


def _wait(condition: Callable[[], bool], what: str, within_s: float = IN_STEP_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            raise ServersFailed(what, within_s)
        time.sleep(_LOOK_AGAIN_S)
