"""The heartbeat: one per process, and the first to know that a lease is gone."""

from __future__ import annotations

import threading
import time
from functools import partial

import pytest

from callflow.errors import LeaseLost
from callflow.heartbeat import Heartbeat, worker_name
from callflow.store.embedded import EmbeddedServer
from callflow.store.outcome import Claimed, Lease
from callflow.store.presence import Presence
from callflow.store.script import connect
from tests.parts import SID, Parts
from tests.waiting import wait_until


def _claimed(parts: Parts, sid: str = SID) -> Lease:
    parts.intake.open(sid)
    parts.intake.hear(sid, 1, "stuck")
    claimed = parts.store.claim(sid, "w@test/1-aa", f"claim-{sid}")
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _heartbeat(parts: Parts, name: str = "w@test/1-aa") -> Heartbeat:
    return Heartbeat(parts.store, Presence(parts.client, name), name)


def _beaten_since(parts: Parts, lease: Lease, beat: int) -> bool:
    return (parts.record(lease.call_sid).last_heartbeat or 0) > beat


def _never(lease: Lease) -> None:
    pytest.fail(f"{lease} is not wedged")


def test_it_beats_for_every_turn_of_its_process(parts: Parts) -> None:
    leases = [_claimed(parts, f"CA{number}") for number in range(3)]
    heartbeat = _heartbeat(parts)
    first = [parts.record(lease.call_sid).last_heartbeat or 0 for lease in leases]

    heartbeat.start()
    with (
        heartbeat.keep(leases[0], time.monotonic(), _never),
        heartbeat.keep(leases[1], time.monotonic(), _never),
        heartbeat.keep(leases[2], time.monotonic(), _never),
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
    with heartbeat.keep(lease, time.monotonic(), _never) as hold:
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
    with heartbeat.keep(lease, time.monotonic(), _never) as hold:
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
        with heartbeat.keep(lease, time.monotonic(), _never) as hold:
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


def test_a_turn_past_its_deadline_is_reported_once(parts: Parts) -> None:
    lease = _claimed(parts)
    wedged: list[Lease] = []
    heartbeat = _heartbeat(parts)
    with heartbeat.keep(lease, time.monotonic() - 5.0, wedged.append) as hold:
        heartbeat.beat()
        heartbeat.beat()

        assert hold.stop.is_set()
    assert wedged == [lease]


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
