"""Browsers get the board as server-sent events, and after a reconnect what they missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from callflow.board.board_reader import BoardReader
from callflow.board.feed import Feed
from callflow.board.pages import stream_events
from callflow.health.deployment_checks import WorkforceStatus
from callflow.store.reader import CallWatcher
from tests.parts import SID, Parts


def connected(feed: Feed, last_event_id: str = "") -> StreamingResponse:
    return stream_events(feed, last_event_id)


async def events(response: StreamingResponse) -> AsyncIterator[dict[str, Any]]:
    """Each event as a browser reads it."""
    async for chunk in response.body_iterator:
        assert isinstance(chunk, bytes)
        assert chunk.endswith(b"\n\n")
        lines = chunk.decode().removesuffix("\n\n").split("\n")
        fields = dict(line.split(": ", 1) for line in lines)
        if "data" in fields:
            yield {**fields, "data": json.loads(fields["data"])}


async def next_of(stream: AsyncIterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    return await anext(event async for event in stream if event["event"] == kind)


@pytest.fixture
def reader(parts: Parts) -> BoardReader:
    return BoardReader(CallWatcher(parts.client), lambda: WorkforceStatus(), lambda site: None)


def test_a_browser_gets_a_snapshot_and_changes_and_the_time(
    parts: Parts, reader: BoardReader
) -> None:
    async def story() -> None:
        parts.store.open(SID)
        feed = Feed(reader)
        async with feed.running(), asyncio.timeout(20):
            response = connected(feed)
            assert response.media_type == "text/event-stream"
            assert response.headers["cache-control"] == "no-store"
            async with aclosing(events(response)) as stream:  # type: ignore[type-var]
                first = await anext(stream)
                assert first["event"] == "snapshot"
                assert first["id"] == f"{feed.name}-{first['data']['version']}"
                assert [row["call_sid"] for row in first["data"]["rows"]] == [SID]
                clock = await next_of(stream, "clock")
                assert clock["data"].keys() == {"version", "header"}
                assert clock["data"]["header"]["age_ms"] >= 0
                parts.store.record_utterance(SID, 1, "line\nbreak “here”")
                change = await next_of(stream, "change")
                (row,) = change["data"]["changed"]
                assert row["last"] == ["caller", "line break “here”"]

    asyncio.run(story())


def test_after_a_reconnect_a_browser_gets_what_it_missed(parts: Parts, reader: BoardReader) -> None:
    async def story() -> None:
        parts.store.open(SID)
        parts.store.open("CA2")
        feed = Feed(reader)
        async with feed.running(), asyncio.timeout(20), aclosing(feed.follow()) as other:
            first = await anext(events(connected(feed)))
            parts.store.record_utterance(SID, 1, "stuck")
            await anext(news async for news in other if news.kind == "change")
            again = await anext(events(connected(feed, first["id"])))
            assert again["event"] == "change"
            assert [row["call_sid"] for row in again["data"]["changed"]] == [SID]

            version = again["data"]["version"]
            for foreign in (f"other-{version}", f"{feed.name}-x", f"{feed.name}-٣", "", "-1"):
                whole = await anext(events(connected(feed, foreign)))
                assert whole["event"] == "snapshot", foreign
                assert len(whole["data"]["rows"]) == 2

    asyncio.run(story())
