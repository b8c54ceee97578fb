"""A primary and its replica behind one endpoint, as a managed service gives them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import Client, connect
from tests.waiting import wait_until

OPTIONS = ("repl-diskless-sync-delay 0", "repl-backlog-size 16mb")


@dataclass
class Pair:
    """Two servers and what leads to the one that is the primary."""

    primary: EmbeddedServer
    replica: EmbeddedServer
    endpoint: Endpoint
    _clients: dict[int, Client] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The one address that clients know."""
        return f"redis://:{self.primary.password}@127.0.0.1:{self.endpoint.port}/0"

    @property
    def client(self) -> Client:
        """A test's own way to the primary, past the endpoint."""
        return self.client_of(self.primary)

    def client_of(self, server: EmbeddedServer) -> Client:
        """A test's own way to either of them."""
        if server.port not in self._clients:
            self._clients[server.port] = connect(server.url)
        return self._clients[server.port]

    def wait_until_in_step(self) -> None:
        """The replica has all that the primary has."""
        wait_until(self._in_step, "the replica in step")

    def cut_off_replica(self) -> None:
        """From now on the primary's writes are its own."""
        self.client_of(self.replica).replicaof("NO", "ONE")

    def promote(self) -> None:
        """The replica becomes the primary. Clients are led nowhere yet."""
        self.cut_off_replica()
        self.primary, self.replica = self.replica, self.primary

    def lead_clients(self, *, keep_open: bool = False) -> None:
        """The endpoint leads to the primary. `keep_open`: what is connected stays where it is."""
        self.endpoint.point_at(self.primary.port, keep_open=keep_open)

    def fail_over(self) -> None:
        """The primary dies, and the replica is promoted with what it has."""
        self.primary.kill()
        self.promote()
        self.lead_clients()

    def follow(self) -> None:
        """The other one becomes the primary's replica, though it be dead or alive."""
        if not self.replica.alive:
            self.replica.restart()
        self.client_of(self.replica).replicaof("127.0.0.1", self.primary.port)

    def _in_step(self) -> bool:
        ahead = self.client.info("replication")
        behind = self.client_of(self.replica).info("replication")
        up = behind.get("master_link_status") == "up"
        return up and bool(behind["slave_repl_offset"] == ahead["master_repl_offset"])


def freeze(server: EmbeddedServer) -> None:
    """Stop it where it stands; its connections stay open."""
    os.kill(server.pid, signal.SIGSTOP)


def thaw(server: EmbeddedServer) -> None:
    """Let it go on; one that is not frozen is left as it is."""
    if server.alive:
        os.kill(server.pid, signal.SIGCONT)


@contextmanager
def pair_of_servers() -> Iterator[Pair]:
    """In step, until the block ends."""
    with (
        EmbeddedServer.start(options=OPTIONS) as primary,
        EmbeddedServer.start(
            password=primary.password,
            options=(*OPTIONS, f"replicaof 127.0.0.1 {primary.port}"),
        ) as replica,
        Endpoint.start(primary.port) as endpoint,
    ):
        pair = Pair(primary, replica, endpoint)
        try:
            pair.wait_until_in_step()
            yield pair
        finally:
            # A frozen one does not obey its guardian when it is to end.
            thaw(primary)
            thaw(replica)
            for client in pair._clients.values():
                client.close()
