"""What went wrong with the records of systems like ours; `tests/test_faults.py` has the numbers."""

from __future__ import annotations

import pytest

from callflow.lab.embedded_server import keys_without_lifetime
from callflow.store.keys import ALL_SHARDS, SWEPT, call_keys
from callflow.store.result import Claimed
from tests.parts import SID, Parts, Says

LATER_FIELDS = (
    *("open_scenarios", "urgency", "understood", "recorded", "sent", "unclear", "lost"),
    *("alert", "alert_due", "cut", "facts"),
)
"""Fields that the first release did not write."""


def test_fault_19_the_mark_of_a_sweep_is_no_lock_and_may_vanish_at_any_time(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "we are stuck")
    dead = parts.store.claim(SID, "dead@test/1-00", "claim-1")
    assert isinstance(dead, Claimed)
    parts.watchdog.sweep("one")
    parts.client.delete(SWEPT)
    # Two at once, and both without the mark: the call is taken back once.
    later_ms = parts.reader.now_ms() + parts.timing.stale_ms + 1
    rounds = [parts.watchdog.sweep(by, now_ms=later_ms) for by in ("one", "two")]
    assert [one.reclaimed for one in rounds] == [1, 0]
    assert parts.events().count("reclaimed") == 1


def test_fault_25_what_people_see_of_calls_is_read_from_the_records_alone(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "we are stuck")
    # Every message is lost, and no worker tells what it does: Celery knows nothing of this call.
    parts.client.delete("turns", "takeover")
    assert parts.worker(Says(("Stay inside.",))).run(SID) == "answered"
    (seen,) = parts.reader.active()
    assert (seen.heard, seen.answered, seen.assigned_worker) == (1, 1, None)
    assert parts.reader.counts() == {"active": 1, "leased": 0, "owed": 0}
    parts.store.end(SID, "hung_up")
    assert parts.reader.active() == []


@pytest.mark.parametrize("outcome", ["hung_up", "resolved", "abandoned"])
def test_fault_35_every_key_of_a_call_that_has_ended_has_a_lifetime(
    parts: Parts, outcome: str
) -> None:
    parts.intake.open(SID, alert="test")
    parts.intake.hear(SID, 1, "we are stuck")
    parts.worker(Says(("Stay inside. ", "How many are you?"))).run(SID)
    parts.store.playback.save_sent(SID, 1, 10, left_ms=0)
    parts.store.end(SID, outcome)
    keys = call_keys(SID)
    left_ms = [parts.client.pttl(key) for key in keys.own]
    assert all(0 < left <= parts.timing.completed_ttl_ms for left in left_ms)
    # Nor does a late word bring one back that stays.
    parts.store.playback.save_sent(SID, 1, 12, left_ms=0)
    parts.store.handovers.add_journal_line(SID, "remarked", "late")
    assert keys_without_lifetime(parts.client) == []
    for shard in ALL_SHARDS:
        assert parts.client.zscore(shard.active, SID) is None
        assert parts.client.zscore(shard.owed, SID) is None
        assert parts.client.zscore(shard.leases, SID) is None


def test_fault_35_a_call_of_the_first_release_goes_on_in_this_one(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.client.hdel(call_keys(SID).call, *LATER_FIELDS)
    parts.intake.hear(SID, 1, "we are stuck")
    assert parts.worker(Says(("Stay inside. ", "How many are you?"))).run(SID) == "answered"
    parts.intake.hear(SID, 2, "two of us", wants_human="asked")
    assert parts.worker(Says(("Thank you.",))).run(SID) == "answered"
    record = parts.record()
    assert (record.heard, record.answered) == (2, 2)
    assert record.alert is not None


def test_fault_35_what_a_later_release_keeps_in_a_record_stays_there(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.client.hset(call_keys(SID).call, "of_tomorrow", '{"kept":true}')
    parts.intake.hear(SID, 1, "we are stuck")
    assert parts.worker(Says(("Stay inside.",))).run(SID) == "answered"
    assert parts.record().answered == 1
    assert parts.client.hget(call_keys(SID).call, "of_tomorrow") == '{"kept":true}'
