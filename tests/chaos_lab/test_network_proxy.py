"""The endpoint in front of real servers: unchanged what goes through, broken what is meant to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from callflow.lab.chaos.network_proxy import Endpoint, EndpointFailed
from callflow.lab.embedded_server import EmbeddedServer
from tests.waiting import wait_until

SCRIPT = "return redis.call('INCR', KEYS[1])"


@pytest.fixture
def endpoint(embedded: EmbeddedServer) -> Iterator[Endpoint]:
    with Endpoint.start(embedded.port) as endpoint:
        yield endpoint


@pytest.fixture
def client(endpoint: Endpoint, embedded: EmbeddedServer) -> Iterator[redis.Redis]:
    with client_of(endpoint.port, embedded) as client:
        yield client


def client_of(port: int, server: EmbeddedServer, timeout_s: float = 10.0) -> redis.Redis:
    """One that tries once, so that every fault is seen."""
    return redis.Redis(
        port=port,
        password=server.password,
        socket_timeout=timeout_s,
        retry=Retry(NoBackoff(), 0),
    )


def direct(server: EmbeddedServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


def raw(port: int, server: EmbeddedServer) -> socket.socket:
    """A connection of bytes, logged in."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(f"AUTH {server.password}\r\n".encode())
    assert connection.recv(64) == b"+OK\r\n"
    return connection


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except OSError:
        return False
    return True


def test_what_goes_through_is_unchanged(client: redis.Redis) -> None:
    bytes_of_all_kinds = bytes(range(256)) * 40_000 + os.urandom(3_000_000)

    client.set("big", bytes_of_all_kinds, ex=60)

    assert client.get("big") == bytes_of_all_kinds


def test_pipelined_answers_come_whole_and_in_order(client: redis.Redis) -> None:
    with client.pipeline(transaction=False) as pipeline:
        for number in range(5_000):
            pipeline.echo(f"{number}\r\n$-1\r\n")
        answers = pipeline.execute()

    assert answers == [f"{number}\r\n$-1\r\n".encode() for number in range(5_000)]


def test_a_client_that_reads_late_gets_everything(
    endpoint: Endpoint, embedded: EmbeddedServer
) -> None:
    """More is on its way than may be held: the server must wait, and nothing is lost."""
    direct(embedded).set("big", b"x" * 1_000_000, ex=60)
    with raw(endpoint.port, embedded) as connection:
        connection.sendall(b"GET big\r\n" * 40)
        wait_until(lambda: direct(embedded).info("clients")["connected_clients"] >= 2, "connected")
        received = 0
        while received < 40 * (1_000_000 + len("$1000000\r\n\r\n")):
            received += len(connection.recv(1 << 20))


def test_what_is_published_reaches_subscribers(
    client: redis.Redis, embedded: EmbeddedServer
) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as heard:  # type: ignore[no-untyped-call]
        heard.subscribe("news")
        heard.get_message(timeout=5)
        direct(embedded).publish("news", "first")

        message = wait_until(lambda: heard.get_message(timeout=1), "message")

    assert message["data"] == b"first"


def test_a_failover_resets_and_leads_to_the_other_server(
    endpoint: Endpoint, embedded: EmbeddedServer
) -> None:
    with (
        EmbeddedServer.start(password=embedded.password) as second,
        raw(endpoint.port, embedded) as connection,
    ):
        direct(second).set("who", "second")

        endpoint.point_at(second.port)

        with pytest.raises(ConnectionResetError):
            connection.recv(1)
        assert client_of(endpoint.port, embedded).get("who") == b"second"


def test_a_change_of_roles_may_leave_open_connections_where_they_are(
    endpoint: Endpoint, embedded: EmbeddedServer
) -> None:
    direct(embedded).set("who", "first", ex=60)
    with (
        EmbeddedServer.start(password=embedded.password) as second,
        raw(endpoint.port, embedded) as old,
    ):
        direct(second).set("who", "second")

        endpoint.point_at(second.port, keep_open=True)

        old.sendall(b"GET who\r\n")
        assert old.recv(64) == b"$5\r\nfirst\r\n"
        assert client_of(endpoint.port, embedded).get("who") == b"second"


def test_a_slow_network_delays_both_ways(endpoint: Endpoint, client: redis.Redis) -> None:
    client.ping()
    endpoint.delay(150)
    began = time.monotonic()

    client.ping()

    assert time.monotonic() - began >= 0.3


def test_a_slow_network_keeps_the_order(endpoint: Endpoint, client: redis.Redis) -> None:
    client.ping()
    endpoint.delay(80)
    slow = threading.Timer(0.02, endpoint.delay, (0,))
    slow.start()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(20_000):
            pipeline.echo(str(number))
        answers = pipeline.execute()
    slow.join()

    assert answers == [str(number).encode() for number in range(20_000)]


def test_a_lost_reply_belongs_to_a_command_that_was_done(
    endpoint: Endpoint, client: redis.Redis, embedded: EmbeddedServer
) -> None:
    client.ping()
    endpoint.drop_replies(1)

    with pytest.raises(redis.ConnectionError):
        client.incr("count")

    wait_until(lambda: direct(embedded).get("count") == b"1", "the command was done")
    assert client.incr("count") == 2
    client.delete("count")


def test_the_whole_pipeline_is_done_before_its_reply_is_lost(
    endpoint: Endpoint, client: redis.Redis, embedded: EmbeddedServer
) -> None:
    client.ping()
    endpoint.drop_replies(1)

    with client.pipeline(transaction=False) as pipeline:
        for _ in range(20_000):
            pipeline.incr("count")
        with pytest.raises(redis.ConnectionError):
            pipeline.execute()

    wait_until(lambda: direct(embedded).get("count") == b"20000", "all of it was done")
    client.delete("count")


def test_only_replies_to_the_named_command_are_lost(
    endpoint: Endpoint, client: redis.Redis, embedded: EmbeddedServer
) -> None:
    endpoint.drop_replies(1, "EVAL")
    client.ping()
    client.set("other", 1, ex=60)

    with pytest.raises(redis.ConnectionError):
        client.eval(SCRIPT, 1, "count")

    assert direct(embedded).get("count") == b"1"
    client.delete("count")


def test_what_a_subscriber_did_not_ask_for_is_no_lost_reply(
    endpoint: Endpoint, client: redis.Redis, embedded: EmbeddedServer
) -> None:
    with client.pubsub(ignore_subscribe_messages=True) as heard:  # type: ignore[no-untyped-call]
        heard.subscribe("news")
        heard.get_message(timeout=5)
        endpoint.drop_replies(1)
        direct(embedded).publish("news", "still there")
        message = wait_until(lambda: heard.get_message(timeout=1), "message")
    assert message["data"] == b"still there"

    with pytest.raises(redis.ConnectionError):
        client.ping()


def test_a_reset_is_seen_as_one(endpoint: Endpoint, embedded: EmbeddedServer) -> None:
    with raw(endpoint.port, embedded) as connection:
        endpoint.reset()

        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_silent_network_accepts_and_starves(endpoint: Endpoint, embedded: EmbeddedServer) -> None:
    endpoint.mute()

    with client_of(endpoint.port, embedded, 0.3) as client, pytest.raises(redis.TimeoutError):
        client.ping()

    endpoint.heal()
    assert client.ping()


def test_what_was_sent_into_silence_arrives_when_the_network_is_back(
    endpoint: Endpoint, embedded: EmbeddedServer
) -> None:
    with raw(endpoint.port, embedded) as old:
        endpoint.mute()
        old.sendall(b"INCR count\r\n")
        new = socket.create_connection(("127.0.0.1", endpoint.port), timeout=10)
        new.sendall(f"AUTH {embedded.password}\r\nPING\r\n".encode())
        old.settimeout(0.3)
        with pytest.raises(TimeoutError):
            old.recv(1)
        assert direct(embedded).get("count") is None

        endpoint.heal()

        old.settimeout(10)
        assert old.recv(64) == b":1\r\n"
        wait_until(lambda: new.recv(64, socket.MSG_PEEK) == b"+OK\r\n+PONG\r\n", "both answers")
        new.close()
    direct(embedded).delete("count")


def test_a_connection_that_a_client_gave_up_does_not_stay_open(
    endpoint: Endpoint, embedded: EmbeddedServer
) -> None:
    with direct(embedded) as watching:

        def open_ones() -> int:
            return len(watching.client_list())

        before = open_ones()
        connections = [raw(endpoint.port, embedded) for _ in range(10)]
        assert open_ones() == before + 10
        for connection in connections:
            connection.close()
        wait_until(lambda: open_ones() == before, "the server has let them go")


def test_without_a_server_behind_it_connections_are_reset() -> None:
    with EmbeddedServer.start() as server, Endpoint.start(server.port) as endpoint:
        server.kill()
        with client_of(endpoint.port, server) as client:
            with pytest.raises(redis.ConnectionError):
                client.ping()
            server.restart()
            assert client.ping()


def test_stopped_twice_is_stopped_once(embedded: EmbeddedServer) -> None:
    endpoint = Endpoint.start(embedded.port)
    endpoint.stop()
    endpoint.stop()

    assert not listens(endpoint.port)
    with pytest.raises(EndpointFailed, match="heal"):
        endpoint.heal()


def test_an_order_that_makes_no_sense_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(EndpointFailed, match="unknown order 'dance'"):
        endpoint._order("dance")
    endpoint.heal()


def test_it_ends_with_its_owner(embedded: EmbeddedServer) -> None:
    owner = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from callflow.lab.chaos.network_proxy import Endpoint;"
            f" e = Endpoint.start({embedded.port}); print(e.port, flush=True); sys.stdin.read()",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    port = int(owner.stdout.readline())
    assert listens(port)

    owner.send_signal(signal.SIGKILL)
    owner.communicate()

    wait_until(lambda: not listens(port), "the endpoint has ended")
