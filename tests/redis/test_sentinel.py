"""A primary that Sentinels know: each new connection asks them who it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from callflow.errors import StoreUnavailable
from callflow.lab.chaos.chaos_servers import ServerPair, server_pair
from callflow.lab.embedded_server import EmbeddedServer, find_server_binary
from callflow.redis.client import address, connect
from callflow.redis.scripts import Scripts
from callflow.store.encoding import on_call
from callflow.store.keys import call_keys
from callflow.store.presence import Presence
from callflow.store.replies import Replies
from callflow.store.result import Claimed, Lease
from tests.parts import SID, Parts
from tests.waiting import wait_until

NOT_OF_SENTINELS = "save|appendonly|appendfsync|maxmemory-policy|masterauth"


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    """A primary and its replica."""
    with server_pair() as running:
        yield running


@pytest.fixture
def sentinel(pair: ServerPair, tmp_path: Path) -> Iterator[EmbeddedServer]:
    """One Sentinel that watches the primary, with a password of its own."""
    script = tmp_path / "sentinel.sh"
    # A Sentinel wants its settings in a file, in which it writes down what it learns.
    script.write_text(
        f"#!/bin/sh\ngrep -Ev '^({NOT_OF_SENTINELS})' > '{tmp_path}/sentinel.conf'\n"
        f"exec '{find_server_binary()}' '{tmp_path}/sentinel.conf' --sentinel\n"
    )
    script.chmod(0o700)
    with EmbeddedServer.start(
        binary=script,
        options=(
            f"sentinel monitor calls 127.0.0.1 {pair.primary.port} 1",
            f"sentinel auth-pass calls {pair.primary.password}",
            "sentinel down-after-milliseconds calls 500",
            "sentinel failover-timeout calls 3000",
        ),
    ) as running:
        with connect(running.url) as client:
            wait_until(lambda: client.sentinel_slaves("calls"), "no replica was ever found")
        yield running


def _url(pair: ServerPair, *sentinels: EmbeddedServer, nobody: bool = False) -> str:
    hosts = ",".join(f"127.0.0.1:{one.port}" for one in sentinels)
    dead = "127.0.0.1:1," if nobody else ""
    return (
        f"redis+sentinel://:{pair.primary.password}@{dead}{hosts}/calls/0"
        f"?sentinel_password={sentinels[0].password}"
    )


def test_the_primary_is_found_by_any_sentinel_that_lives(
    pair: ServerPair, sentinel: EmbeddedServer
) -> None:
    with connect(_url(pair, sentinel, nobody=True)) as client:
        parts = Parts(client)
        parts.store.open(SID)
        assert parts.record().heard == 0
        assert pair.client.exists(*pair.client.keys("*call:*")) == 1
        shown = address(client)
        assert str(sentinel.port) in shown
        assert pair.primary.password not in shown
        parts.store.end(SID, "hung_up")


def test_replies_are_waited_for_at_the_primary(pair: ServerPair, sentinel: EmbeddedServer) -> None:
    async def story() -> str:
        async with Replies.listening(url) as replies:
            with replies.expect(SID, 1) as expected:
                parts.store.commit(lease, 1, "Stay inside.")
                reply = await expected.wait(5)
        assert reply is not None
        return reply.text

    url = _url(pair, sentinel)
    with connect(url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        parts.store.record_utterance(SID, 1, "stuck")
        lease = _claim(parts)
        assert asyncio.run(story()) == "Stay inside."
        parts.store.end(SID, "hung_up")


@pytest.mark.chaos
@pytest.mark.timeout(60)
@pytest.mark.parametrize("how", ["killed", "demoted"])
def test_fault_04_after_a_failover_the_sentinels_lead_to_the_new_primary(
    pair: ServerPair, sentinel: EmbeddedServer, how: str
) -> None:
    with connect(_url(pair, sentinel)) as client:
        parts, key = Parts(client), call_keys(SID).call
        patient = Scripts(client, patience_s=15)
        parts.store.open(SID)
        presence = Presence(client, "w@test/1-aa")
        presence.keep()
        pair.wait_until_in_step()
        if how == "killed":
            pair.primary.kill()
        else:
            wait_until(lambda: _fails_over(sentinel), "it knows of no replica that is fit")
        began = time.monotonic()
        pair.primary, pair.replica = pair.replica, pair.primary

        def heard_by_the_new_one() -> bool:
            patient.run(on_call("save_playback", SID, turn=1, length=1, left_ms=0))
            return bool(pair.client.hget(key, "sent") != "null")

        # By hand it lets the old one serve for some ten seconds more, then ends its connections.
        wait_until(lambda: pair.client.role()[0] == "master", "never promoted", within_s=20)
        wait_until(heard_by_the_new_one, "the new primary was never found", within_s=20)
        print(f"{how}: {time.monotonic() - began:.2f} s")
        wait_until(
            lambda: _kept(presence) and pair.client.pubsub_channels("callflow:presence:*"),
            "never present again",
            within_s=20,
        )
        presence.close()


def _fails_over(sentinel: EmbeddedServer) -> bool:
    with connect(sentinel.url) as client:
        try:
            return bool(client.execute_command("SENTINEL", "FAILOVER", "calls"))
        except ResponseError:
            return False  # NOGOODSLAVE: it has not asked the replica yet.


def _claim(parts: Parts) -> Lease:
    claimed = parts.store.claim(SID, "w@test/1-aa", "claim-1")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _kept(presence: Presence) -> bool:
    try:
        presence.keep()
    except StoreUnavailable:
        return False
    return True


def test_a_service_that_no_sentinel_knows_is_named(
    pair: ServerPair, sentinel: EmbeddedServer
) -> None:
    url = _url(pair, sentinel).replace("/calls/", "/other/")
    with connect(url) as client, pytest.raises(StoreUnavailable, match="'other'"):
        Parts(client).store.open(SID)
