"""Servers and web processes die under open boards, which come back by themselves."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from importlib import resources
from pathlib import Path
from typing import Any

import httpx
import pytest

from callflow.access.sessions import Sessions
from callflow.access.users_file import User, edit_users
from callflow.board.board_reader import BoardReader
from callflow.board.feed import BoardUpdate, Feed
from callflow.call.role import Role
from callflow.health.deployment_checks import WorkforceStatus
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack, StackProcess, free_port
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.reader import CallWatcher
from tests.cluster import cluster
from tests.parts import SID, Parts
from tests.store.turns import patiently
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]


def stale(feed: Feed) -> set[str]:
    """The calls of which nobody knows what they are now."""
    return {row.call_sid for row in feed.snapshot().rows if row.stale}


def test_while_a_master_is_gone_its_calls_are_stale_and_after_the_failover_live_again() -> None:
    async def story() -> None:
        with cluster(node_timeout_ms=1_500) as own, connect(own.url) as client:
            parts = Parts(client)
            sids = [f"CA{number}" for number in range(30)]
            for sid in sids:
                parts.store.open(sid)
            own.wait_for_replicas()
            theirs = {sid for sid in sids if own.owner_of(sid) == 0}
            lucky = next(sid for sid in sids if sid not in theirs)
            unlucky = min(theirs)
            feed = Feed(
                BoardReader(CallWatcher(client), lambda: WorkforceStatus(), lambda site: None)
            )

            async def until(told: Callable[[BoardUpdate], object]) -> BoardUpdate:
                async with asyncio.timeout(30):
                    return await anext(news async for news in board if told(news))

            def spoke(sid: str) -> bool:
                return any(row.call_sid == sid and row.last for row in feed.snapshot().rows)

            async with feed.running(), aclosing(feed.follow()) as board:
                first = await anext(board)
                assert first.changes is not None
                assert len(first.changes.rows) == len(sids)
                own.servers[0].kill()
                news = await until(lambda one: stale(feed))
                assert stale(feed) == theirs
                assert news.header["trouble"]
                assert not news.header["stale"]
                parts.store.record_utterance(lucky, 1, "word")
                await until(lambda one: spoke(lucky))
                assert len(feed.snapshot().rows) == len(sids)

                await until(lambda one: not stale(feed) and not one.header["trouble"])
                await asyncio.to_thread(
                    patiently, lambda: parts.store.record_utterance(unlucky, 1, "stuck"), 20
                )
                await until(lambda one: spoke(unlucky))
            patiently(parts.close)

    asyncio.run(story())


@pytest.fixture
def web(own_server: EmbeddedServer, tmp_path: Path) -> Iterator[tuple[StackProcess, str, str]]:
    """A web process, its address, and the cookie of somebody who may look."""
    port, users = free_port(), tmp_path / "users.json"
    with edit_users(users) as known:
        known["ana"] = user = User(role=Role.VIEWER, password="$argon2id$none")
    env = {
        "CALLFLOW_REDIS_URL": own_server.url,
        "CALLFLOW_BROKER_URL": "",
        "CALLFLOW_PUBLIC_URL": "https://voice.example.org",
        "CALLFLOW_BOARD_URL": f"http://127.0.0.1:{port}",
        "CALLFLOW_USERS": str(users),
        "CALLFLOW_TWILIO_AUTH_TOKEN": "0123456789abcdef0123456789abcdef",
        "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "demo_sites.yaml"),
    }
    with connect(own_server.url) as client:
        token = Sessions(Scripts(client)).begin(user.session_user("ana"))
    with LocalStack(env, tmp_path / "logs") as stack:
        process, url = stack.start_web(port), f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url), "the web process answers", 30)
        yield process, url, f"callflow-session={token}"


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").is_success
    except httpx.TransportError:
        return False


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


def test_an_open_board_stays_while_the_store_is_gone_and_goes_on_when_it_is_back(
    web: tuple[StackProcess, str, str], own_server: EmbeddedServer
) -> None:
    _, url, cookie = web
    with httpx.stream("GET", f"{url}/board/events", headers={"Cookie": cookie}) as response:
        told = events(response)
        assert next(told)["rows"] == []
        own_server.kill()
        # Longer than what may pass between two checks of the session.
        assert next(each for each in told if each["header"]["age_ms"] > 5_000)["header"]["trouble"]
        own_server.restart()
        assert next(each for each in told if not each["header"]["stale"])
        with Parts.on(own_server.url) as parts:
            parts.store.open(SID)
            assert next(each for each in told if each.get("changed"))
            parts.close()


def test_an_open_board_does_not_keep_a_process_that_is_told_to_end(
    web: tuple[StackProcess, str, str],
) -> None:
    process, url, cookie = web
    with httpx.stream("GET", f"{url}/board/events", headers={"Cookie": cookie}) as response:
        told = events(response)
        next(told)
        began = time.monotonic()
        process.popen.send_signal(signal.SIGTERM)
        for _ in told:
            pass
        assert process.popen.wait(20) in (0, -signal.SIGTERM)
        assert time.monotonic() - began < 5
