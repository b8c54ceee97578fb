"""A caller arrives, speaks, hangs up: store it first, then wake a worker.

Once `hear` returns, the utterance is in the record with a deadline in the index that the watchdog
reads, so that losing everything else, the wake-up included, costs time and no words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callflow.call.limits import LIMIT
from callflow.celery import Wake, wake, wake_ring
from callflow.language.danger import dangers
from callflow.store.calls import CallStore
from callflow.store.outcome import Finish, Heard, Open
from callflow.transfer import to_human


@dataclass(frozen=True, slots=True)
class Intake:
    """What a process that meets callers needs; built once per process by `bootstrap`."""

    store: CallStore

    def open(
        self,
        call_sid: str,
        *,
        site: str | None = None,
        language: str = "en",
        greeting: str = "",
        alert: str | None = None,
        needs_human: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> Open:
        """A call was received. Twice for one call changes nothing.

        `greeting`: what the caller hears first. `alert`: why a human is rung from the start;
        `needs_human`: why one is wanted, whom somebody else rings.
        `facts`: what is known of the site, so that a reply can read it back.
        """
        word = self.store.open(
            call_sid,
            site=site,
            language=language,
            greeting=greeting,
            alert=alert,
            needs_human=needs_human,
            facts=facts,
        )
        if alert is not None and word is Open.OPENED:
            wake_ring(call_sid)
        return word

    def hear(
        self,
        call_sid: str,
        turn: int,
        text: str,
        *,
        digits: str | None = None,
        understood: bool = True,
        wants_human: str | None = None,
        after_loss: bool = False,
    ) -> tuple[Heard, Wake | None]:
        """The caller said `text` in `turn` (from 1); an empty text is silence, or keys (`digits`).

        Twice for one turn stores it once; see `Lines.hear` for the rest. The second word is what
        became of the message to the workers: None where none was needed, because a worker is about
        to look anyway. Raises UnknownCall, CallEnded, TurnOutOfOrder, InvalidUtterance: then
        nothing was stored.
        """
        danger = bool(dangers(text, ""))
        heard = self.store.hear(
            call_sid,
            turn,
            text,
            digits=digits,
            understood=understood,
            wants_human=wants_human,
            danger=danger,
            after_loss=after_loss,
        )
        if heard.full:
            to_human(self.store, call_sid, LIMIT)
            return heard, None
        # Where a message waits already, one that tells of danger overtakes it.
        needed = heard.wake or (heard.waits and danger)
        sent = wake(call_sid, urgency=heard.urgency) if needed else None
        if heard.alerted:
            wake_ring(call_sid)
        return heard, sent

    def wake_again(self, call_sid: str) -> Wake:
        """What was said is stored, and the answer to that was lost: whether a message was sent as
        well nobody knows. Two do no harm, and without one the caller waits until it counts as lost.
        """
        return wake(call_sid)

    def end(self, call_sid: str, outcome: str) -> Finish:
        """The line is closed (`hung_up`, `resolved`, …). The first outcome stands."""
        return self.store.end(call_sid, outcome)
