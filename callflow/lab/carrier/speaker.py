"""The voice of a relay session: tokens become words that are spoken one after the other.

No timer per token: where each one begins and ends is known when it arrives, so what was heard at
any moment can be computed to the letter, and one timer marks the end of all that has come so far.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from callflow.lab.carrier import speech
from callflow.lab.carrier.line import Line
from callflow.lab.carrier.report import Heard


@dataclass(slots=True)
class _Message:
    """Tokens up to the last one. Times are monotonic, s."""

    heard: Heard
    begins: float
    interruptible: bool
    preemptible: bool
    complete: bool = False
    pieces: list[tuple[str, float, float]] = field(default_factory=list)

    def spoken(self, until: float, speed: float) -> str:
        """What of it has been said then."""
        return "".join(
            text if end <= until else speech.spoken(text, until - begin, speed)
            for text, begin, end in self.pieces
            if begin < until
        )


class Speaker:
    """Speaks on one line."""

    def __init__(self, line: Line, played: Callable[[str], None] | None = None) -> None:
        """`played` is told each sentence once it has been said."""
        self._line = line
        self._played = played
        self._playing: list[asyncio.TimerHandle] = []
        self._ear = line.ear
        self._messages: list[_Message] = []
        self._until = 0.0
        self._end: asyncio.TimerHandle | None = None

    @property
    def busy(self) -> bool:
        """True while something is being said."""
        return time.monotonic() < self._until

    @property
    def interruptible_at(self) -> Callable[[float], float] | None:
        """When such a share of what has come of the message is over; None while it must not be
        interrupted, or is no more than a filler."""
        message = self._current(time.monotonic())
        if message is None or not message.interruptible or message.heard.filler:
            return None
        return lambda share: message.begins + share * (message.pieces[-1][2] - message.begins)

    def token(
        self, text: str, *, last: bool, interruptible: bool = True, preemptible: bool = False
    ) -> None:
        """Say `text` after all that came before. While the person speaks it is talked over: they
        would interrupt it at once."""
        if self._line.speaking:
            self._ear.tell("talked_over", text=text)
            return
        now = time.monotonic()
        message = self._messages[-1] if self._messages else None
        if message is not None and self._ear.is_filler(text):
            # A holding phrase in the middle of a reply is not a part of it, and the reply goes on.
            message.complete = True
        if message is None or message.complete:
            if not text:
                # A reply without words: nothing is heard, and it is the person's turn.
                if last and not self.busy:
                    self._hand_over(filler=False)
                return
            if message is not None and message.preemptible and self.busy:
                self._stop(now)
            begins = max(now, self._until)
            message = _Message(
                self._ear.begin("", "relay", begins), begins, interruptible, preemptible
            )
            self._messages = [one for one in self._messages if one.pieces[-1][2] > now]
            self._messages.append(message)
        self._add(message, text, now)
        message.complete = last
        if last and not self.busy:
            self._ended()

    def cut(self) -> tuple[str, int] | None:
        """Fall silent. What was heard of the message, and for how long at the pace of a real
        telephone, ms; None when nothing is being said."""
        now = time.monotonic()
        message = self._current(now)
        if message is None:
            self._forget()
            return None
        self._stop(now)
        self._forget()
        return message.heard.text, round((now - message.begins) * self._line.speed * 1000)

    def _add(self, message: _Message, text: str, now: float) -> None:
        if not text:
            return
        if now > self._until:
            # A gap in the middle of the message ends here.
            self._ear.relieve()
        begin = max(now, self._until)
        self._until = begin + speech.seconds(text, self._line.speed)
        message.pieces.append((text, begin, self._until))
        heard = message.heard
        heard.text += text
        heard.filler = self._ear.is_filler(heard.text)
        heard.until_s = self._until - self._ear.began
        self._ear.tell("token", text=text)
        if self._end is not None:
            self._end.cancel()
        self._end = asyncio.get_running_loop().call_at(self._until, self._ended)
        self._line.change()
        self._tell_when_played(text, begin)

    def _tell_when_played(self, text: str, begin: float) -> None:
        if self._played is None:
            return
        loop, now = asyncio.get_running_loop(), time.monotonic()
        self._playing = [one for one in self._playing if one.when() > now]
        for sentence in speech.sentences(text):
            begin += speech.seconds(sentence, self._line.speed)
            self._playing.append(loop.call_at(begin, self._played, sentence))

    def _ended(self) -> None:
        message = self._messages[-1]
        if message.complete:
            heard = message.heard
            self._hand_over(filler=heard.filler and not self._ear.asks_again(heard.text))
        elif self._line.awaiting:
            self._ear.owe("mid_reply", since=self._until)

    def _hand_over(self, *, filler: bool) -> None:
        """All has been said: the person's turn, unless they know that more will come: somebody who
        has asked for nothing yet waits for nothing."""
        if filler and self._line.awaiting and self._ear.report.turns:
            self._ear.owe("next")
            return
        self._line.awaiting = False
        self._ear.settle_turn()
        self._ear.relieve()
        self._line.change()

    def _current(self, now: float) -> _Message | None:
        """The message that is being said."""
        return next(
            (one for one in self._messages if one.pieces and one.begins <= now < one.pieces[-1][2]),
            None,
        )

    def _stop(self, now: float) -> None:
        """Nothing of what has come so far is said any more."""
        for message in self._messages:
            if message.begins > now:
                self._ear.unhear(message.heard)
            elif message.pieces[-1][2] > now:
                self._ear.finish(message.heard, message.spoken(now, self._line.speed), now)
        for telling in self._playing:
            telling.cancel()
        self._until = now

    def _forget(self) -> None:
        self._messages = []
        if self._end is not None:
            self._end.cancel()
            self._end = None
