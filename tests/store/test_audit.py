"""What people did is kept beside the call that it is about, and as long."""

from __future__ import annotations

from callflow.redis.scripts import Scripts
from callflow.store.audit import MOST_VIEWS, Audit
from callflow.store.keys import call_keys
from tests.parts import SID, Parts


def test_what_was_kept_lives_as_long_as_the_call(parts: Parts) -> None:
    audit = Audit(Scripts(parts.client))
    parts.store.open(SID)
    audit.record(SID, "ana", "read")
    month_ms = 30 * 24 * 3_600_000
    assert month_ms - 60_000 < parts.client.pttl(call_keys(SID).audit) <= month_ms
    parts.store.end(SID, "hung_up")
    parts.client.pexpire(call_keys(SID).audit.replace(":audit:", ":call:"), 5_000)
    audit.record(SID, "ana", "read")
    assert 0 < parts.client.pttl(call_keys(SID).audit) <= 5_000


def test_a_call_that_is_read_all_night_keeps_its_newest_readings(parts: Parts) -> None:
    audit = Audit(Scripts(parts.client))
    for number in range(MOST_VIEWS + 300):
        audit.record(SID, f"p{number}", "read", now_ms=number)
    lines = audit.of_call(SID)
    assert MOST_VIEWS <= len(lines) <= MOST_VIEWS + 150
    assert lines[-1].by == f"p{MOST_VIEWS + 299}"
