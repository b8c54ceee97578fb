"""One sweep: who is taken for dead and when, and what becomes of the calls."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from callflow.call.ladder import fresh
from callflow.call.state import CallState
from callflow.celery import CALLS
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.keys import EPOCH, SWEPT, call_keys
from callflow.store.leases import Leases
from callflow.store.presence import Presence
from callflow.store.result import Claimed, Lease
from callflow.watchdog import Sweep
from tests.parts import SID, TIMING, Parts

DEAD = "w1@test/1-aa"

ALIVE = "w2@test/2-bb"


@pytest.fixture
def lease(parts: Parts) -> Lease:
    """A call that `DEAD` holds."""
    return _claimed_by(parts, DEAD)


def _claimed_by(parts: Parts, worker: str, sid: str = SID) -> Lease:
    parts.intake.open(sid)
    parts.intake.hear(sid, 1, "stuck")
    claimed = parts.store.claim(sid, worker, f"claim-{sid}-{worker}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _after(parts: Parts, ms: int, sid: str = SID) -> int:
    """So long after the last beat, on the server's clock."""
    return (parts.record(sid).last_heartbeat or 0) + ms


def test_a_call_whose_worker_is_gone_is_given_away_as_soon_as_one_beat_is_overdue(
    parts: Parts, lease: Lease
) -> None:
    due = _after(parts, TIMING.overdue_ms - 1)
    overdue = _after(parts, TIMING.overdue_ms)
    _believe_presence(parts)
    before = parts.queued()[0]

    assert parts.watchdog.sweep("test", now_ms=due) == Sweep()
    assert parts.watchdog.sweep("test", now_ms=overdue) == Sweep(reclaimed=1, to_worker=1)

    record = parts.record()
    assert record.call_state is CallState.INCOMPLETE
    assert record.assigned_worker is None
    assert parts.journal()[-1].reason == "gone"
    assert parts.queued()[0] == before + 1


def test_a_late_beat_of_a_worker_that_is_there_takes_nothing_from_it(parts: Parts) -> None:
    _claimed_by(parts, ALIVE)
    _believe_presence(parts)
    with closing(Presence(parts.client, ALIVE)) as line:
        line.keep()

        late = _after(parts, TIMING.stale_ms - 1)
        assert parts.watchdog.sweep("test", now_ms=late) == Sweep()
    assert parts.record().assigned_worker == ALIVE


def test_a_frozen_worker_loses_its_call_although_it_seems_present(parts: Parts) -> None:
    _claimed_by(parts, ALIVE)
    with closing(Presence(parts.client, ALIVE)) as line:
        line.keep()

        stale = _after(parts, TIMING.stale_ms)
        assert parts.watchdog.sweep("test", now_ms=stale).reclaimed == 1
    assert parts.journal()[-1].reason == "silent"


def test_a_worker_that_beats_between_the_look_and_the_reclaim_keeps_its_call(
    parts: Parts, lease: Lease
) -> None:
    seen = parts.record().last_heartbeat or 0
    parts.store.beat(lease, now_ms=seen + 1)

    released = parts.store.reclaim(SID, lease.fence, seen, "gone")

    assert released.result == "alive"
    assert parts.record().assigned_worker == DEAD


def test_after_a_restart_of_the_server_absence_proves_nothing_for_a_while(
    own_server: EmbeddedServer,
) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        _claimed_by(parts, DEAD)
        _believe_presence(parts)
        own_server.restart()
        first = _after(parts, TIMING.overdue_ms)

        assert parts.watchdog.sweep("test", now_ms=first) == Sweep()
        nearly = first + TIMING.resubscribe_ms - 1
        assert not parts.leases.look(now_ms=nearly).presence_counts
        assert parts.leases.look(now_ms=nearly + 1).presence_counts


def test_a_restart_of_the_server_is_noticed_before_anybody_dies_after_it(
    own_server: EmbeddedServer,
) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        _believe_presence(parts)
        own_server.restart()
        noticed = parts.reader.now_ms()
        assert Leases(Scripts(client), TIMING).look(now_ms=noticed).suspects == ()

        _claimed_by(parts, DEAD)
        later = noticed + TIMING.resubscribe_ms
        assert later >= _after(parts, TIMING.overdue_ms)
        found = parts.leases.look(now_ms=later)
        assert found.suspects
        assert found.presence_counts


def test_many_sweeps_at_once_take_a_call_back_once(parts: Parts, lease: Lease) -> None:
    stale = _after(parts, TIMING.stale_ms)

    with ThreadPoolExecutor(4) as threads:
        sweeps = list(threads.map(lambda _: parts.watchdog.sweep("t", now_ms=stale), range(8)))

    assert sum(sweep.reclaimed for sweep in sweeps) == 1
    assert parts.events().count("reclaimed") == 1
    assert parts.record().attempts == 1


def test_the_fourth_worker_that_a_turn_costs_is_the_last(parts: Parts) -> None:
    for attempt in range(1, 5):
        _claim_again(parts, attempt)
        swept = parts.watchdog.sweep("test", now_ms=_after(parts, TIMING.stale_ms))
        assert swept == (
            Sweep(reclaimed=1, to_worker=1) if attempt < 4 else Sweep(reclaimed=1, to_human=1)
        )

    assert parts.record().handling == "human"
    assert parts.record().alert == fresh("poison")
    assert not parts.record().owed


def _claim_again(parts: Parts, attempt: int) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "poison")
    assert isinstance(parts.store.claim(SID, DEAD, f"claim-{attempt}"), Claimed)


def test_an_owed_turn_whose_message_was_lost_is_woken_again(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "stuck")
    since = parts.record().owed_since or 0
    before = parts.queued()[1]

    assert parts.watchdog.sweep("test", now_ms=since + TIMING.owed_ms - 1).woken == 0
    assert parts.watchdog.sweep("test", now_ms=since + TIMING.owed_ms).woken == 1
    assert parts.watchdog.sweep("test", now_ms=since + TIMING.owed_ms).woken == 0
    assert parts.queued()[1] == before + 1


def test_the_longer_a_turn_waits_behind_a_backlog_the_rarer_it_is_woken(parts: Parts) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "stuck")
    since = parts.record().owed_since or 0

    woken = [
        second
        for second in range(61)
        if parts.watchdog.sweep("test", now_ms=since + second * 1000).woken
    ]

    assert woken == [3, 6, 12, 24, 44]


def test_a_sweep_whose_answer_was_lost_costs_no_more_than_one_deadline(parts: Parts) -> None:
    """After an outage the first sweep finds calls that have waited for long behind no backlog. What
    it was told may be lost in the same outage, and then nobody has woken them."""
    parts.store.open(SID, now_ms=0)
    parts.store.record_utterance(SID, 1, "we are stuck", now_ms=0)
    back = 60_000
    (told,) = parts.leases.take_unclaimed([SID], now_ms=back)
    assert told.call_sid == SID
    parts.client.lpush("turns", "{}")  # Somebody else's message: nothing shows that it is lost.
    again = back + TIMING.owed_ms
    assert parts.leases.take_unclaimed([SID], now_ms=again - 1) == []
    assert [one.call_sid for one in parts.leases.take_unclaimed([SID], now_ms=again)] == [SID]


def test_where_nothing_waits_a_lost_message_is_made_good_in_the_same_time_however_old_the_turn(
    parts: Parts,
) -> None:
    parts.store.open(SID, now_ms=0)
    parts.store.record_utterance(SID, 1, "we are stuck", now_ms=0)
    woken = []
    for now_ms in range(0, 30_000, 100):
        # The broker forgets everything, again and again.
        parts.client.delete(*CALLS)
        if parts.watchdog.sweep("test", now_ms=now_ms).woken:
            woken.append(now_ms)
    pauses = {later - before for before, later in itertools.pairwise([0, *woken])}
    assert pauses == {parts.timing.owed_ms}


def test_a_lost_takeover_goes_ahead_of_new_work_again(parts: Parts, lease: Lease) -> None:
    stale = _after(parts, TIMING.stale_ms)
    parts.watchdog.sweep("test", now_ms=stale)
    takeovers, turns = parts.queued()

    assert parts.watchdog.sweep("test", now_ms=stale + TIMING.owed_ms).woken == 1
    assert parts.queued() == (takeovers + 1, turns)


def test_an_answered_call_is_not_woken(parts: Parts, lease: Lease) -> None:
    parts.store.commit(lease, 1, "Stay inside.")

    later = _after(parts, 10 * TIMING.stale_ms)
    assert parts.watchdog.sweep("test", now_ms=later) == Sweep()


def test_a_call_that_lost_its_hang_up_is_ended(parts: Parts) -> None:
    parts.intake.open(SID)
    opened = parts.record().created_at

    swept = parts.watchdog.sweep("test", now_ms=opened + TIMING.abandoned_ms)

    assert swept == Sweep(abandoned=1)
    assert parts.record().outcome == "abandoned"


def test_an_index_entry_without_a_record_is_dropped(parts: Parts, lease: Lease) -> None:
    stale = _after(parts, TIMING.stale_ms)
    parts.client.delete(*call_keys(SID).own)

    parts.watchdog.sweep("test", now_ms=stale)
    parts.watchdog.sweep("test", now_ms=stale + TIMING.abandoned_ms)

    assert parts.reader.counts() == {"active": 0, "leased": 0, "owed": 0}


def test_an_understudy_sweeps_when_nobody_has_for_a_second(parts: Parts) -> None:
    parts.watchdog.sweep("watchdog")
    assert parts.watchdog.sweep_if_missed("understudy") is None
    by, age_ms = parts.leases.last_sweep() or ("", 0)
    assert by == "watchdog"
    assert 0 <= age_ms < 1000

    parts.client.delete(SWEPT)  # As it expires a second after the last sweep.
    assert parts.watchdog.sweep_if_missed("understudy") == Sweep()
    assert parts.watchdog.sweep_if_missed("another understudy") is None


def test_a_sweep_says_what_it_did() -> None:
    assert str(Sweep(reclaimed=2, to_worker=1, to_human=1)) == (
        "reclaimed=2 to_worker=1 to_human=1 woken=0 rung=0 fetched=0 abandoned=0"
    )


def _believe_presence(parts: Parts) -> None:
    """As in a server that has been up for long: an absent subscription means a dead process."""
    server, replication = parts.client.info("server"), parts.client.info("replication")
    life = f"{server['run_id']}/{replication['master_replid']}"
    parts.client.set(EPOCH, f"{life} 0", ex=60)
