"""How a phrase of a person reaches a caller on a relay socket, and when it counts as heard.

The socket is given the phrase, sends it behind all that it has sent, and says when it was heard:
when the carrier tells so, or when it lives on past the time that it takes to say it. Nobody else
can know that: should the socket break before it has said so, whoever speaks with the caller next is
given the phrase again, however much later that is.
"""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from callflow.errors import StoreError
from callflow.store.replies import CallStatus
from callflow.web.party import Party
from callflow.web.speaking import EARSHOT_LETTERS, Spoken, heard_of, spoken_s

TOLD_LATE_S = 5.0
"""So much later than we reckon a carrier tells that something was played to its end, if at all: a
phrase whose socket lives on for so long was heard."""

UNTOLD_S = 600.0
"""For so long a phrase that was sent, and of which nobody has said that it was heard, is given to
the next socket or request: this one may have broken at once, and nobody else have come since."""


LOOK_AGAIN_S = 0.25
"""Sooner than that it is not looked again whether a phrase was heard, should that not be noted."""


@dataclass(slots=True)
class _Sent:
    """A phrase that was sent; `until`: when it will have been said (monotonic, s); `played`: how
    many of its letters the carrier tells to have been heard; `heard`: that is known to be all."""

    text: str
    until: float
    played: int = 0
    heard: bool = False

    def plays(self, words: str) -> None:
        """The carrier tells that `words` were played."""
        at = self.text.find(words, self.played)
        if at >= 0:
            self.played = at + len(words)
        elif self.text in words:
            self.played = len(self.text)
        else:
            return
        self.heard = self.heard or self.played >= len(self.text) - EARSHOT_LETTERS


class BySocket:
    """One socket's phrases. `aloud` sends one; `greeted_until`: so long the carrier speaks by
    itself when the socket opens (monotonic, s)."""

    def __init__(
        self,
        party: Party,
        call_sid: str,
        spoken: Spoken,
        greeted_until: float,
        aloud: Callable[[str], Awaitable[None]],
    ) -> None:
        self._party = party
        self._call_sid = call_sid
        self._spoken = spoken
        self._greeted_until = greeted_until
        self._aloud = aloud
        self._teller = secrets.token_hex(8)
        self._stopped_at = math.inf
        self._sent: dict[str, _Sent] = {}
        """Those that were sent, and that nobody has noted as heard, by their ids."""

    async def say(self, standing: CallStatus | None) -> bool:
        """Say what waits, behind all that was sent; True when there was something. What was heard
        by now is noted."""
        if standing is None:
            return False
        if not standing.sayings:
            self._sent.clear()  # Somebody has noted them.
            return False
        staff = self._party.intake.store.staff
        try:
            given = await self._party.soon(staff.take_phrases, self._call_sid, self._teller)
        except StoreError:
            return False  # They wait in the record; those of a late answer are given again.
        fresh = [one for one in given if one.id not in self._sent]
        for one in fresh:
            await self._aloud(one.text)
            behind_greeting = self._greeted_until + spoken_s(one.text, self._spoken.letters_per_s)
            self._sent[one.id] = _Sent(one.text, max(self._spoken.quiet_at, behind_greeting))
        if given:
            # Those that we have sent are given again where that could not be noted.
            with suppress(StoreError):
                names, left_ms = [one.id for one in given], round(UNTOLD_S * 1000)
                await self._party.soon(staff.mark_heard, self._call_sid, names, left_ms=left_ms)
        await self._note_heard()
        return bool(fresh)

    async def played(self, text: str) -> None:
        """The carrier tells that these words were heard."""
        if words := text.strip():
            for sent in self._sent.values():
                sent.plays(words)
            await self._note_heard()

    async def interrupted(self, until: str) -> None:
        """The caller spoke into what was being said, of which `until` was heard last. Into a
        phrase: then it is not said again. What the carrier had not begun, it has dropped."""
        now = time.monotonic()
        for name, sent in list(self._sent.items()):
            sent.heard = bool(
                sent.heard or sent.played or sent.until <= now or heard_of(sent.text, until)
            )
            if not sent.heard:
                # Said by us again: under another name, since it stands as being said under this.
                del self._sent[name]
                self._teller = secrets.token_hex(8)
        await self._note_heard()

    def look_s(self, most_s: float) -> float:
        """In how many seconds, `most_s` at most, there is something to be noted as heard."""
        late_s = TOLD_LATE_S if self._spoken.tells else 0.0
        over = min((one.until for one in self._sent.values()), default=math.inf) + late_s
        return min(most_s, max(LOOK_AGAIN_S, over - time.monotonic()))

    def stops(self) -> None:
        """Nothing more is said on this socket. Twice is once."""
        self._stopped_at = min(self._stopped_at, time.monotonic())

    async def note_heard(self) -> None:
        """Note which phrases were heard by now, so that nobody says them again. Raises StoreError:
        they are noted the next time."""
        late_s = TOLD_LATE_S if self._spoken.tells else 0.0
        over = min(time.monotonic(), self._stopped_at) - late_s
        names = [name for name, one in self._sent.items() if one.heard or one.until < over]
        if names:
            staff = self._party.intake.store.staff
            await self._party.soon(staff.mark_heard, self._call_sid, names)
            for name in names:
                self._sent.pop(name, None)  # Somebody may have noted it meanwhile.

    async def _note_heard(self) -> None:
        with suppress(StoreError):  # With the next one, or when the socket has gone.
            await self.note_heard()
