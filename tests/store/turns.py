"""Whole turns of a call, each step of them counted."""

from __future__ import annotations

from collections.abc import Callable

from callflow.errors import StoreUnavailable
from callflow.store.result import Claimed
from tests.parts import Parts
from tests.waiting import wait_until

WORKER = "w@test/1-aa"


def whole_turn(parts: Parts, sid: str, turn: int) -> None:
    """One whole turn, every step of it counted: said once, answered once."""
    assert parts.store.record_utterance(sid, turn, f"word {turn}").result == "ok"
    claimed = parts.store.claim(sid, WORKER, f"{sid}-{turn}")
    assert isinstance(claimed, Claimed)
    patiently(lambda: parts.store.beat(claimed.lease))  # As heartbeats do.
    assert parts.store.save_draft(claimed.lease, turn, "Repl") == "ok"
    assert parts.store.commit(claimed.lease, turn, f"Reply {turn}.").result == "ok"


def patiently(act: Callable[[], object], within_s: float = 20) -> None:
    """Do it again until the store can be reached."""

    def done() -> bool:
        try:
            act()
        except StoreUnavailable:
            return False
        return True

    wait_until(done, "it could never be done", within_s=within_s)
