"""All that people do in a call, one after the other, for tests of what it takes."""

from __future__ import annotations

from callflow.call.edits import Disposition
from tests.parts import Parts


def desk_work(parts: Parts, sid: str) -> None:
    """Do everything that does not end the call, and end another one."""
    store = parts.store
    store.staff.say(sid, "Help is here.", "ana", request="r1")
    store.staff.claim_fetch(sid)
    store.staff.take_phrases(sid, "socket", fetched=True)
    store.staff.mark_heard(sid, ["r1"])
    store.staff.add_note(sid, "They are calm.", "ana", request="r2")
    store.staff.set_urgency(sid, "P1", "ana", request="r3")
    store.staff.take_over(sid, "ana", None, request="r4")
    store.open(f"{sid}test")
    store.staff.end(parts.record, f"{sid}test", Disposition.TEST, "ana", request="r5")
