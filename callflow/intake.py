"""A caller arrives, speaks, hangs up: store it first, then wake a worker.

Once `hear` returns, the utterance is in the record with a deadline in the index that the watchdog
reads, so that losing everything else, the wake-up included, costs time and no words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Unpack

from callflow.call.limits import LIMIT
from callflow.handover import hand_to_human
from callflow.language.danger import dangers
from callflow.messages import Wake, wake, wake_ring
from callflow.store.calls import CallStore, Heard, Opening
from callflow.store.result import Result, UtteranceStored


@dataclass(frozen=True, slots=True)
class Intake:
    """What a process that meets callers needs; built once per process by `bootstrap`."""

    store: CallStore

    def open(
        self, call_sid: str, *, alert: str | None = None, **opening: Unpack[Opening]
    ) -> Result:
        """A call was received: `CallStore.open`, and whoever is to be rung from the start is."""
        result = self.store.open(call_sid, alert=alert, **opening)
        if alert is not None and result is Result.OK:
            wake_ring(call_sid)
        return result

    def hear(
        self, call_sid: str, turn: int, text: str, **heard: Unpack[Heard]
    ) -> tuple[UtteranceStored, Wake | None]:
        """The caller said `text` in `turn` (from 1); an empty text is silence, or keys (`digits`).

        Twice for one turn stores it once; see `CallStore.record_utterance` for the rest and for
        what is raised: then nothing was stored. The second word is what became of the message to
        the workers: None where none was needed, because a worker is about to look anyway.
        """
        danger = bool(dangers(text, ""))
        stored = self.store.record_utterance(call_sid, turn, text, danger=danger, **heard)
        if stored.full:
            hand_to_human(self.store, call_sid, LIMIT)
            return stored, None
        # Where a message waits already, one that tells of danger overtakes it.
        needed = stored.wake or (stored.waits and danger)
        sent = wake(call_sid, urgency=stored.urgency) if needed else None
        if stored.alerted:
            wake_ring(call_sid)
        return stored, sent

    def wake_again(self, call_sid: str) -> Wake:
        """What was said is stored, and the answer to that was lost: whether a message was sent as
        well nobody knows. Two do no harm, and without one the caller waits until it counts as lost.
        """
        return wake(call_sid)

    def end(self, call_sid: str, outcome: str) -> Result:
        """The line is closed (`hung_up`, `resolved`, …). The first outcome stands."""
        return self.store.end(call_sid, outcome)
