"""What was reported of workers elsewhere, done to ours. Each trial is named after its report."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier, Event

import pytest
from kombu.transport import virtual

from callflow.call.record import CallRecord
from callflow.celery import CALLS, TAKEOVER, TURNS, app
from callflow.lab.stack import StackProcess
from callflow.messages import wake
from callflow.responder import Piece
from callflow.turn import TurnOutcome
from tests.parts import SID, Parts
from tests.stack_parts import Running, running
from tests.waiting import wait_until

BOTH_POOLS = pytest.mark.parametrize(
    "pool", ["prefork", pytest.param("threads", marks=pytest.mark.night)]
)


def _sid(number: int) -> str:
    return f"CA{number:032x}"


def _chaos(seconds: int) -> list[pytest.MarkDecorator]:
    return [pytest.mark.chaos, pytest.mark.timeout(seconds)]


@dataclass
class WaitsFor:
    """Says its piece once everybody is there, so that all turns run side by side."""

    everybody: Barrier

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        yield Piece("Hello.", last=True)


def test_fault_06_no_message_is_delivered_again_while_its_turn_runs(redis_url: str) -> None:
    """celery/celery#5935: after the visibility timeout, N copies of one task run side by side."""
    with app.connection_for_read(redis_url) as connection:
        channel = connection.channel()
        assert type(channel.qos) is virtual.QoS, "it keeps no list of what may be delivered again"
    assert app.conf.task_acks_late is False


def test_fault_11_one_message_delivered_to_many_workers_is_one_turn(parts: Parts) -> None:
    """celery/celery#3270: several workers take the same task id, at the same moment."""
    parts.intake.open(SID)
    barrier = Barrier(8)
    workers = [parts.worker(WaitsFor(barrier)) for _ in range(8)]
    for turn in range(1, 6):
        parts.intake.hear(SID, turn, f"stuck for the {turn}th time")

        def answer(number: int) -> TurnOutcome:
            barrier.wait(10)
            return workers[number].run(SID)

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(answer, range(8)))
        assert outcomes.count(TurnOutcome.ANSWERED) == 1
        assert set(outcomes) <= {TurnOutcome.ANSWERED, TurnOutcome.HELD, TurnOutcome.IDLE}
    assert parts.events().count("committed") == 5
    assert "refused" not in parts.events()


class TestWithRealWorkers:
    """Processes, signals, and a server that hands out messages."""

    pytestmark = _chaos(120)

    @BOTH_POOLS
    def test_fault_06_a_turn_that_is_woken_all_the_while_runs_once(
        self, tmp_path: Path, pool: str
    ) -> None:
        """Twelve seconds long, with a copy of its message on each queue four times a second."""
        with running(
            tmp_path, pool=pool, responder="counted", pace_s="4", turn_deadline_s="30"
        ) as run:
            run.caller_says(SID, 1, "we are stuck please help")
            run.being_answered(SID)
            copies = 0

            def answered() -> bool:
                nonlocal copies
                for takeover in (True, False):
                    wake(SID, takeover=takeover)
                copies += 1
                wait_until(lambda: run.parts.queued() == (0, 0), "copies are not taken")
                return not run.parts.record(SID).owed

            wait_until(answered, "it was never answered", within_s=40)
            assert copies > 40
            _answered_once(run, SID)
            assert run.parts.events(SID).count("claimed") == 1

    def test_fault_11_messages_doubled_at_random_change_nothing(self, tmp_path: Path) -> None:
        with running(tmp_path, workers=3, responder="counted", pace_s="0.05") as run:
            chance = random.Random(11)
            sids = [_sid(number) for number in range(10)]
            for turn in range(1, 6):
                for sid in sids:
                    run.caller_says(sid, turn, f"stuck for the {turn}th time")
                    for queue in CALLS:
                        for message in run.parts.client.lrange(queue, 0, -1):
                            # The very same message, with the same id, and at any place.
                            copy = chance.choice((TAKEOVER, TURNS))
                            run.parts.client.lpush(copy, *[message] * chance.randrange(1, 4))
                for sid in sids:
                    assert run.reply(sid, turn).done
            for sid in sids:
                _answered_once(run, sid, turns=5)

    @BOTH_POOLS
    def test_fault_08_a_message_that_dies_with_the_worker_that_took_it_is_made_good(
        self, tmp_path: Path, pool: str
    ) -> None:
        with running(tmp_path, workers=1, slots=1, pool=pool, responder="counted") as run:
            only = run.stack.processes["w1"]
            run.caller_says(_sid(1), 1, "we are stuck please help")
            assert run.reply(_sid(1), 1).done
            taken, heard = _taken_by_a_frozen_worker(run, only)
            only.kill()
            run.stack.start_worker("w2", slots=1, pool=pool)
            run.caller_says(_sid(30), 1, "we are stuck please help")
            assert run.reply(_sid(30), 1).done
            ready = run.parts.reader.now_ms()

            assert run.reply(taken, 1).done
            _answered_once(run, taken)
            counts_as_lost = heard + run.parts.timing.owed_ms
            claimed = heard + 1000 * run.seconds_to_next_claim(taken, heard)
            assert claimed - max(counts_as_lost, ready) < 2_000

    def test_fault_12_a_killed_child_frees_its_call_at_once_and_its_worker_goes_on(
        self, tmp_path: Path
    ) -> None:
        """celery/celery#2011: the worker hangs after a few of them."""
        with running(
            tmp_path, workers=1, slots=2, responder="counted", pace_s="0.7", sweep_interval_s="0.1"
        ) as run:
            run.wait_until_presence_counts()
            freed_s = []
            for number in range(1, 7):
                run.caller_says(_sid(number), 1, "we are stuck please help")
                record = run.being_answered(_sid(number))
                assert record.assigned_worker is not None
                child = int(record.assigned_worker.partition("/")[2].partition("-")[0])
                os.kill(child, signal.SIGKILL)
                struck = run.parts.reader.now_ms()
                assert run.reply(_sid(number), 1).done
                _answered_once(run, _sid(number))
                (freed,) = (e.at for e in run.parts.journal(_sid(number)) if e.event == "reclaimed")
                freed_s.append((freed - struck) / 1000)
            print("a killed child's call was freed after", freed_s)
            assert max(freed_s) < 1

    def test_fault_26_a_worker_that_dies_with_twenty_calls_loses_none(self, tmp_path: Path) -> None:
        """livekit/agents#1472: the call stays with the dead node."""
        with running(
            tmp_path, slots=20, pool="threads", workers=1, responder="counted", pace_s="1"
        ) as run:
            sids = [_sid(number) for number in range(20)]
            for sid in sids:
                run.caller_says(sid, 1, "we are stuck please help")
            for sid in sids:
                run.being_answered(sid)
            run.stack.start_worker("w2", slots=20, pool="threads")
            run.wait_for_workers(2)
            for sid in sids:
                run.caller_says(sid, 2, "hello")
            struck = run.parts.reader.now_ms()
            first = run.stack.processes["w1"]
            first.kill()

            taken_over_s = []
            for sid in sids:
                assert run.reply(sid, 2).done
                _answered_once(run, sid, turns=2)
                if "reclaimed" in run.parts.events(sid):
                    taken_over_s.append(run.seconds_to_next_claim(sid, struck))
            print(f"{len(taken_over_s)} calls taken over, after", sorted(taken_over_s))
            assert taken_over_s
            assert max(taken_over_s) < 3


def _taken_by_a_frozen_worker(run: Running, worker: StackProcess) -> tuple[str, int]:
    """A call whose message the server has handed to a worker that stands still, and when it was
    heard. It does so while the worker's last command waits there, for less than a second."""
    for number in range(2, 22):
        worker.freeze()
        run.caller_says(_sid(number), 1, "we are stuck please help")
        heard = run.parts.reader.now_ms()
        if run.parts.queued() == (0, 0):
            return _sid(number), heard
        worker.thaw()
        assert run.reply(_sid(number), 1).done
    raise AssertionError("the server never handed a message to a frozen worker")


def _answered_once(run: Running, sid: str, turns: int = 1) -> None:
    assert run.parts.events(sid).count("committed") == turns
    agent = [e.turn for e in run.parts.record(sid).conversation_thread if e.role == "agent"]
    assert agent == list(range(1, turns + 1))
