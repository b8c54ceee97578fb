"""Decides when our voice goes on after something stopped it that brought no words.

The carrier stops what we say as soon as it hears a voice, a cough or a slammed door. Words follow,
or none: then the reply goes on. Times are monotonic, in seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NO_WORDS_S: Final = 1.6
"""A noise: no word was guessed at for so long."""

WORDS_S: Final = 2.8
"""After the first guess at words the whole of them may take so long to come; a caller who hears
nothing for 4 s meanwhile did not speak."""

FLOWING_S: Final = 1.5
"""Who speaks on is guessed at again within so long, and each guess is longer than the last."""

MOST_S: Final = 12.0
"""Whoever speaks on for longer hears that we are there."""

NOISES_MOST: Final = 3
"""So many in a row, and no words between them: a human is rung."""


@dataclass(slots=True)
class BargeIn:
    """What was heard since our voice was stopped, or since words came last."""

    noises: int = 0
    """How many in a row have brought no words."""
    _began: float | None = None
    _due: float = 0.0
    _heard_at: float = 0.0
    _letters: int = 0

    def hear_sound(self, now: float, guess: str = "") -> None:
        """Our voice was stopped, or words were guessed at."""
        flows = len(guess) > self._letters and now - self._heard_at < FLOWING_S
        if self._began is None:
            self._began, self._due = now, now + (WORDS_S if guess else NO_WORDS_S)
        elif flows or (guess and not self._letters):
            self._due = min(now + WORDS_S, self._began + (MOST_S if self._letters else WORDS_S))
        self._heard_at, self._letters = now, max(self._letters, len(guess))

    def hear_words(self) -> None:
        """Words came, or a key was pressed: it was no noise."""
        self.noises, self._began, self._letters = 0, None, 0

    def due_in_s(self, now: float) -> float | None:
        """In how many seconds our voice goes on unless words come; None: nothing stopped it."""
        return None if self._began is None else max(0.0, self._due - now)

    def is_speaking(self, now: float) -> bool:
        """True while words may still be on their way."""
        return self._began is not None and now < self._due

    def go_on(self) -> None:
        """It was a noise, and our voice goes on."""
        self.noises, self._began, self._letters = self.noises + 1, None, 0
