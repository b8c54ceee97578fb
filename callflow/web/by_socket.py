"""How a phrase of a person reaches a caller on a relay socket, and when it counts as heard.

The socket is given the phrase, sends it behind all that it has sent, and notes when it will have
been said. Where the carrier tells what was played, its word counts; else the time does. Should the
socket break before that, whoever speaks with the caller next is given the phrase again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from callflow.errors import StoreError
from callflow.store.standing import Standing
from callflow.web.party import Party
from callflow.web.speaking import EARSHOT_LETTERS, Spoken, heard_of, spoken_s

TOLD_LATE_S = 5.0
"""So much later than we reckon a carrier tells that something was played to its end, if at all: a
phrase whose socket lives on for so long was heard."""

UNTOLD_S = 600.0
"""For so long a phrase of which the carrier has not told that it was played is given to the next
socket or request: this one may have broken at once, and nobody else have come since."""


@dataclass(slots=True)
class _Sent:
    """A phrase that was sent; `until`: when it will have been said (monotonic, s); `played`: how
    many of its letters the carrier tells to have been heard."""

    text: str
    until: float
    played: int = 0

    def hears(self, words: str) -> bool:
        """The carrier tells that `words` were played: True where that was the end of this."""
        at = self.text.find(words, self.played)
        if at >= 0:
            self.played = at + len(words)
        elif self.text in words:
            self.played = len(self.text)
        else:
            return False
        return self.played >= len(self.text) - EARSHOT_LETTERS


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
        self._sent: dict[str, _Sent] = {}
        """Those that nobody has noted as heard, by their ids."""

    async def say(self, standing: Standing | None) -> bool:
        """Say what waits, behind all that was sent; True when there was something. What was heard
        by now is noted."""
        if standing is None or not standing.sayings:
            return False
        late_s = TOLD_LATE_S if self._spoken.tells else 0.0
        over = time.monotonic() - late_s
        await self._heard([one for one, sent in self._sent.items() if sent.until < over])
        fresh = 0
        with suppress(StoreError):  # They wait in the record.
            sayings = self._party.intake.store.sayings
            given = await self._party.desk.ask(sayings.utter, self._call_sid, self._teller)
            for one in given:
                # Those that we have sent are given again where that could not be noted.
                if one.id not in self._sent:
                    await self._send(one.id, one.text)
                    fresh += 1
                await self._note(one.id)
        return fresh > 0

    async def _send(self, name: str, text: str) -> None:
        await self._aloud(text)
        behind_greeting = self._greeted_until + spoken_s(text, self._spoken.letters_per_s)
        self._sent[name] = _Sent(text, max(self._spoken.quiet_at, behind_greeting))

    async def _note(self, name: str) -> None:
        left_s = UNTOLD_S if self._spoken.tells else self._sent[name].until - time.monotonic()
        await self._party.desk.ask(
            self._party.intake.store.sayings.uttered,
            self._call_sid,
            [name],
            left_ms=round(left_s * 1000),
        )

    async def played(self, text: str) -> None:
        """The carrier tells that these words were heard."""
        words = text.strip()
        if words:
            await self._heard([one for one, sent in self._sent.items() if sent.hears(words)])

    async def interrupted(self, until: str) -> None:
        """The caller spoke into what was being said, of which `until` was heard last. Into a
        phrase: then it is not said again. What the carrier had not begun, it has dropped."""
        now = time.monotonic()
        await self._heard(
            [
                one
                for one, sent in self._sent.items()
                if sent.played or sent.until <= now or heard_of(sent.text, until)
            ]
        )
        if self._sent:
            self._sent.clear()
            self._teller = secrets.token_hex(8)

    async def _heard(self, names: Sequence[str]) -> None:
        if names:
            with suppress(StoreError):  # Noted with the next one, or when its time is over.
                sayings = self._party.intake.store.sayings
                await self._party.desk.ask(sayings.uttered, self._call_sid, names)
                for name in names:
                    del self._sent[name]
