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
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import redis.asyncio
from redis.exceptions import RedisError

from callflow.call.record import ThreadEntry
from callflow.errors import UnknownCall
from callflow.redis.scripts import CONNECT_TIMEOUT_S, address, connect_async, translated
from callflow.store.keys import SAID_CHANNEL, call_keys
from callflow.store.standing import Reply, Standing

RECENT = 8
"""Thread entries that a waiter reads: its own turn, and a few more said meanwhile."""

_NO_TURN = -1
"""For an ear that no reply is meant for."""

REREAD_S = 1.0
"""How long a waiter trusts the notifications before it looks into the record itself."""


UNHEARD_MOST = 2
"""So many pings in a row are left unanswered by a server that is frozen or cut off: listen anew,
in a cluster at another node."""

_ASKED = tuple(Standing.model_fields)


READERS = 16
"""Callers of one process that read at the same time; the others stand in line, each for well under
a millisecond. A hundred at once exhaust redis-py's pool, which then refuses, and its blocking pool
is unfair: of 500 calls some waited for more than two seconds."""


@dataclass(eq=False, slots=True)
class _Ear:
    """One waiter: what it was told, and that it was told something."""

    turn: int
    said: asyncio.Event = field(default_factory=asyncio.Event)
    text: str | None = None
    lang: str | None = None
    done: bool = False

    def tell(self, line: str) -> None:
        """`line`: a draft, or a reply as it stands in the thread; empty for any other change."""
        if line and not self._told_text(json.loads(line)):
            return
        self.said.set()

    def _told_text(self, said: dict[str, Any]) -> bool:
        if said["turn"] != self.turn or self.done:
            return False
        self.text, self.lang, self.done = said["text"], said.get("lang"), "role" in said
        return True


class Replies:
    """Create it inside a running event loop with `Replies.listening(url)`."""

    def __init__(self, client: redis.asyncio.Redis) -> None:
        self._client = client
        self._where = address(client)
        self._ears: defaultdict[str, set[_Ear]] = defaultdict(set)
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
    def expect(self, call_sid: str, turn: int) -> Iterator[Expected]:
        """Prick up the ears for the reply to `turn`, best before the utterance is stored: then
        nothing is missed, and nothing has to be read."""
        ear = _Ear(turn)
        self._ears[call_sid].add(ear)
        try:
            yield Expected(self, call_sid, ear)
        finally:
            self._ears[call_sid].discard(ear)
            if not self._ears[call_sid]:
                del self._ears[call_sid]

    def waiting(self, call_sid: str) -> int:
        """How many wait for a reply of this call, in this process."""
        return len(self._ears.get(call_sid, ()))

    async def follow(self, call_sid: str, turn: int) -> AsyncGenerator[Reply]:
        """The reply to a turn that was stored before, as it grows: see `Expected.follow`."""
        with self.expect(call_sid, turn) as expected:
            async for reply in expected.follow(look_first=True):
                yield reply

    async def wait(self, call_sid: str, turn: int, timeout_s: float) -> Reply | None:
        """The finished reply to a turn that was stored before: see `Expected.wait`."""
        with self.expect(call_sid, turn) as expected:
            return await expected.wait(timeout_s, look_first=True)

    async def read(self, call_sid: str, turn: int) -> Reply:
        """What the record says of the reply to `turn`. Raises UnknownCall."""
        standing, thread = await self._ask(call_sid, -RECENT)
        said = _reply_in(thread, turn)
        if said is None and len(thread) == RECENT:
            # The call has gone on since: the reply to an old turn may stand further up.
            standing, thread = await self._ask(call_sid, 0)
            said = _reply_in(thread, turn)
        if said is not None:
            return Reply(said.text, True, standing, said.lang)
        draft = standing.draft
        if draft is None or draft.turn != turn:
            return Reply("", False, standing)
        return Reply(draft.text, False, standing, draft.lang)

    @contextmanager
    def watch(self, call_sid: str) -> Iterator[Watched]:
        """Notice changes of a call in which nobody waits for a reply."""
        with self.expect(call_sid, _NO_TURN) as expected:
            yield Watched(self, call_sid, expected)

    async def standing(self, call_sid: str) -> Standing:
        """Where the call stands. Raises UnknownCall."""
        return (await self._ask(call_sid, -1))[0]

    async def _ask(self, call_sid: str, since: int) -> tuple[Standing, list[str]]:
        """Where the call stands, and its thread from entry `since` on, in one round trip."""
        keys = call_keys(call_sid)
        with translated(self._where):
            async with self._readers, self._client.pipeline(transaction=False) as pipe:
                pipe.hmget(keys.call, *_ASKED)
                pipe.lrange(keys.thread, since, -1)
                fields, thread = await pipe.execute()
        if fields[0] is None:
            raise UnknownCall(call_sid)
        known = zip(_ASKED, fields, strict=True)
        members = ",".join(f'"{name}":{value}' for name, value in known if value is not None)
        return Standing.model_validate_json(f"{{{members}}}"), thread

    async def _listen(self) -> None:
        """Hand notifications on for ever; a lost connection costs only notifications."""
        while True:
            with suppress(RedisError):
                async with self._client.pubsub() as channel:
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
        for ear in self._ears.get(call_sid, ()):
            ear.tell(line)


class Expected:
    """The reply that one waiter expects."""

    def __init__(self, replies: Replies, call_sid: str, ear: _Ear) -> None:
        self._replies = replies
        self._call_sid = call_sid
        self._ear = ear

    async def follow(
        self, *, look_first: bool = False, until: float | None = None
    ) -> AsyncGenerator[Reply]:
        """The reply as it grows; ends after the one that is `done`, or when the call is over, or at
        the loop's time `until`.

        `look_first`: the utterance may have been stored before we listened, so what is known of the
        reply is read at once. Raises UnknownCall when there is no such call (any more).
        """
        last = ""
        while True:
            if not look_first:
                await self._said(REREAD_S)
            look_first = False
            # A timeout around us is not enough: on Python 3.11 redis-py sends by `wait_for`, which
            # swallows a cancellation that comes while it ends. The waiter then waited for ever.
            if until is not None and asyncio.get_running_loop().time() >= until:
                return
            reply = await self._reply()
            if reply.done or reply.over or reply.text not in ("", last):
                last = reply.text
                yield reply
            if reply.done or reply.over:
                return

    async def wait(self, timeout_s: float, *, look_first: bool = False) -> Reply | None:
        """The finished reply, or the end of the call; None when `timeout_s` is over."""
        until = asyncio.get_running_loop().time() + timeout_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                async for reply in self.follow(look_first=look_first, until=until):
                    if reply.done or reply.over:
                        return reply
        return None

    async def told(self, within_s: float) -> None:
        """Wait for a notification that was not waited for before, at most so long."""
        await self._said(within_s)
        self._ear.said.clear()

    async def _said(self, within_s: float) -> None:
        """Wait for a notification, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._ear.said.wait()

    async def _reply(self) -> Reply:
        self._ear.said.clear()
        text, self._ear.text = self._ear.text, None
        if text is not None:
            return Reply(text, self._ear.done, lang=self._ear.lang)
        return await self._replies.read(self._call_sid, self._ear.turn)


@dataclass(frozen=True, slots=True)
class Watched:
    """A call that one waiter keeps an eye on."""

    replies: Replies
    call_sid: str
    expected: Expected

    async def change(self, within_s: float) -> Standing:
        """Where the call stands after its next change, or after so long without one."""
        await self.expected.told(within_s)
        return await self.replies.standing(self.call_sid)


def _reply_in(thread: list[str], turn: int) -> ThreadEntry | None:
    for line in reversed(thread):
        entry = ThreadEntry.model_validate_json(line)
        if entry.turn == turn and entry.role == "agent":
            return entry
    return None
