"""What a session says on its socket, and what it keeps of that for the next one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from callflow.errors import StoreError
from callflow.twilio import relay_frames as frames
from callflow.web.addresses import Flight
from callflow.web.by_socket import BySocket
from callflow.web.hook import Hook, Said, counted
from callflow.web.party import Party, now_ms
from callflow.web.speaking import Spoken


class Over(Exception):
    """The session is over: the carrier was told so, and why, where it will be asked for."""


def let_go(task: asyncio.Task[Any]) -> None:
    """Cancel what nobody waits for any more; what it fails at meanwhile is asked for again."""
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    task.cancel()


class Talk:
    """One socket's side of the conversation. `send` sends one frame."""

    def __init__(self, party: Party, hook: Hook, send: Callable[[str], Awaitable[None]]) -> None:
        self.call_sid = hook.call_sid
        self._party = party
        self._hook = hook
        self._send = send
        self._answers = party.answers(hook)
        self._spoken = Spoken(party.settings.speech_letters_per_s)
        self._listening_since = time.monotonic()
        self._untold: tuple[int, bool] | None = None
        """The turn of whose reply the record does not know how far it was spoken, and whether the
        carrier began with it by itself."""
        letters = counted(hook.fields.get("letters", "")) or 0
        greeted_until = time.monotonic() + letters / party.settings.speech_letters_per_s
        self._phrases_of_people = BySocket(
            party, self.call_sid, self._spoken, greeted_until, self._aloud
        )

    async def interrupted(self, until: str) -> None:
        """The caller spoke into what we were saying: keep what they had heard of it."""
        self._listening_since = time.monotonic()
        await self._phrases_of_people.interrupted(until)
        cut = self._spoken.interrupted(until, time.monotonic())
        if cut is not None:
            # Else the reply stands as a whole; what was cut off of it may be said again.
            with suppress(StoreError):
                await self._party.soon(self._party.intake.store.interrupt, self.call_sid, *cut)

    async def played(self, text: str) -> None:
        """The caller has heard these words of ours: should the socket break, we go on after them,
        or after what there was time for where the server cannot be told."""
        await self._phrases_of_people.played(text)
        known = self._spoken.played(text)
        if known is not None:
            try:
                await self._party.soon(self._party.intake.store.save_played, self.call_sid, *known)
            except StoreError:
                self._untold = self._untold or (known[0], False)

    async def tell_untold(self) -> None:
        """The socket is gone, and the server may be back: whoever goes on must not say again what
        was heard meanwhile. Raises StoreError."""
        self._phrases_of_people.stops()
        await self._tell_untold()
        await self._phrases_of_people.note_heard()

    async def _tell_untold(self) -> None:
        if self._untold is not None:
            turn, greeted = self._untold
            await self._tell_sent(turn, greeted=greeted)

    def _greeting_s(self) -> float:
        """How long the carrier speaks by itself; no longer than one waits who speaks into it."""
        settings = self._party.settings
        letters = counted(self._hook.fields.get("letters", "")) or 0
        return min(letters / settings.speech_letters_per_s, settings.reply_wait_s)

    async def _tell_sent(self, turn: int, *, greeted: bool = False) -> None:
        """`greeted`: the carrier itself had it, to begin with. When it began nobody knows, so none
        of it counts as heard before the carrier says so: better said again than left out."""
        spoken = self._spoken
        self._untold = turn, greeted
        heard = spoken.heard.get(turn, 0)
        await self._party.soon(
            self._party.intake.store.save_sent,
            self.call_sid,
            turn,
            len(spoken.sent[turn]),
            left_ms=round(spoken.left_s(time.monotonic()) * 1000),
            played=heard if spoken.tells or greeted else None,
        )
        if spoken.heard.get(turn, 0) == heard:
            self._untold = None

    async def _speak_in(self, language: str | None) -> None:
        """The reply is in another language than before: speak, and listen, in that one."""
        answers = self._party.answers_in(self._answers, language)
        if answers is not self._answers:
            self._answers = answers
            await self._send(frames.language(answers.language))

    async def _aloud(self, text: str) -> None:
        await self._send(frames.text(text, last=True))
        self._spoken.aloud(text, time.monotonic())

    def _speak_by(self) -> float:
        """When the caller must hear something again (monotonic, s)."""
        silent_since = max(self._spoken.quiet_at, self._listening_since)
        return silent_since + self._party.settings.reply_wait_s

    async def leave(
        self, reason: str, *, said: Said | None = None, turn: int = 0, waited_s: float = 0.0
    ) -> None:
        """End the session; the action address is asked what comes next. Raises Over.

        `said` goes with it; the caller has waited for so long since.
        """
        since_ms = now_ms() - round(waited_s * 1000)
        carried = {} if said is None else Flight(said, since_ms).handoff | {"n": str(turn)}
        self._phrases_of_people.stops()
        await self._send(frames.end({"reason": reason, **carried}))
        raise Over
