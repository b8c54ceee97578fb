"""Whoever follows the board is told what it is, what changes and how old it is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from callflow.board import feed as feeds
from callflow.board.board_reader import BoardReader, BoardState
from callflow.board.feed import REMEMBERED, STALE_MS, BoardClock, BoardUpdate, BoardVersions, Feed
from callflow.board.pages import stream_events
from callflow.health.deployment_checks import WorkforceStatus
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.keys import SHARDS
from callflow.store.reader import ENDED_MS, CallsOverview, CallWatcher
from tests.board_rows import AT, seen, shown
from tests.parts import SID, Parts
from tests.waiting import wait_until


@dataclass
class StubReader:
    """A reader that finds what it is told to find, or fails with it."""

    finds: BoardState | Exception = field(default_factory=lambda: seen(shown("CA1")))
    rounds: int = 0
    hangs: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.hangs.set()

    def read(self) -> BoardState:
        self.rounds += 1
        self.hangs.wait()
        if isinstance(self.finds, Exception):
            raise self.finds
        return self.finds


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def told() -> None:
        async with asyncio.timeout(30):
            await story()

    asyncio.run(told())


@asynccontextmanager
async def feed_of(reader: Any) -> AsyncIterator[Feed]:
    """The running feed of one web process."""
    feed = Feed(reader)
    async with feed.running():
        yield feed


def reader_of(parts: Parts) -> BoardReader:
    return BoardReader(
        CallWatcher(parts.client), lambda: WorkforceStatus(workers=2), lambda site: None
    )


async def resting(feed: Feed) -> None:
    """Wait until nothing is asked."""
    await asyncio.to_thread(wait_until, lambda: feed.idle, "it looks for nobody")


async def until(
    board: AsyncIterator[BoardUpdate], wanted: Callable[[BoardUpdate], object]
) -> BoardUpdate:
    """The first news that is as wanted."""
    async for news in board:
        if wanted(news):
            return news
    raise AssertionError("the board was let go before")


def decoded(update: BoardUpdate) -> dict[str, Any]:
    """As a browser reads it."""
    read: dict[str, Any] = json.loads(update.to_json())
    return read


def tells(sid: str) -> Callable[[BoardUpdate], bool]:
    """BoardUpdate of that call."""

    def told(news: BoardUpdate) -> bool:
        rows = () if news.changes is None else news.changes.rows
        return any(one.row.call_sid == sid for one in rows)

    return told


def test_a_board_gets_all_of_it_and_then_each_change(parts: Parts) -> None:
    async def story() -> None:
        parts.store.open(SID)
        async with feed_of(reader_of(parts)) as feed, aclosing(feed.follow()) as board:
            first = decoded(await anext(board))
            assert [row["call_sid"] for row in first["rows"]] == [SID]
            header = first["header"]
            assert (header["active"], header["calls"]) == (1, {"listening": 1})
            assert (header["workers"], header["stale"], header["trouble"]) == (2, False, "")
            assert abs(header["now_ms"] - parts.reader.now_ms()) < STALE_MS

            parts.store.record_utterance(SID, 1, "stuck")
            news = await until(board, tells(SID))
            (row,) = decoded(news)["changed"]
            assert (row["word"], row["last"]) == ("queued", ["caller", "stuck"])
            assert news.version > first["version"]
            assert news.header["calls"] == {"queued": 1}

            long_ago = parts.reader.now_ms() - ENDED_MS - 1
            parts.store.end(SID, "hung_up", now_ms=long_ago)
            news = await until(board, lambda one: one.changes and one.changes.gone)
            assert decoded(news)["gone"] == [SID]
            assert news.header["active"] == 0

    run(story)


def test_however_many_boards_are_open_the_store_is_asked_by_one(parts: Parts) -> None:
    async def story() -> None:
        parts.store.open(SID)
        looks: list[CallsOverview] = []
        async with feed_of(reader_of(parts)) as feed, AsyncExitStack() as boards:
            parts.client.config_resetstat()
            feed.on_overview(looks.append)
            followers = [
                await boards.enter_async_context(aclosing(feed.follow())) for _ in range(20)
            ]
            texts = {(await anext(one)).to_json() for one in followers}
            assert {json.loads(text)["rows"][0]["call_sid"] for text in texts} == {SID}
            parts.store.record_utterance(SID, 1, "stuck")
            versions = {(await until(one, tells(SID))).version for one in followers}
            assert len(versions) == 1
            asked = parts.client.info("commandstats")["cmdstat_evalsha"]["calls"]
            # One round may be under way; two scripts of ours open and hear the call.
            assert asked <= SHARDS * (len(looks) + 1) + 2

    run(story)


def test_while_nobody_looks_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "LINGER_S", 0.0)

    async def story() -> None:
        reader = StubReader()
        async with feed_of(reader) as feed:
            await resting(feed)
            assert reader.rounds == 0
            with feed.keep_reading():
                await feed.fresh()
                assert not feed.idle
            await resting(feed)
            rounds = reader.rounds
            assert (await feed.fresh()).version == 1
            assert reader.rounds <= rounds + 1
            async with aclosing(feed.follow()) as board:
                await anext(board)
            await resting(feed)

    run(story)


def test_who_reads_too_slowly_is_told_all_steps_at_once() -> None:
    async def story() -> None:
        reader = StubReader()
        async with feed_of(reader) as feed, aclosing(feed.follow()) as board:
            await anext(board)
            async with aclosing(feed.follow()) as quick:
                await anext(quick)
                for fence in range(1, 4):
                    reader.finds = seen(shown("CA1", fence))
                    await until(quick, tells("CA1"))
            news = await until(board, tells("CA1"))
            assert [row["fence"] for row in decoded(news)["changed"]] == [3]

    run(story)


def test_a_reader_that_hangs_leaves_the_board_with_its_age() -> None:
    async def story() -> None:
        reader = StubReader()
        async with feed_of(reader) as feed, aclosing(feed.follow()) as board:
            await anext(board)
            reader.hangs.clear()
            news = await until(board, lambda one: one.header["stale"])
            assert (news.kind, news.header["as_of_ms"]) == ("clock", AT)
            assert news.header["now_ms"] - AT == news.header["age_ms"] > STALE_MS
            assert len(feed.snapshot().rows) == 1
            reader.hangs.set()
            assert not (await until(board, lambda one: not one.header["stale"])).header["trouble"]

    run(story)


def test_a_mistake_in_the_reader_is_told_and_the_board_comes_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        reader = StubReader(KeyError("ours"))
        async with feed_of(reader) as feed, aclosing(feed.follow()) as board:
            first = await anext(board)
            assert (first.kind, decoded(first)["rows"]) == ("snapshot", [])
            assert "KeyError" in first.header["trouble"]
            reader.finds = seen(shown("CA1"))
            news = await until(board, lambda one: one.kind == "snapshot")
            assert (len(decoded(news)["rows"]), news.header["trouble"]) == (1, "")

    run(story)
    assert "KeyError: 'ours'" in caplog.text


def test_listeners_are_told_looks_and_lines_and_keep_no_board_back(parts: Parts) -> None:
    async def story() -> None:
        looks: list[int] = []
        lines: list[tuple[str, str, str]] = []
        async with feed_of(reader_of(parts)) as feed:
            feed.on_overview(lambda look: looks.append(look.now_ms))
            feed.on_lines(
                lambda sid, sight, found: lines.extend(
                    (sid, str(sight.call_state), one.event) for one in found
                )
            )
            async with aclosing(feed.follow()) as board:
                await anext(board)
                parts.store.open(SID)
                await until(board, tells(SID))
                assert lines == [(SID, "pending", "opened")]
                assert len(looks) >= 2

                def fails(*_: object) -> None:
                    raise ValueError("of a listener")

                feed.on_lines(fails)
                parts.store.record_utterance(SID, 1, "stuck")
                news = await until(board, tells(SID))
                assert "ValueError" in news.header["trouble"]

    run(story)


def test_a_process_that_ends_lets_its_boards_go() -> None:
    async def story() -> None:
        async with feed_of(StubReader()) as feed:
            boards = [feed.follow() for _ in range(3)]
            for board in boards:
                await anext(board)
            feed.end()
            for board in boards:
                assert [news.kind async for news in board] in ([], ["clock"])

    run(story)


def test_while_the_store_is_gone_the_board_stays_and_says_how_old_it_is(
    own_server: EmbeddedServer,
) -> None:
    async def story() -> None:
        with connect(own_server.url) as client:
            parts = Parts(client)
            parts.store.open(SID)
            async with feed_of(reader_of(parts)) as feed, aclosing(feed.follow()) as board:
                await anext(board)
                own_server.kill()
                news = await until(board, lambda one: one.header["trouble"])
                assert "cannot be reached" in news.header["trouble"]
                news = await until(board, lambda one: one.header["stale"])
                assert [row.call_sid for row in feed.snapshot().rows] == [SID]
                await asyncio.to_thread(own_server.restart)
                await until(board, lambda one: not one.header["stale"])
                parts.store.record_utterance(SID, 1, "stuck")
                news = await until(board, tells(SID))
                assert (news.header["trouble"], news.header["stale"]) == ("", False)
            parts.close()

    run(story)


def test_a_board_that_comes_back_is_told_what_it_missed_and_no_more() -> None:
    state, clock = BoardVersions(), BoardClock(AT, AT)
    assert state.update(seen(shown("CA1"), shown("CA2"), shown("CA3")))
    one = state.version
    third = shown("CA3")
    assert state.update(seen(shown("CA2", 1), third))
    two = state.version
    changes = decoded(state.since(one, clock))
    assert sorted(row["call_sid"] for row in changes["changed"]) == ["CA2", "CA3"]
    assert changes["gone"] == ["CA1"]

    last = shown("CA2", 2)
    assert state.update(seen(last, third))
    assert [row["fence"] for row in decoded(state.since(two, clock))["changed"]] == [2]
    assert not state.update(seen(last, third, at=AT + 250))
    assert state.since(state.version, clock).kind == "clock"
    for unknown in (None, 0, -1, state.version + 1):
        assert len(decoded(state.since(unknown, clock))["rows"]) == 2
    assert state.update(seen(last, third, takeovers=1))
    news = state.since(state.version - 1, clock)
    assert (news.kind, news.header["takeovers"]) == ("change", 1)
    assert decoded(news)["changed"] == decoded(news)["gone"] == []


def test_what_has_left_long_ago_is_known_no_more_and_all_is_told() -> None:
    state, clock = BoardVersions(), BoardClock(AT, AT)
    state.update(seen(shown("CA1"), shown("CA2")))
    state.update(seen(shown("CA2")))
    for number in range(3 * REMEMBERED):
        state.update(seen(shown("CA2", number)))
    assert state.since(1, clock).kind == "snapshot"
    assert state.since(state.version - REMEMBERED + 1, clock).kind == "change"
    assert state._gone_in == {}


def test_an_update_is_one_line_of_json() -> None:
    state = BoardVersions()
    state.update(seen(shown("CA2"), shown("CA1"), takeovers=3))
    update = state.since(None, BoardClock(AT + 1_001, AT, 'why "not"'))
    assert "\n" not in update.to_json()
    assert decoded(update)["header"] == dict(update.header)
    assert (update.header["age_ms"], update.header["stale"]) == (1_001, True)
    assert update.header["trouble"] == 'why "not"'
    assert [row["call_sid"] for row in decoded(update)["rows"]] == ["CA1", "CA2"]


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


def test_a_browser_gets_a_snapshot_and_changes_and_the_time(parts: Parts) -> None:
    async def story() -> None:
        parts.store.open(SID)
        feed = Feed(reader_of(parts))
        async with feed.running():
            response = stream_events(feed, "")
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

    run(story)


def test_after_a_reconnect_a_browser_gets_what_it_missed(parts: Parts) -> None:
    async def story() -> None:
        parts.store.open(SID)
        parts.store.open("CA2")
        feed = Feed(reader_of(parts))
        async with feed.running(), aclosing(feed.follow()) as other:
            first = await anext(events(stream_events(feed, "")))
            parts.store.record_utterance(SID, 1, "stuck")
            await anext(news async for news in other if news.kind == "change")
            again = await anext(events(stream_events(feed, first["id"])))
            assert again["event"] == "change"
            assert [row["call_sid"] for row in again["data"]["changed"]] == [SID]

            version = again["data"]["version"]
            for foreign in (f"other-{version}", f"{feed.name}-x", f"{feed.name}-٣", "", "-1"):
                whole = await anext(events(stream_events(feed, foreign)))
                assert whole["event"] == "snapshot", foreign
                assert len(whole["data"]["rows"]) == 2

    run(story)
