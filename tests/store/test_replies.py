"""Waiting for replies: nothing is missed, whatever becomes of the notifications."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from callflow.call.record import ReplyProgress
from callflow.errors import UnknownCall
from callflow.store.replies import RECENT, Replies
from callflow.store.result import Claimed, Lease
from tests.parts import SID, Parts


def _listening(url: str, story: Callable[[Replies], Awaitable[None]]) -> None:
    async def run() -> None:
        async with Replies.listening(url) as replies:
            await story(replies)

    asyncio.run(run())


def _heard(parts: Parts, turn: int = 1, sid: str = SID) -> Lease:
    parts.store.open(sid)
    parts.store.record_utterance(sid, turn, "stuck")
    claimed = parts.store.claim(sid, "w@test/1-aa", f"claim-{turn}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def test_a_reply_that_is_expected_is_told_and_need_not_be_read(
    parts: Parts, redis_url: str
) -> None:
    async def story(replies: Replies) -> None:
        with replies.expect(SID, 1) as expected:
            parts.store.commit(_heard(parts), 1, "Hello. 😀")
            parts.client.config_resetstat()
            assert await expected.wait(5) == ReplyProgress("Hello. 😀", True)
        assert "cmdstat_hmget" not in parts.client.info("commandstats")

    _listening(redis_url, story)


def test_a_reply_that_was_there_before_anybody_listened_is_read(
    parts: Parts, redis_url: str
) -> None:
    parts.store.commit(_heard(parts), 1, "Hello.")

    async def story(replies: Replies) -> None:
        reply = await replies.wait(SID, 1, 5)
        assert reply is not None
        assert (reply.text, reply.done) == ("Hello.", True)

    _listening(redis_url, story)


def test_a_reply_is_followed_as_it_grows(parts: Parts, redis_url: str) -> None:
    lease = _heard(parts)

    async def story(replies: Replies) -> None:
        heard = []
        with replies.expect(SID, 1) as expected:
            parts.store.save_draft(lease, 1, "Hello. ")
            async for reply in expected.follow():
                heard.append((reply.text, reply.done))
                if not reply.done:
                    parts.store.commit(lease, 1, "Hello. Stay inside.")
        assert heard == [("Hello. ", False), ("Hello. Stay inside.", True)]

    _listening(redis_url, story)


def test_a_lost_notification_is_made_good_by_reading(parts: Parts, redis_url: str) -> None:
    lease = _heard(parts)

    async def story(replies: Replies) -> None:
        with replies.expect(SID, 1) as expected:
            parts.client.client_kill_filter(_type="pubsub")
            parts.store.commit(lease, 1, "Hello.")
            reply = await expected.wait(10)
            assert reply is not None
            assert reply.text == "Hello."

    _listening(redis_url, story)


def test_the_reply_to_an_old_turn_is_found_however_far_the_call_has_gone_on(
    parts: Parts, redis_url: str
) -> None:
    for turn in range(1, RECENT + 3):
        parts.store.commit(_heard(parts, turn), turn, f"Reply {turn}.")

    async def story(replies: Replies) -> None:
        reply = await replies.wait(SID, 1, 5)
        assert reply is not None
        assert reply.text == "Reply 1."

    _listening(redis_url, story)


def test_another_turns_reply_is_not_taken_for_ours(parts: Parts, redis_url: str) -> None:
    async def story(replies: Replies) -> None:
        with replies.expect(SID, 2) as expected:
            parts.store.commit(_heard(parts), 1, "One.")
            parts.store.commit(_heard(parts, 2), 2, "Two.")
            reply = await expected.wait(5)
            assert reply is not None
            assert reply.text == "Two."

    _listening(redis_url, story)


def test_the_end_of_the_call_ends_the_waiting(parts: Parts, redis_url: str) -> None:
    _heard(parts)

    async def story(replies: Replies) -> None:
        with replies.expect(SID, 1) as expected:
            parts.store.handovers.transfer(SID, "asked for a person")
            reply = await expected.wait(5)
            assert reply is not None
            assert reply.over
            assert not reply.done
            assert reply.status is not None
            assert reply.status.handling == "human"

    _listening(redis_url, story)


def test_waiting_for_a_call_that_nobody_knows_says_so(parts: Parts, redis_url: str) -> None:
    async def story(replies: Replies) -> None:
        with pytest.raises(UnknownCall):
            await replies.wait(SID, 1, 5)

    _listening(redis_url, story)


def test_without_a_reply_the_waiting_has_an_end(parts: Parts, redis_url: str) -> None:
    _heard(parts)

    async def story(replies: Replies) -> None:
        assert await replies.wait(SID, 1, 0.1) is None

    _listening(redis_url, story)


def test_many_wait_on_one_subscription(parts: Parts, redis_url: str) -> None:
    sids = [f"CA{number}" for number in range(50)]
    leases = [_heard(parts, sid=sid) for sid in sids]

    async def story(replies: Replies) -> None:
        waiting = [asyncio.create_task(replies.wait(sid, 1, 10)) for sid in sids]
        assert parts.client.pubsub_numsub("callflow:said") == [("callflow:said", 1)]
        for lease in leases:
            parts.store.commit(lease, 1, f"Hello {lease.call_sid}.")
        replied = await asyncio.gather(*waiting)
        assert [reply.text for reply in replied if reply] == [f"Hello {sid}." for sid in sids]

    _listening(redis_url, story)
