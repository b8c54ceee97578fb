"""Calls in which nothing is said are given out to be asked for: each to one, and again later."""

from __future__ import annotations

import pytest

from callflow.redis.scripts import Scripts
from callflow.store.leases import StaleCalls
from tests.parts import SID, Parts

QUIET_MS = 60_000
OTHER = f"CA{7:032x}"


@pytest.fixture
def lines(parts: Parts) -> StaleCalls:
    return StaleCalls(Scripts(parts.client), QUIET_MS)


def _opened(parts: Parts, call_sid: str = SID) -> int:
    """When, ms."""
    parts.store.open(call_sid)
    return parts.record(call_sid).created_at


@pytest.mark.leaves_live_calls
def test_a_call_is_asked_for_when_nothing_has_been_said_for_long(
    parts: Parts, lines: StaleCalls
) -> None:
    opened = _opened(parts)
    assert lines.take(now_ms=opened + QUIET_MS - 1) == []
    assert lines.take(now_ms=opened + QUIET_MS) == [SID]


@pytest.mark.leaves_live_calls
def test_what_is_said_puts_it_off(parts: Parts, lines: StaleCalls) -> None:
    opened = _opened(parts)
    parts.store.record_utterance(SID, 1, "we are stuck", now_ms=opened + QUIET_MS - 1)
    assert lines.take(now_ms=opened + QUIET_MS) == []


@pytest.mark.leaves_live_calls
def test_each_is_given_to_one_asker_and_again_when_as_much_time_has_passed(
    parts: Parts, lines: StaleCalls
) -> None:
    """Whoever got it first may have died with it."""
    opened = _opened(parts)
    asked = opened + QUIET_MS
    assert lines.take(now_ms=asked) == [SID]
    assert lines.take(now_ms=asked + QUIET_MS - 1) == []
    assert lines.take(now_ms=asked + QUIET_MS) == [SID]


@pytest.mark.leaves_live_calls
def test_of_many_all_are_given_in_the_end(parts: Parts, lines: StaleCalls) -> None:
    sids = {f"CA{number:032x}" for number in range(100)}
    opened = max(_opened(parts, sid) for sid in sids)
    given: list[str] = []
    while found := lines.take(now_ms=opened + QUIET_MS):
        given += found
    assert len(given) == len(sids)
    assert set(given) == sids


def test_a_complete_call_is_nobodys_matter(parts: Parts, lines: StaleCalls) -> None:
    opened = _opened(parts)
    parts.store.end(SID, "hung_up")
    assert lines.take(now_ms=opened + QUIET_MS) == []


def test_the_list_of_what_was_asked_is_no_leak(parts: Parts, lines: StaleCalls) -> None:
    opened = _opened(parts)
    assert lines.take(now_ms=opened + QUIET_MS) == [SID]
    parts.store.end(SID, "hung_up")
