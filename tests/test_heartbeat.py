"""The heartbeat: one per process, and the first to know that a lease is gone."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest

from callflow.errors import LeaseLost, StoreUnavailable
from callflow.heartbeat import DEADLINE, DRAINED, Drain, Heartbeat, worker_name
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.presence import Presence
from callflow.store.result import Claimed, Lease
from tests.parts import SID, Parts
from tests.waiting import wait_until


def _claimed(parts: Parts, sid: str = SID) -> Lease:
    parts.intake.open(sid)
    parts.intake.hear(sid, 1, "stuck")
    claimed = parts.store.claim(sid, "w@test/1-aa", f"claim-{sid}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _heartbeat(parts: Parts, name: str = "w@test/1-aa", drain: Drain | None = None) -> Heartbeat:
    return Heartbeat(parts.store, Presence(parts.client, name), name, drain)


def _noting(given_back: list[tuple[Lease, str]]) -> Callable[[Lease, str], None]:
    return lambda lease, reason: given_back.append((lease, reason))


def _beaten_since(parts: Parts, lease: Lease, beat: int) -> bool:
    return (parts.record(lease.call_sid).last_heartbeat or 0) > beat


def _never(lease: Lease, reason: str) -> None:
    pytest.fail(f"{lease} is given back: {reason}")


def test_it_beats_for_every_turn_of_its_process(parts: Parts) -> None:
    leases = [_claimed(parts, f"CA{number}") for number in range(3)]
    heartbeat = _heartbeat(parts)
    first = [parts.record(lease.call_sid).last_heartbeat or 0 for lease in leases]

    heartbeat.start()
    with (
        heartbeat.guard(leases[0], time.monotonic(), _never),
        heartbeat.guard(leases[1], time.monotonic(), _never),
        heartbeat.guard(leases[2], time.monotonic(), _never),
    ):
        for lease, beat in zip(leases, first, strict=True):
            wait_until(partial(_beaten_since, parts, lease, beat), f"no beat for {lease}")
    heartbeat.close()


def test_a_process_is_present_for_as_long_as_it_beats(parts: Parts) -> None:
    heartbeat = _heartbeat(parts)
    heartbeat.start()
    assert parts.leases.present(["w@test/1-aa", "w@test/2-bb"]) == {"w@test/1-aa"}
    assert parts.leases.present_now() == ["w@test/1-aa"]

    heartbeat.close()
    wait_until(lambda: not parts.leases.present_now(), "a closed process stays present")


def test_a_cut_subscription_is_opened_again(parts: Parts) -> None:
    heartbeat = _heartbeat(parts)
    heartbeat.start()
    parts.client.client_kill_filter(_type="pubsub")

    wait_until(lambda: parts.leases.present_now() == ["w@test/1-aa"], "it never came back")
    heartbeat.close()


def test_a_refused_beat_stops_the_turn(parts: Parts) -> None:
    lease = _claimed(parts)
    heartbeat = _heartbeat(parts)
    heartbeat.start()
    with heartbeat.guard(lease, time.monotonic(), _never) as hold:
        hold.check()
        parts.store.reclaim(SID, lease.fence, 2**53, "silent")

        assert hold.stop.wait(10)
        with pytest.raises(LeaseLost, match="fenced"):
            hold.check()
    heartbeat.close()


def test_a_hang_up_stops_the_turn(parts: Parts) -> None:
    lease = _claimed(parts)
    heartbeat = _heartbeat(parts)
    heartbeat.start()
    with heartbeat.guard(lease, time.monotonic(), _never) as hold:
        parts.intake.end(SID, "hung_up")

        assert hold.stop.wait(10)
        with pytest.raises(LeaseLost, match="ended"):
            hold.check()
    heartbeat.close()


def test_without_the_server_a_lease_is_trusted_until_one_beat_before_others_may_take_it(
    own_server: EmbeddedServer,
) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client).patient(stale_ms=400)
        lease = _claimed(parts)
        own_server.kill()
        heartbeat = _heartbeat(parts)
        heartbeat.start()
        with heartbeat.guard(lease, time.monotonic(), _never) as hold:
            hold.check()

            def lost() -> bool:
                try:
                    hold.check()
                except LeaseLost:
                    return True
                return False

            wait_until(lost, "it trusts a lease that nobody renews")
            assert hold.lost == "no beat was accepted for too long"
            assert hold.stop.is_set()
        heartbeat.close()


def test_a_turn_past_its_deadline_is_given_back_once(parts: Parts) -> None:
    lease = _claimed(parts)
    given_back: list[tuple[Lease, str]] = []
    heartbeat = _heartbeat(parts)
    with heartbeat.guard(lease, time.monotonic() - 5.0, _noting(given_back)) as hold:
        heartbeat.beat()
        heartbeat.beat()

        assert hold.stop.is_set()
    assert given_back == [(lease, DEADLINE)]


def test_every_turn_that_runs_when_the_worker_has_to_end_is_given_back_once(parts: Parts) -> None:
    leases = [_claimed(parts, f"CA{number}") for number in range(2)]
    given_back: list[tuple[Lease, str]] = []
    heartbeat = _heartbeat(parts, drain=Drain(within_s=0))
    with (
        heartbeat.guard(leases[0], time.monotonic(), _noting(given_back)) as first,
        heartbeat.guard(leases[1], time.monotonic(), _noting(given_back)),
    ):
        heartbeat.beat()
        first.check()

        heartbeat.drain.begin()
        heartbeat.beat()
        heartbeat.beat()
        with pytest.raises(LeaseLost, match="the worker ends"):
            first.check()
    assert sorted(given_back, key=str) == sorted(((one, DRAINED) for one in leases), key=str)


def test_turns_that_still_have_time_when_the_worker_is_told_to_end_go_on(parts: Parts) -> None:
    lease = _claimed(parts)
    heartbeat = _heartbeat(parts, drain=Drain(within_s=60))
    heartbeat.drain.begin()
    with heartbeat.guard(lease, time.monotonic(), _never) as hold:
        heartbeat.beat()
        hold.check()


def test_a_turn_that_could_not_be_given_back_is_given_back_at_the_next_beat(parts: Parts) -> None:
    lease = _claimed(parts)
    tried: list[str] = []

    def give_back(lease: Lease, reason: str) -> None:
        tried.append(reason)
        if len(tried) == 1:
            raise StoreUnavailable("here", "a trial")

    heartbeat = _heartbeat(parts)
    with heartbeat.guard(lease, time.monotonic() - 5.0, give_back):
        with pytest.raises(StoreUnavailable):
            heartbeat.beat()
        heartbeat.beat()
        heartbeat.beat()
    assert tried == [DEADLINE, DEADLINE]


def test_a_turn_that_cannot_be_given_back_keeps_no_other_from_being_beaten_for(
    parts: Parts,
) -> None:
    """In a cluster the server of the one may be gone, and that of the other may not."""
    stuck, living = (_claimed(parts, f"CA{number}") for number in range(2))
    before = parts.record(living.call_sid).last_heartbeat or 0

    def in_vain(lease: Lease, reason: str) -> None:
        raise StoreUnavailable("here", "a trial")

    heartbeat = _heartbeat(parts)
    with (
        heartbeat.guard(stuck, time.monotonic() - 5.0, in_vain) as lost,
        heartbeat.guard(living, time.monotonic(), _never),
    ):
        wait_until(lambda: parts.reader.now_ms() > before, "the clock stands")
        with pytest.raises(StoreUnavailable):
            heartbeat.beat()
        lost.due_back = None
    assert _beaten_since(parts, living, before)


def test_a_turn_does_not_end_before_its_call_has_been_given_back(parts: Parts) -> None:
    """A worker that ends does so as soon as its turns have, whatever its heartbeat still does."""
    lease = _claimed(parts)
    given_back: list[tuple[Lease, str]] = []

    def slowly(lease: Lease, reason: str) -> None:
        turn_goes_on.wait(10)
        given_back.append((lease, reason))

    turn_goes_on = threading.Event()
    heartbeat = _heartbeat(parts)
    with heartbeat.guard(lease, time.monotonic() - 5.0, slowly) as hold:
        heartbeat.start()
        assert hold.stop.wait(10)
        threading.Timer(0.2, turn_goes_on.set).start()
    assert given_back == [(lease, DEADLINE)]
    heartbeat.close()


def test_a_drain_that_has_begun_begins_no_more_and_is_known_to_forked_children() -> None:
    drain = Drain(within_s=60)
    assert (drain.begun, round(drain.left_s)) == (False, 60)
    drain.begin()
    left_s = drain.left_s
    if (child := os.fork()) == 0:
        drain.begin()
        os._exit(0 if drain.begun and drain.left_s <= left_s else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert drain.left_s <= left_s

    other = Drain(within_s=60)
    if (child := os.fork()) == 0:
        other.begin()
        os._exit(0)
    os.waitpid(child, 0)
    assert other.begun


def test_who_cannot_beat_says_why_once(
    own_server: EmbeddedServer, caplog: pytest.LogCaptureFixture
) -> None:
    own_server.kill()
    with connect(own_server.url) as client:
        heartbeat = _heartbeat(Parts(client))
        with caplog.at_level(logging.WARNING, "callflow.heartbeat"):
            heartbeat.start()
            wait_until(lambda: caplog.records, "it says nothing")
        heartbeat.close()
    (only,) = caplog.records
    where = f"127.0.0.1:{own_server.port}/0"
    assert only.message.startswith(f"w@test/1-aa cannot beat: the Redis server at {where} ")


def test_starting_twice_starts_one_thread(parts: Parts) -> None:
    heartbeat = _heartbeat(parts)
    heartbeat.start()
    heartbeat.start()

    beating = [thread for thread in threading.enumerate() if thread.name == "heartbeat"]
    assert len(beating) == 1
    heartbeat.close()


def test_a_process_has_a_name_of_its_own_that_is_safe_to_store() -> None:
    name = worker_name('w"1\\@höst')

    assert name.startswith("w_1_@h_st/")
    assert worker_name("w1@host") != worker_name("w1@host")
