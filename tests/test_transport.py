"""The line to the broker, against real servers: what a demotion, a restart and a loss do to it."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from kombu.exceptions import OperationalError

from callflow.celery import TAKEOVER, TURNS, app, use_broker
from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer, find_server_binary
from callflow.lab.stack import free_port
from callflow.messages import Wake, wake
from callflow.transport import BrokerDemoted, Connection, SentinelTransport, Transport
from tests.parts import SID
from tests.waiting import wait_until


@contextmanager
def _asking(server: EmbeddedServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        yield client


def _demote(server: EmbeddedServer) -> None:
    with _asking(server) as client:
        client.replicaof("127.0.0.1", str(free_port()))


def _promote(server: EmbeddedServer) -> None:
    with _asking(server) as client:
        client.replicaof("NO", "ONE")


@pytest.mark.parametrize(
    ("url", "transport", "tls"),
    [
        ("redis://a:1/2", Transport, False),
        ("rediss://a:1/2", Transport, True),
        ("redis+socket:///run/r.sock", Transport, False),
        ("sentinel://a:1;sentinel://b:2", SentinelTransport, False),
    ],
)
def test_each_way_to_name_a_broker_has_our_line(url: str, transport: type, tls: bool) -> None:
    connection = app.connection_for_read(url)
    assert type(connection) is Connection
    assert type(connection.transport) is transport
    assert bool(connection.ssl) is tls
    assert Transport.driver_type == "redis", "Celery asks for this word"


def test_a_broker_that_is_demoted_and_promoted_again_is_used_again(
    own_server: EmbeddedServer,
) -> None:
    use_broker(own_server.url)
    assert wake(SID) is Wake.SENT
    _demote(own_server)
    assert wake(SID) is Wake.LOST
    _promote(own_server)
    assert wake(SID) is Wake.SENT


def test_a_sender_leaves_a_demoted_server_for_the_new_primary(own_server: EmbeddedServer) -> None:
    """Its connection to the old one is never closed by anybody else."""
    with EmbeddedServer.start(password=own_server.password) as other:
        with Endpoint.start(own_server.port) as endpoint:
            use_broker(own_server.url.replace(str(own_server.port), str(endpoint.port)))
            assert wake(SID) is Wake.SENT
            endpoint.point_at(other.port, keep_open=True)
            _demote(own_server)

            assert wake(SID) is Wake.SENT
            with _asking(other) as client:
                assert client.llen(TURNS) == 1


def test_a_kept_connection_that_has_not_outlived_a_restart_costs_no_message(
    own_server: EmbeddedServer,
) -> None:
    use_broker(own_server.url)
    assert wake(SID) is Wake.SENT
    own_server.restart()
    assert wake(SID) is Wake.SENT


def test_fault_21_a_message_whose_receipt_was_lost_is_sent_twice_and_not_lost(
    own_server: EmbeddedServer,
) -> None:
    """Waking twice does no harm: the second one finds nothing owed."""
    with Endpoint.start(own_server.port) as endpoint:
        use_broker(own_server.url.replace(str(own_server.port), str(endpoint.port)))
        assert wake("CA0") is Wake.SENT
        endpoint.drop_replies(1, "LPUSH")
        assert wake(SID) is Wake.SENT
        with _asking(own_server) as client:
            assert client.llen(TURNS) == 3


def test_a_silent_cut_costs_who_sends_a_second_and_not_two(own_server: EmbeddedServer) -> None:
    with Endpoint.start(own_server.port) as endpoint:
        use_broker(own_server.url.replace(str(own_server.port), str(endpoint.port)))
        assert wake(SID) is Wake.SENT
        endpoint.mute()
        began = time.monotonic()
        assert wake(SID) is Wake.LOST
        assert time.monotonic() - began < 1.8


@pytest.mark.parametrize(("waiting", "answer"), [(True, "UNBLOCKED"), (False, "read only replica")])
def test_who_consumes_from_a_server_that_is_demoted_has_lost_its_connection(
    own_server: EmbeddedServer, waiting: bool, answer: str
) -> None:
    """Celery reconnects after a lost connection; it ends itself over an answer."""
    with app.connection_for_read(own_server.url) as connection:
        assert issubclass(BrokerDemoted, connection.connection_errors)
        consumer = app.amqp.TaskConsumer(connection.channel(), queues=[app.amqp.queues[TURNS]])
        consumer.consume()
        if waiting:
            # Once the command has been sent: it waits at the server for a second.
            with _asking(own_server) as client:
                demotion = threading.Thread(target=_when_blocked, args=(client, own_server))
                demotion.start()
                raised = _drained(connection)
                demotion.join()
        else:
            _demote(own_server)
            raised = _drained(connection)
        assert answer in raised.answer
        assert "CALLFLOW_BROKER_URL" in str(raised)


def _when_blocked(client: redis.Redis, server: EmbeddedServer) -> None:
    wait_until(lambda: client.info("clients")["blocked_clients"], "nobody waits")
    _demote(server)


def _drained(connection: Any) -> BrokerDemoted:
    for _ in range(10):
        try:
            connection.drain_events(timeout=1)
        except TimeoutError:
            """Nothing came in this second."""
        except BrokerDemoted as error:
            return error
    raise AssertionError("it goes on asking")


def test_what_is_given_back_is_the_next_to_be_taken(own_server: EmbeddedServer) -> None:
    """kombu puts it behind everybody who came later."""
    use_broker(own_server.url)
    with app.connection_for_read(own_server.url) as connection:
        channel = connection.channel()
        taken: list[Any] = []
        consumer = app.amqp.TaskConsumer(channel, queues=[app.amqp.queues[TAKEOVER]])
        consumer.on_message = taken.append
        channel.basic_qos(0, 1, False)
        consumer.consume()
        for sid in ("CA1", "CA2", "CA3"):
            wake(sid, takeover=True)
        connection.drain_events(timeout=5)
        assert len(taken) == 1

        consumer.cancel()
        channel.close()

    with _asking(own_server) as client:
        order = [client.rpop(TAKEOVER) for _ in range(3)]
    assert [sid for message in order for sid in ("CA1", "CA2", "CA3") if sid in str(message)] == [
        "CA1",
        "CA2",
        "CA3",
    ]


def test_the_pauses_between_two_tries_to_connect_stay_below_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Celery's own are 2, 4, 6 … 30 s."""
    pauses: list[float] = []
    monkeypatch.setattr("kombu.utils.functional.sleep", pauses.append)
    connection = app.connection_for_read(f"redis://127.0.0.1:{free_port()}/0")
    told: list[float] = []

    with pytest.raises(OperationalError):
        connection.ensure_connection(lambda _, interval: told.append(interval), max_retries=8)

    assert told == pytest.approx([0.1, 0.4, 0.7, 1, 1, 1, 1, 1])
    assert sum(pauses) == pytest.approx(sum(told))


@pytest.mark.chaos
def test_a_broker_that_sentinels_name_is_followed_to_its_successor(tmp_path: Path) -> None:
    with EmbeddedServer.start() as primary:
        options = (f"replicaof 127.0.0.1 {primary.port}", f"masterauth {primary.password}")
        with EmbeddedServer.start(password=primary.password, options=options) as replica:
            with _sentinel(tmp_path, primary) as port:
                use_broker(f"sentinel://:{primary.password}@127.0.0.1:{port}/0")
                assert wake(SID) is Wake.SENT
                with _asking(replica) as client:
                    wait_until(lambda: client.llen(TURNS) == 1, "the replica never had it")
                _know_replicas(port)
                primary.kill()

                wait_until(lambda: wake(SID) is Wake.SENT, "the successor was never found", 20)
                with _asking(replica) as client:
                    assert client.llen(TURNS) == 2


@contextmanager
def _sentinel(folder: Path, primary: EmbeddedServer) -> Iterator[int]:
    port = free_port()
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {port}\n"
        f"sentinel monitor mymaster 127.0.0.1 {primary.port} 1\n"
        f"sentinel auth-pass mymaster {primary.password}\n"
        "sentinel down-after-milliseconds mymaster 300\n"
        "sentinel failover-timeout mymaster 2000\n"
    )
    command = [str(find_server_binary()), str(config), "--sentinel"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: _sentinel_knows(port, "MASTERS"), "no Sentinel")
        yield port
    finally:
        process.kill()
        process.wait()


def _know_replicas(port: int) -> None:
    wait_until(lambda: _sentinel_knows(port, "REPLICAS", "mymaster"), "no replica is known", 15)


def _sentinel_knows(port: int, *what: str) -> bool:
    with redis.Redis(port=port) as client:
        try:
            return bool(client.execute_command("SENTINEL", *what))
        except redis.ConnectionError:
            return False
