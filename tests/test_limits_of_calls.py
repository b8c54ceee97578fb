"""What has an end: a call that goes on and on, its thread, its journal, and waiting for a reply."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from callflow.call.limits import LIMIT
from callflow.call.record import ReplyProgress
from callflow.celery import TURNS
from callflow.intake import Intake
from callflow.redis.scripts import Scripts
from callflow.store.calls import CallStore
from callflow.store.encoding import on_call
from callflow.store.replies import Replies
from tests.parts import SID, TIMING, Parts


def _short(parts: Parts) -> CallStore:
    return CallStore(Scripts(parts.client), TIMING, thread_most_entries=20)


def test_a_call_that_goes_on_for_ever_has_a_human_rung_once_and_goes_on(parts: Parts) -> None:
    store = _short(parts)
    store.open(SID)
    told = [store.record_utterance(SID, turn, "and another thing").alerted for turn in range(1, 31)]

    assert [turn for turn, alerted in enumerate(told, 1) if alerted] == [20]
    assert parts.record().needs_human == LIMIT
    assert [line.reason for line in parts.journal() if line.event == "alerted"] == [LIMIT]
    assert parts.record().owed


def test_a_limit_is_no_better_reason_than_one_that_stands(parts: Parts) -> None:
    store = _short(parts)
    store.open(SID)
    store.record_utterance(SID, 1, "get me a person", wants_human="asked")
    for turn in range(2, 30):
        store.record_utterance(SID, turn, "and another thing")

    assert parts.record().needs_human == "asked"


def test_a_thread_ends_at_twice_its_length_and_the_call_at_a_human(parts: Parts) -> None:
    store = _short(parts)
    store.open(SID)
    full = [store.record_utterance(SID, turn, f"thing {turn}").full for turn in range(1, 61)]

    assert full == [False] * 40 + [True] * 20
    assert len(parts.record().conversation_thread) == 40
    assert parts.record().heard == 60


def test_a_call_that_is_full_is_passed_on_and_wakes_nobody(parts: Parts) -> None:
    intake = Intake(_short(parts))
    intake.open(SID)
    for turn in range(1, 42):
        intake.hear(SID, turn, "and another thing")

    record = parts.record()
    assert (record.handling, record.owed) == ("human", False)
    assert parts.journal()[-1].reason == LIMIT
    assert parts.client.llen(TURNS) == 1


def test_a_journal_keeps_a_whole_long_call_and_no_endless_one(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "stuck")

    def remark(since: int) -> None:
        Scripts(parts.client).run_all(
            [
                on_call("add_journal_line", SID, event="remarked", reason="again", line=f"{n}")
                for n in range(since, since + 4_000)
            ]
        )

    remark(0)
    assert parts.events()[:2] == ["opened", "heard"]

    for since in (4_000, 8_000):
        remark(since)
    # Trimmed by whole nodes of the stream, 100 lines each.
    assert 10_000 <= len(parts.journal()) <= 10_100


class _Deaf(Replies):
    """Its first reading swallows the end of the waiter's time, as redis-py's was seen to do."""

    reads = 0

    async def read(self, call_sid: str, turn: int) -> ReplyProgress:
        self.reads += 1
        assert self.reads == 1, "it goes on waiting"
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return ReplyProgress("", done=False)


def test_nobody_waits_beyond_their_time_where_its_end_was_swallowed(redis_url: str) -> None:
    async def wait() -> ReplyProgress | None:
        async with _Deaf.listening(redis_url) as replies:
            with replies.expect(SID, 1) as expected:
                return await expected.wait(0.1, look_first=True)

    assert asyncio.run(wait()) is None
