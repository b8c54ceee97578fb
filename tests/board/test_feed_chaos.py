"""Servers die under the board: the calls of the others go on, and all come back by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import pytest

from callflow.board.board_reader import BoardReader
from callflow.board.feed import BoardUpdate, Feed
from callflow.health.deployment_checks import WorkforceStatus
from callflow.redis.client import connect
from callflow.store.reader import CallWatcher
from tests.cluster import cluster
from tests.parts import Parts
from tests.store.turns import patiently

pytestmark = pytest.mark.chaos


def stale(feed: Feed) -> set[str]:
    """The calls of which nobody knows what they are now."""
    return {row.call_sid for row in feed.snapshot().rows if row.stale}


@pytest.mark.timeout(120)
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
                assert len((await anext(board)).to_dict()["rows"]) == len(sids)
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
