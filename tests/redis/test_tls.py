"""Servers that are spoken to by TLS, with a user and a password, by nothing but their address."""

from __future__ import annotations

import asyncio
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kombu.connection import Connection

from callflow.errors import StoreUnavailable
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.replies import Replies
from tests.acl import PASSWORD, grant
from tests.cluster import _PORTS, cluster
from tests.needs import missing
from tests.parts import SID, Parts
from tests.servers import binary_of


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate that has signed itself, and its key."""
    if shutil.which("openssl") is None:
        missing("openssl", "apt-get install openssl")
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-nodes", "-days", "2", "-subj", "/CN=callflow test"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")),
        ],
        check=True,
        capture_output=True,
    )
    return folder


def _options(certificate: Path) -> tuple[str, ...]:
    return (
        f"tls-cert-file {certificate / 'cert.pem'}",
        f"tls-key-file {certificate / 'key.pem'}",
        f"tls-ca-cert-file {certificate / 'cert.pem'}",
        "tls-auth-clients no",
    )


@pytest.fixture(scope="module")
def server(certificate: Path) -> Iterator[tuple[EmbeddedServer, int]]:
    """A server that knows callflow's users, and where it speaks TLS. Valkey's own wheel cannot."""
    port = _PORTS[0] - 1
    options = (f"tls-port {port}", *_options(certificate))
    with EmbeddedServer.start(binary=binary_of("redis7"), options=options) as running:
        grant(running)
        yield running, port


def test_a_call_is_held_and_its_reply_is_heard_by_tls_as_an_acl_user(
    server: tuple[EmbeddedServer, int], certificate: Path
) -> None:
    url = f"rediss://callflow:{PASSWORD}@127.0.0.1:{server[1]}/0"
    _one_turn(f"{url}?ssl_ca_certs={certificate / 'cert.pem'}")
    with connect(url) as client, pytest.raises(StoreUnavailable, match="certificate verify failed"):
        Parts(client).store.open(SID)


def test_the_broker_takes_the_same_words_in_its_address(
    server: tuple[EmbeddedServer, int], certificate: Path
) -> None:
    url = f"rediss://callflow-broker:{PASSWORD}@127.0.0.1:{server[1]}/0"
    address = f"{url}?ssl_ca_certs={certificate / 'cert.pem'}"
    with Connection(address) as broker:  # type: ignore[no-untyped-call]
        channel = broker.default_channel
        assert channel.client.lpush("turns", "x") == 1
        assert channel.client.delete("turns") == 1


@pytest.mark.chaos
def test_a_cluster_is_spoken_to_by_tls_at_every_node(certificate: Path) -> None:
    with cluster(binary=binary_of("redis7"), tls=_options(certificate)) as running:
        _one_turn(f"{running.tls_url}?ssl_ca_certs={certificate / 'cert.pem'}")
        with connect(running.tls_url) as client:
            with pytest.raises(StoreUnavailable, match="certificate verify failed"):
                Parts(client).store.open(SID)


def _one_turn(url: str) -> None:
    with connect(url) as client:
        parts = Parts(client)

        async def story() -> None:
            async with Replies.listening(url) as replies:
                for number in range(12):
                    sid = f"CA{number}"
                    parts.store.open(sid)
                    parts.store.record_utterance(sid, 1, "stuck")
                    claimed = parts.store.claim(sid, "w@test/1-aa", "claim")
                    assert not isinstance(claimed, str)
                    with replies.expect(sid, 1) as expected:
                        parts.store.commit(claimed.lease, 1, "Hello.")
                        reply = await expected.wait(5)
                    assert reply is not None
                    assert reply.text == "Hello."
                    assert (await replies.status(sid)).answered == 1

        asyncio.run(story())
        assert len(parts.reader.active()) == 12
        parts.close()


class _Answers(socketserver.StreamRequestHandler):
    """Says PONG to whatever it is asked, and nothing before."""

    def handle(self) -> None:
        for line in self.rfile:
            if line == b"PING\r\n":
                self.wfile.write(b"+PONG\r\n")


class _TlsServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    context: ssl.SSLContext

    def get_request(self) -> tuple[socket.socket, Any]:
        plain, address = super().get_request()
        return self.context.wrap_socket(plain, server_side=True), address


def test_session_tickets_are_no_answer_where_nothing_is_said_at_first(certificate: Path) -> None:
    """redis/redis-py#1197, celery/celery#5371: without a password and in database 0 one new client
    in five could not connect, since TLS 1.3 sends tickets of its own accord."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    with _TlsServer(("127.0.0.1", 0), _Answers) as server:
        server.context = context
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"rediss://127.0.0.1:{server.server_address[1]}/0"
        for _ in range(40):
            with connect(f"{url}?ssl_ca_certs={certificate / 'cert.pem'}") as client:
                assert client.ping()
        server.shutdown()
