"""A caller arrives, speaks, hangs up: store it first, then wake a worker.

Once `hear` returns, the utterance is in the record with a deadline in the index that the watchdog
reads, so that losing everything else, the wake-up included, costs time and no words.
"""

from __future__ import annotations

from dataclasses import dataclass

from callflow.celery import Wake, wake
from callflow.store.calls import CallStore
from callflow.store.outcome import Finish, Hear, Open


@dataclass(frozen=True, slots=True)
class Intake:
    """What a process that meets callers needs; built once per process by `bootstrap`."""

    store: CallStore

    def open(self, call_sid: str, *, site: str | None = None, language: str = "en") -> Open:
        """A call was received. Twice for one call changes nothing."""
        return self.store.open(call_sid, site=site, language=language)

    def hear(self, call_sid: str, turn: int, text: str) -> tuple[Hear, Wake | None]:
        """The caller said `text` in `turn` (from 1); an empty text is silence.

        Twice for one turn stores it once. The second word is what became of the message to the
        workers: None where none was needed, because a worker is about to look anyway. Raises
        UnknownCall, CallEnded, TurnOutOfOrder, InvalidUtterance: then nothing was stored.
        """
        heard = self.store.hear(call_sid, turn, text)
        return heard.word, wake(call_sid) if heard.wake else None

    def end(self, call_sid: str, outcome: str) -> Finish:
        """The call is over (`hung_up`, `resolved`, …). The first outcome stands."""
        return self.store.end(call_sid, outcome)
