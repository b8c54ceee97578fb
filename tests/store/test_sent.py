"""What a socket that breaks leaves behind: how much it had sent, and how much of that was heard."""

from __future__ import annotations

from callflow.call.record import Sent
from tests.parts import SID, Parts


def _sent(parts: Parts) -> Sent:
    found = parts.record().sent
    assert found is not None
    return found


def test_what_was_sent_stands_as_it_was_told_last(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.save_sent(SID, 1, 12, left_ms=800, now_ms=1_700_000_000_123)
    assert _sent(parts) == Sent(turn=1, length=12, at=1_700_000_000_123, left_ms=800)
    for _ in range(2):
        parts.store.save_sent(SID, 1, 30, left_ms=0, now_ms=1_700_000_000_500)
    assert _sent(parts) == Sent(turn=1, length=30, at=1_700_000_000_500)


def test_what_was_heard_only_grows_within_a_turn(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.save_sent(SID, 1, 12)
    assert _sent(parts).played is None
    for told, stands in ((5, 5), (5, 5), (3, 5), (12, 12)):
        parts.store.save_played(SID, 1, told)
        assert _sent(parts).played == stands
    parts.store.save_sent(SID, 1, 30, played=4)
    assert _sent(parts).played == 12
    parts.store.save_sent(SID, 1, 31)
    assert _sent(parts).played == 12


def test_a_new_reply_begins_unheard_and_late_word_of_the_old_one_changes_nothing(
    parts: Parts,
) -> None:
    parts.store.open(SID)
    parts.store.save_sent(SID, 1, 12, played=12)
    parts.store.save_sent(SID, 2, 20, played=0)
    parts.store.save_played(SID, 1, 12)
    assert (_sent(parts).turn, _sent(parts).played) == (2, 0)
    parts.store.save_sent(SID, 3, 20)
    assert _sent(parts).played is None


def test_nothing_is_noted_of_a_call_that_is_over_or_unknown(parts: Parts) -> None:
    parts.store.save_sent(SID, 1, 12)
    parts.store.open(SID)
    parts.store.end(SID, "hung_up")
    parts.store.save_sent(SID, 1, 12)
    parts.store.save_played(SID, 1, 12)
    assert parts.record().sent is None
