"""What one person hears, and for how long they hear nothing while somebody owes them a word.

The whole of the silence accounting is here: words and tones close a silence, their end opens one,
and `relieve` says that nobody is expected to speak (the line listens, or the person speaks).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from callflow.lab.carrier.report import CallReport, Cause, Heard, Kind, Silence

SHORTEST_S: Final = 0.05
"""Between two sentences or tokens nobody notices less. After the caller's own words all counts."""

Tell = Callable[[str, dict[str, object]], None]
"""Is told each event as it happens: its name, and facts that JSON can hold."""


class Ear:
    """Times given and kept are monotonic, s; the report has them from the call's beginning."""

    def __init__(
        self,
        report: CallReport,
        fillers: Collection[str] = (),
        tell: Tell | None = None,
        say_again: Collection[str] = (),
    ) -> None:
        self.report = report
        self.began = time.monotonic()
        self._fillers = frozenset(_plain(filler) for filler in fillers)
        self._again = frozenset(_plain(phrase) for phrase in say_again)
        self._tell = tell
        self._cause: Cause | None = None
        self._since = 0.0
        self._mischief_before = 0.0

    @property
    def silent_since(self) -> float | None:
        """Since when the application has owed a word; None while it does not."""
        return None if self._cause is None else self._since

    @staticmethod
    def now() -> float:
        """The clock of all times here."""
        return time.monotonic()

    def tell(self, event: str, **facts: object) -> None:
        """Pass an event on to whoever looks on."""
        if self._tell is not None:
            self._tell(event, {"at_s": round(time.monotonic() - self.began, 3), **facts})

    def owe(self, cause: Cause, since: float | None = None) -> None:
        """It is the application's turn; a silence that runs already goes on."""
        if self._cause is None:
            self._cause = cause
            self._since = time.monotonic() if since is None else since
            self._mischief_before = self.report.mischief_s

    def relieve(self) -> None:
        """Nobody is expected to speak: the silence, if there is one, ends here."""
        if self._cause is None:
            return
        cause, self._cause = self._cause, None
        length = time.monotonic() - self._since
        if length < SHORTEST_S and cause != "reply":
            return
        turn = self.report.turns[-1].number if self.report.turns else 0
        mischief = min(length, self.report.mischief_s - self._mischief_before)
        silence = Silence(self._since - self.began, length, cause, turn, mischief)
        self.report.silences.append(silence)
        self.tell("silence", length_s=round(length, 3), cause=cause)

    def begin(self, text: str, kind: Kind, at: float | None = None) -> Heard:
        """Something is heard from now on, or from `at`, when what is being said will have ended."""
        self.relieve()
        begins = time.monotonic() if at is None else at
        heard = Heard(begins - self.began, text, kind, filler=self.is_filler(text))
        turns = self.report.turns
        (turns[-1].heard if turns else self.report.greeting).append(heard)
        self.tell("heard", kind=kind, text=text, filler=heard.filler)
        return heard

    def finish(self, heard: Heard, text: str | None = None, at: float | None = None) -> None:
        """It is over. `text`: the part that was heard, if it was cut off."""
        ended = time.monotonic() if at is None else at
        heard.until_s = ended - self.began
        if text is not None and text != heard.text:
            heard.text, heard.cut = text, True
            self.tell("cut", text=text)

    def unhear(self, heard: Heard) -> None:
        """It was to be said, and then was not."""
        for one in (self.report.greeting, *(turn.heard for turn in self.report.turns[-2:])):
            if heard in one:
                one.remove(heard)

    def is_filler(self, text: str) -> bool:
        """True for a phrase after which one goes on waiting."""
        return _plain(text) in self._fillers

    def asks_again(self, text: str) -> bool:
        """True for a phrase that asks for what was said: no answer, and one's turn all the same."""
        return _plain(text) in self._again

    def settle_turn(self) -> None:
        """It is the caller's turn again, or the call is over: what they heard was the answer."""
        if self.report.turns:
            turn = self.report.turns[-1]
            spoken = (one for one in turn.heard if one.kind not in ("ring", "music", "stock"))
            turn.answered = turn.answered or any(not one.filler for one in spoken)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
