"""Waits for replies: one shared subscription per process, whatever number of callers wait.

What is published is the CallSid of a call that has changed, and with it the draft that has grown or
the reply that was committed: both were written under the fence, so they need not be read again. The
record is the truth all the same; and because a notification may be lost, it is read when none has
come for a while.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import (
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass, field
from typing import Any, Final

from callflow.call.record import CallStatus, ReplyProgress, ThreadEntry
from callflow.errors import UnknownCall
from callflow.redis.client import (
    CONNECT_TIMEOUT_S,
    AsyncClient,
    RedisError,
    address,
    connect_async,
    subscription,
    translated,
)
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.reader import from_fields

RECENT: Final = 8
"""Thread entries that a waiter reads: its own turn, and a few more said meanwhile."""

NO_TURN: Final = -1
"""For who waits for changes, and for no reply."""

REREAD_S: Final = 1.0
"""How long a waiter trusts the notifications before it looks into the record itself."""

UNHEARD_MOST: Final = 2
"""So many pings in a row are left unanswered by a server that is frozen or cut off: listen anew,
in a cluster at another node."""

READERS: Final = 16
"""Callers of one process that read at the same time; the others stand in line, each for well under
a millisecond. A hundred at once exhaust redis-py's pool, which then refuses, and its blocking pool
is unfair: of 500 calls some waited for more than two seconds."""


_STATUS_FIELDS: Final = tuple(CallStatus.model_fields)


@dataclass(eq=False, slots=True)
class _Waiter:
    """What one who waits for the reply to `turn` was notified of."""

    turn: int
    notified: asyncio.Event = field(default_factory=asyncio.Event)
    text: str | None = None
    lang: str | None = None
    done: bool = False

    def notify(self, line: str) -> None:
        """`line`: a draft, or a reply as it stands in the thread; empty for any other change."""
        if line:
            said = json.loads(line)
            if said["turn"] != self.turn or self.done:
                return
            self.text, self.lang, self.done = said["text"], said.get("lang"), "role" in said
        self.notified.set()


class Replies:
    """Create it inside a running event loop with `Replies.listening(url)`."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._where = address(client)
        self._waiters: defaultdict[str, set[_Waiter]] = defaultdict(set)
        self._subscribed = asyncio.Event()
        self._readers = asyncio.Semaphore(READERS)

    @classmethod
    @asynccontextmanager
    async def listening(cls, url: str) -> AsyncIterator[Replies]:
        """Connect, listen for as long as the block runs, and leave nothing behind."""
        client = connect_async(url)
        replies = cls(client)
        listener = asyncio.create_task(replies._listen())
        try:
            # Not a condition: until it is there, waiters read the record a little later.
            with suppress(TimeoutError):
                await asyncio.wait_for(replies._subscribed.wait(), CONNECT_TIMEOUT_S)
            yield replies
        finally:
            listener.cancel()
            with suppress(asyncio.CancelledError):
                await listener
            # A server that does not even take a farewell has closed the connection for us.
            with suppress(RedisError):
                await client.aclose()

    @contextmanager
    def expect(self, call_sid: str, turn: int) -> Iterator[ExpectedReply]:
        """Wait for the reply to `turn`, best from before the utterance is stored: then nothing is
        missed, and nothing has to be read."""
        waiter = _Waiter(turn)
        self._waiters[call_sid].add(waiter)
        try:
            yield ExpectedReply(self, call_sid, waiter)
        finally:
            self._waiters[call_sid].discard(waiter)
            if not self._waiters[call_sid]:
                del self._waiters[call_sid]

    def watch(self, call_sid: str) -> AbstractContextManager[ExpectedReply]:
        """Notice changes of a call in which nobody waits for a reply."""
        return self.expect(call_sid, NO_TURN)

    def waiting(self, call_sid: str) -> int:
        """How many wait for a reply of this call, in this process."""
        return len(self._waiters.get(call_sid, ()))

    async def follow(self, call_sid: str, turn: int) -> AsyncGenerator[ReplyProgress]:
        """The reply to a turn that was stored before, as it grows: see `ExpectedReply.follow`."""
        with self.expect(call_sid, turn) as expected:
            async for reply in expected.follow(look_first=True):
                yield reply

    async def wait(self, call_sid: str, turn: int, timeout_s: float) -> ReplyProgress | None:
        """The finished reply to a turn that was stored before: see `ExpectedReply.wait`."""
        with self.expect(call_sid, turn) as expected:
            return await expected.wait(timeout_s, look_first=True)

    async def read(self, call_sid: str, turn: int) -> ReplyProgress:
        """What the record says of the reply to `turn`. Raises UnknownCall."""
        status, thread = await self._read(call_sid, -RECENT)
        reply = _reply_in(thread, turn)
        if reply is None and len(thread) == RECENT:
            # The call has gone on since: the reply to an old turn may stand further up.
            status, thread = await self._read(call_sid, 0)
            reply = _reply_in(thread, turn)
        if reply is not None:
            return ReplyProgress(reply.text, True, status, reply.lang)
        draft = status.draft
        if draft is None or draft.turn != turn:
            return ReplyProgress("", False, status)
        return ReplyProgress(draft.text, False, status, draft.lang)

    async def status(self, call_sid: str) -> CallStatus:
        """Where the call stands. Raises UnknownCall."""
        return (await self._read(call_sid, -1))[0]

    async def _read(self, call_sid: str, since: int) -> tuple[CallStatus, list[str]]:
        """Where the call stands, and its thread from entry `since` on, in one round trip."""
        keys = call_keys(call_sid)
        with translated(self._where):
            async with self._readers, self._client.pipeline(transaction=False) as pipe:
                pipe.hmget(keys.call, *_STATUS_FIELDS)
                pipe.lrange(keys.thread, since, -1)
                values, thread = await pipe.execute()
        if values[0] is None:
            raise UnknownCall(call_sid)
        fields = zip(_STATUS_FIELDS, values, strict=True)
        return from_fields(CallStatus, fields), thread

    async def _listen(self) -> None:
        """Hand notifications on for ever; a lost connection costs only notifications."""
        while True:
            with suppress(RedisError):
                async with await subscription(self._client) as channel:
                    await channel.subscribe(SAID_CHANNEL)
                    unheard = 0
                    while unheard <= UNHEARD_MOST:
                        message = await channel.get_message(timeout=REREAD_S)
                        unheard = 0 if message else unheard + 1
                        if message is not None:
                            self._hand_on(message)
                        else:
                            await channel.ping()
            self._subscribed.clear()
            await asyncio.sleep(0.1)

    def _hand_on(self, message: dict[str, Any]) -> None:
        if message["type"] != "message":
            self._subscribed.set()
            return
        call_sid, _, line = message["data"].partition("\n")
        for waiter in self._waiters.get(call_sid, ()):
            waiter.notify(line)


class ExpectedReply:
    """What one waiter waits for: a reply, or the next change of the call."""

    def __init__(self, replies: Replies, call_sid: str, waiter: _Waiter) -> None:
        self._replies = replies
        self._call_sid = call_sid
        self._waiter = waiter

    async def follow(
        self, *, look_first: bool = False, until: float | None = None
    ) -> AsyncGenerator[ReplyProgress]:
        """The reply as it grows; ends after the one that is `done`, or when the call is over, or at
        the loop's time `until`.

        `look_first`: the utterance may have been stored before we listened, so what is known of the
        reply is read at once. Raises UnknownCall when there is no such call (any more).
        """
        last = ""
        while True:
            if not look_first:
                await self._wait_for_change(REREAD_S)
            look_first = False
            # A timeout around us is not enough: on Python 3.11 redis-py sends by `wait_for`, which
            # swallows a cancellation that comes while it ends. The waiter then waited for ever.
            if until is not None and asyncio.get_running_loop().time() >= until:
                return
            reply = await self._take()
            if reply.done or reply.over or reply.text not in ("", last):
                last = reply.text
                yield reply
            if reply.done or reply.over:
                return

    async def wait(self, timeout_s: float, *, look_first: bool = False) -> ReplyProgress | None:
        """The finished reply, or the end of the call; None when `timeout_s` is over."""
        until = asyncio.get_running_loop().time() + timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                async for reply in self.follow(look_first=look_first, until=until):
                    if reply.done or reply.over:
                        return reply
        return None

    async def change(self, within_s: float) -> CallStatus:
        """Where the call stands after its next change, or after so long without one."""
        await self._wait_for_change(within_s)
        self._waiter.notified.clear()
        return await self._replies.status(self._call_sid)

    async def _wait_for_change(self, within_s: float) -> None:
        """Wait for a notification, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._waiter.notified.wait()

    async def _take(self) -> ReplyProgress:
        waiter = self._waiter
        waiter.notified.clear()
        text, waiter.text = waiter.text, None
        if text is not None:
            return ReplyProgress(text, waiter.done, lang=waiter.lang)
        return await self._replies.read(self._call_sid, waiter.turn)


def _reply_in(thread: list[str], turn: int) -> ThreadEntry | None:
    for line in reversed(thread):
        entry = ThreadEntry.model_validate_json(line)
        if entry.turn == turn and entry.role == "agent":
            return entry
    return None
