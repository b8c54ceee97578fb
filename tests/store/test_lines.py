"""Which socket holds a caller's line: one at a time, and none that has fallen silent."""

from __future__ import annotations

from callflow.store.caller_line import COVER_MS
from callflow.store.keys import call_keys
from callflow.store.result import Result
from tests.parts import SID, Parts

FIRST, SECOND = "socket-1", "socket-2"


def _open(parts: Parts) -> int:
    parts.intake.open(SID)
    return parts.reader.now_ms()


def _lost(parts: Parts, now_ms: int) -> tuple[str, ...]:
    return parts.leases.look(now_ms=now_ms).lines


def test_a_line_without_a_beat_is_lost_once_and_again_where_nobody_was_fetched(
    parts: Parts,
) -> None:
    now = _open(parts)
    assert parts.store.lines.take(SID, FIRST, now_ms=now) is Result.OK
    assert _lost(parts, now) == ()  # This look begins a row of them.

    assert parts.store.lines.beat({SID: FIRST}, back=True, now_ms=now + 1_000) == frozenset()
    assert _lost(parts, now + 1_000 + COVER_MS - 1) == ()
    assert _lost(parts, now + 1_000 + COVER_MS) == (SID,)
    assert _lost(parts, now + 1_000 + COVER_MS) == (), "it was given to two sweeps"
    assert _lost(parts, now + 4_000 + COVER_MS) == (SID,)


def test_after_a_gap_in_the_looks_nobody_is_believed_to_be_silent(parts: Parts) -> None:
    now = _open(parts)
    parts.store.lines.take(SID, FIRST, now_ms=now)
    assert _lost(parts, now + 60_000) == ()
    assert _lost(parts, now + 60_900) == ()
    assert _lost(parts, now + 61_000) == (SID,)


def test_a_socket_that_lost_its_line_is_told_and_can_write_nothing_more(parts: Parts) -> None:
    _open(parts)
    lines, playback = parts.store.lines, parts.store.playback
    lines.take(SID, FIRST)
    lines.take(SID, SECOND)
    assert lines.beat({SID: FIRST}, back=True) == {SID}
    assert lines.beat({SID: SECOND}, back=False) == frozenset()

    playback.save_sent(SID, 1, 10, holder=SECOND)
    playback.save_sent(SID, 1, 99, holder=FIRST)
    playback.save_played(SID, 1, 50, holder=FIRST)
    sent = parts.record().sent
    assert sent is not None
    assert (sent.length, sent.played) == (10, None)

    assert lines.release(SID, FIRST) is Result.FENCED
    assert lines.release(SID, SECOND) is Result.OK
    assert lines.release(SID, SECOND) is Result.OK
    assert parts.client.zcard(call_keys(SID).shard.lines) == 0


def test_a_line_that_a_failover_forgot_is_taken_back_but_not_after_a_gap(parts: Parts) -> None:
    _open(parts)
    lines = parts.store.lines
    lines.take(SID, FIRST)
    lines.release(SID)
    assert lines.beat({SID: FIRST}, back=False) == {SID}
    assert lines.beat({SID: FIRST}, back=True) == frozenset()
    assert lines.beat({SID: SECOND}, back=True) == {SID}


def test_a_socket_that_broke_leaves_the_line_to_the_carrier_for_a_moment(parts: Parts) -> None:
    _open(parts)
    lines = parts.store.lines
    lines.take(SID, FIRST)
    parts.leases.look()
    lines.release(SID, FIRST, due_ms=300)
    now = parts.reader.now_ms()
    assert _lost(parts, now + 300) == (SID,)
    lines.release(SID)
    lines.release(SID, FIRST, due_ms=300)
    assert _lost(parts, now + 9_000) == (), "the carrier has it"


def test_the_end_of_a_call_leaves_no_line(parts: Parts) -> None:
    _open(parts)
    parts.store.lines.take(SID, FIRST)
    parts.store.end(SID, "hung_up")
    shard = call_keys(SID).shard
    assert parts.client.exists(shard.lines, shard.holders) == 0
    assert parts.store.lines.take(SID, FIRST) is Result.ENDED
    assert parts.store.lines.take("CAunknown", FIRST) is Result.UNKNOWN
