"""Waits for replies: one shared subscription per process, whatever number of callers wait.

What is published is only the CallSid of a call that has said something. The record says what; and
because a notification may be lost, the record is also read when none has come for a while.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import RedisError

from callflow.call.record import CallRecord
from callflow.errors import UnknownCall
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.script import ANSWER_TIMEOUT_S, CONNECT_TIMEOUT_S, address, translated
from callflow.store.snapshot import assemble

REREAD_S = 1.0
"""How long a waiter trusts the notifications before it looks into the record itself."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What can be said to the caller of one turn by now.

    `text` grows while the reply is being worded and is final when `done`. `record` is the whole
    call; when it is complete and the turn unanswered, no more text will come from us.
    """

    text: str
    done: bool
    record: CallRecord


class Replies:
    """Create it inside a running event loop with `Replies.listening(url)`."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client
        self._where = address(client)
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    @classmethod
    @asynccontextmanager
    async def listening(cls, url: str) -> AsyncIterator[Replies]:
        """Connect, listen for as long as the block runs, and leave nothing behind."""
        client = redis.asyncio.Redis.from_url(
            url,
            decode_responses=True,
            protocol=2,
            socket_connect_timeout=CONNECT_TIMEOUT_S,
            socket_timeout=ANSWER_TIMEOUT_S,
            retry=Retry(ExponentialWithJitterBackoff(cap=0.2, base=0.02), 2),
        )
        replies = cls(client)
        listener = asyncio.create_task(replies._listen())
        try:
            yield replies
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            # A server that does not even take a farewell has closed the connection for us.
            with suppress(RedisError):
                await client.aclose()

    async def follow(self, call_sid: str, turn: int) -> AsyncGenerator[Reply]:
        """The reply to `turn` as it grows; ends after the one that is `done`, or when the call is
        complete without it. Raises UnknownCall when there is no such call (any more)."""
        said = asyncio.Event()
        self._waiting[call_sid].add(said)
        try:
            last = None
            while True:
                said.clear()
                reply = await self._read(call_sid, turn)
                ended = reply.done or reply.record.outcome is not None
                if ended or (reply.text and reply.text != last):
                    last = reply.text
                    yield reply
                if ended:
                    return
                with suppress(TimeoutError):
                    await asyncio.wait_for(said.wait(), REREAD_S)
        finally:
            self._waiting[call_sid].discard(said)
            if not self._waiting[call_sid]:
                del self._waiting[call_sid]

    async def wait(self, call_sid: str, turn: int, timeout_s: float) -> Reply | None:
        """The finished reply to `turn` (or the completed call); None when `timeout_s` is over."""
        try:
            async with asyncio.timeout(timeout_s):
                last = None
                async for reply in self.follow(call_sid, turn):
                    last = reply
                return last
        except TimeoutError:
            return None

    async def _read(self, call_sid: str, turn: int) -> Reply:
        keys = call_keys(call_sid)
        with translated(self._where):
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.hgetall(keys.call)
                pipe.lrange(keys.thread, 0, -1)
                fields, thread = await pipe.execute()
        if not fields:
            raise UnknownCall(call_sid)
        record = assemble(fields.items(), thread)
        text = record.said(turn, "agent")
        if text is not None:
            return Reply(text, True, record)
        draft = record.draft.text if record.draft and record.draft.turn == turn else ""
        return Reply(draft, False, record)

    async def _listen(self) -> None:
        """Hand notifications on for ever; a lost connection costs only notifications."""
        while True:
            with suppress(RedisError):
                async with self._client.pubsub() as channel:
                    await channel.subscribe(SAID_CHANNEL)
                    while True:
                        message = await channel.get_message(True, timeout=REREAD_S)
                        for said in self._waiting.get(message["data"], ()) if message else ():
                            said.set()
            await asyncio.sleep(0.1)
