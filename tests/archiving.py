"""Calls and records for the tests of the store that lasts."""

from __future__ import annotations

from pathlib import Path

from callflow.archive import Archive
from callflow.records.completed_call import CompletedCall
from callflow.records.record_store import RecordStore
from callflow.redis.client import Client
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.calls import CallStore
from callflow.store.result import Claimed
from tests.parts import SID, TIMING

KEY = b"a key of sixteen bytes"
BEGAN_MS = 1_800_000_000_000


def url_in(folder: Path) -> str:
    """A database in a file that is not there yet."""
    return f"sqlite:///{folder / 'records.db'}"


def complete(call_sid: str = SID, **fields: object) -> CompletedCall:
    """A call of one turn, as the archive hands it over."""
    known = {
        "call_sid": call_sid,
        "call_state": "complete",
        "created_at": BEGAN_MS,
        "updated_at": BEGAN_MS + 9_000,
        "heard": 1,
        "answered": 1,
        "lost": 0,
        "site": "tower-1",
        "scenario_type": "entrapment_standard",
        "urgency": "P3",
        "outcome": "hung_up",
        "language": "en",
        "facts": {"name": "Maria", "callback_number": "07700900123"},
        **fields,
    }
    thread = (
        {"role": "caller", "turn": 1, "text": "I am Maria, stuck", "at": BEGAN_MS + 1_000},
        {"role": "agent", "turn": 1, "text": "Help is coming.", "at": BEGAN_MS + 2_500},
    )
    lines = (
        ("1-0", {"event": "opened", "at": str(BEGAN_MS)}),
        ("2-0", {"event": "committed", "at": str(BEGAN_MS + 2_500), "turn": "1"}),
        ("3-0", {"event": "ended", "at": str(BEGAN_MS + 8_000), "reason": "hung_up"}),
    )
    return CompletedCall(call_sid, known, thread, lines, (), {"callflow": "1"}, "3-0 ")


def archiving(client: Client) -> CallStore:
    """The calls of a deployment whose records last."""
    return CallStore(Scripts(client), TIMING, archiving=True)


def archive_into(
    client: Client, records: RecordStore, ttl_ms: int = TIMING.completed_ttl_ms
) -> Archive:
    """What brings them there."""
    return Archive(ArchiveQueue(Scripts(client), ttl_ms), records, {"callflow": "test"})


def one_call(store: CallStore, call_sid: str = SID, *, ended: bool = True) -> None:
    """A call of one turn, from its first ring to its end."""
    store.open(call_sid, greeting="This is a machine.", site="tower-1")
    store.record_utterance(call_sid, 1, "stuck in the lift")
    claimed = store.claim(call_sid, "w@test/1-aa", f"claim-{call_sid}")
    assert isinstance(claimed, Claimed)
    store.commit(claimed.lease, 1, "Help is coming.")
    if ended:
        store.end(call_sid, "hung_up")
