"""All that people do in a call, one after the other, for tests of what it takes."""

from __future__ import annotations

from callflow.call.disposition import Disposition
from tests.parts import Parts


def desk_work(parts: Parts, sid: str) -> None:
    """Do everything that does not end the call, and end another one."""
    store = parts.store
    store.sayings.say(sid, "Help is here.", "ana", request="r1")
    store.sayings.fetch(sid)
    store.sayings.utter(sid, "socket", fetched=True)
    store.sayings.uttered(sid, ["r1"])
    store.desk_work.remark(sid, "They are calm.", "ana", request="r2")
    store.desk_work.urge(sid, "P1", "ana", request="r3")
    store.desk_work.take_over(sid, "ana", None, request="r4")
    store.open(f"{sid}test")
    store.desk_work.end(parts.record, f"{sid}test", Disposition.TEST, "ana", request="r5")
