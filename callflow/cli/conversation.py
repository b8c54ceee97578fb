"""One call as its caller lives it: speak, hear the reply grow, speak again.

It keeps nothing that matters. Any number of these may look at one call; the turn number decides
whose words are stored, as it does for webhooks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from typing import TypeVar

from callflow import bootstrap
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.call.utterance import clean
from callflow.celery import Wake
from callflow.cli.voice import Voice
from callflow.errors import CallEnded, CallError, StoreUnavailable, TurnOutOfOrder
from callflow.store.outcome import Finish, Hear, Open
from callflow.store.replies import CallStatus, Replies, ReplyProgress

REPLY_WITHIN_S = 20.0
"""From what was said, or from the last piece of the reply, to the next piece of it."""

_AGAIN_S = 0.3

T = TypeVar("T")


class NoReply(CallError):
    """Nothing was answered for so long that somebody has to look."""

    def __init__(self, call_sid: str, turn: int, within_s: float) -> None:
        self.turn = turn
        super().__init__(
            call_sid,
            f"got no reply to turn {turn} within {within_s:.0f} s: what was said is stored; "
            "`callflow doctor` tells what is wrong",
        )


class Conversation:
    """One call. `open` is True while more can be said in it."""

    def __init__(self, call_sid: str, url: str, voice: Voice) -> None:
        self.call_sid = call_sid
        self.open = False
        self._url = url
        self._voice = voice
        self._heard = 0
        self._human_told: str | None = None
        self._loss_told = False

    def begin(self, *, site: str | None, language: str) -> bool:
        """Open the call, or go on with it; False when there is nothing left to say in it.

        Raises CallEnded for a call that is complete.
        """
        site = None if site is None else clean(self.call_sid, site)
        word = bootstrap.intake().open(self.call_sid, site=site, language=language)
        record = bootstrap.reader().read(self.call_sid)
        self._voice.opened(record, known=word is Open.KNOWN)
        if record.call_state is CallState.COMPLETE:
            if word is Open.KNOWN:
                raise CallEnded(self.call_sid, "hear")
            self._over(record)
            return False
        self.open = True
        self._heard = record.heard
        for turn in range(record.answered + 1, record.heard + 1):
            self._listen(turn)
        return self.open

    def talk(self) -> None:
        """Say each line of the input and hear its reply, until either side ends the call."""
        while self.open and (text := self._voice.listen()) is not None:
            try:
                turn = self._say(text)
            except CallEnded:
                # Somebody else has ended it, or a human has taken it, while we were silent.
                self._over(bootstrap.reader().read(self.call_sid))
                return
            self._listen(turn)

    def hang_up(self) -> None:
        """End the call, unless it is over already."""
        if not self.open:
            return
        word = _patiently(partial(bootstrap.intake().end, self.call_sid, "hung_up"))
        self.open = False
        if word is Finish.FINISHED:
            self._voice.ended("hung_up")
        elif record := bootstrap.reader().find(self.call_sid):
            self._over(record)

    def _say(self, text: str) -> int:
        """Store what was said, and return its turn."""
        while True:
            turn = self._heard + 1
            try:
                hear = partial(bootstrap.intake().hear, self.call_sid, turn, text)
                heard, wake = _patiently(hear)
            except TurnOutOfOrder as error:
                # The record lost turns in a failover: what it has is what counts.
                self._voice.note(str(error))
                self._heard = error.heard
                continue
            self._heard = turn
            if wake is Wake.LOST:
                self._tell_loss()
            if heard.word is Hear.HEARD or self._ours(turn, text):
                return turn
            self._voice.note(f"somebody else speaks in this call too: turn {turn} was taken")

    def _tell_loss(self) -> None:
        if not self._loss_told:
            self._loss_told = True
            self._voice.note(
                "the message to the workers was lost (the broker cannot be reached); the watchdog "
                "will make it good within some seconds"
            )

    def _ours(self, turn: int, text: str) -> bool:
        """True when a repeated turn was our own first try, whose answer was lost."""
        record = bootstrap.reader().read(self.call_sid)
        return record.said(turn, "caller") == clean(self.call_sid, text)

    def _listen(self, turn: int) -> None:
        """Hear the reply to `turn` as it grows. Raises NoReply."""
        last = asyncio.run(self._hear_reply(turn))
        standing = last.status or bootstrap.reader().read(self.call_sid)
        if standing.outcome is not None or standing.handling == "human":
            self._over(standing)
        elif standing.needs_human not in (None, self._human_told):
            self._human_told = standing.needs_human
            self._voice.human_wanted(standing.needs_human or "")

    async def _hear_reply(self, turn: int) -> ReplyProgress:
        last: ReplyProgress | None = None
        self._voice.waiting(turn)
        async with Replies.listening(self._url) as replies:
            async with aclosing(self._pieces(replies, turn)) as pieces:
                async for reply in pieces:
                    last = reply
                    self._voice.reply(turn, reply)
        assert last is not None, "Replies.follow ends with a reply"
        return last

    async def _pieces(self, replies: Replies, turn: int) -> AsyncGenerator[ReplyProgress, None]:
        """The growing reply; a server that goes away is waited for like a slow worker."""
        give_up = time.monotonic() + REPLY_WITHIN_S
        pieces = replies.follow(self.call_sid, turn)
        while True:
            try:
                reply = await asyncio.wait_for(anext(pieces), give_up - time.monotonic())
            except StopAsyncIteration:
                return
            except TimeoutError as error:
                raise NoReply(self.call_sid, turn, REPLY_WITHIN_S) from error
            except StoreUnavailable:
                if time.monotonic() > give_up:
                    raise
                await asyncio.sleep(_AGAIN_S)
                pieces = replies.follow(self.call_sid, turn)
            else:
                yield reply
                give_up = time.monotonic() + REPLY_WITHIN_S

    def _over(self, record: CallRecord | CallStatus) -> None:
        self.open = False
        if record.handling == "human":
            # There is no line here on which the human could speak: for us the call ends.
            bootstrap.intake().end(self.call_sid, "transferred")
            self._voice.human_took_over(record.needs_human or "unknown")
        else:
            self._voice.ended(record.outcome or "unknown")


def _patiently(ask: Callable[[], T]) -> T:
    """The answer, however often the server has to be asked within the time of one reply."""
    give_up = time.monotonic() + REPLY_WITHIN_S
    while True:
        try:
            return ask()
        except StoreUnavailable:
            if time.monotonic() > give_up:
                raise
            time.sleep(_AGAIN_S)
