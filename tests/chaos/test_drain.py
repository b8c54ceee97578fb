"""SIGTERM to workers in the middle of their work: no caller may notice more than a short pause."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from callflow.call.history import JournalEntry
from callflow.celery import CALLS
from callflow.heartbeat import STUCK_STATUS
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import StackProcess
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

LEAVES_WITHIN_S = 12.0
"""So long a worker may take to end; one or two seconds of it are Celery's, where nobody else wants
the machine."""

BOTH_POOLS = pytest.mark.parametrize("pool", ["prefork", "threads"])


def sid_of(number: int) -> str:
    return f"CA{number:032x}"


def ended_well(worker: StackProcess, within_s: float) -> None:
    assert worker.popen.wait(within_s) == 0, worker.last_lines()


def entries(run: Running, sid: str, event: str) -> list[JournalEntry]:
    return [entry for entry in run.parts.journal(sid) if entry.event == event]


def answered_once(run: Running, sid: str, turns: int = 1) -> None:
    events = run.parts.events(sid)
    assert events.count("committed") == turns
    assert "reclaimed" not in events
    assert "refused" not in events


@BOTH_POOLS
def test_a_turn_that_fits_is_finished_by_the_worker_that_is_told_to_end(
    tmp_path: Path, pool: str
) -> None:
    with running(tmp_path, pool=pool, slots=1, responder="counted", pace_s="0.5") as run:
        run.caller_says(sid_of(1), 1, "we are stuck please help")
        worker = run.process_of(run.being_answered(sid_of(1)))
        worker.end()

        assert run.reply(sid_of(1), 1).done
        ended_well(worker, LEAVES_WITHIN_S)
        assert len(entries(run, sid_of(1), "claimed")) == 1
        answered_once(run, sid_of(1))


@BOTH_POOLS
@pytest.mark.parametrize("signals", [1, 2])
def test_a_turn_that_does_not_fit_is_given_to_another_worker_at_once(
    tmp_path: Path, pool: str, signals: int
) -> None:
    with running(
        tmp_path, pool=pool, slots=1, responder="counted", pace_s="1", drain_s="0.5"
    ) as run:
        run.caller_says(sid_of(1), 1, "we are stuck please help")
        worker = run.process_of(run.being_answered(sid_of(1)))
        for _ in range(signals):
            worker.end()

        reply = run.reply(sid_of(1), 1)
        ended_well(worker, LEAVES_WITHIN_S)
        first, second = entries(run, sid_of(1), "claimed")
        (handed_back,) = entries(run, sid_of(1), "handed_back")
        assert handed_back.reason == "drained"
        assert second.at - handed_back.at < 500
        assert second.attempts == 0
        assert first.worker != second.worker
        assert reply.text.count("part 1 of 3") == 1
        answered_once(run, sid_of(1))


@BOTH_POOLS
def test_fault_27_two_calls_of_one_worker_are_both_answered(tmp_path: Path, pool: str) -> None:
    with running(
        tmp_path, workers=1, pool=pool, slots=2, responder="counted", pace_s="1.5", drain_s="0.5"
    ) as run:
        for number in (1, 2):
            run.caller_says(sid_of(number), 1, f"this is passenger {number}")
            run.being_answered(sid_of(number))
        run.stack.start_worker("w2", slots=2, pool=pool)
        worker = run.stack.processes["w1"]
        worker.end()

        for number in (1, 2):
            assert str(number) in run.reply(sid_of(number), 1).text
            assert [e.reason for e in entries(run, sid_of(number), "handed_back")] == ["drained"]
            answered_once(run, sid_of(number))
        ended_well(worker, LEAVES_WITHIN_S)


@BOTH_POOLS
def test_what_was_taken_and_not_begun_is_given_back_at_once(tmp_path: Path, pool: str) -> None:
    """A pool of threads has taken the second message while its slot was busy; a prefork pool leaves
    it where it is. The watchdog would be long in finding it here."""
    with running(
        tmp_path,
        workers=1,
        pool=pool,
        slots=1,
        responder="counted",
        pace_s="2.5",
        owed_after_s="60",
    ) as run:
        worker = run.stack.processes["w1"]
        run.caller_says(sid_of(1), 1, "we are stuck please help")
        run.being_answered(sid_of(1))
        run.caller_says(sid_of(2), 1, "so are we")
        if pool == "threads":
            wait_until(lambda: run.parts.queued() == (0, 0), "the message was never taken")
        worker.end()
        wait_until(lambda: run.parts.queued() == (0, 1), "the message is kept", within_s=5)
        assert run.parts.record(sid_of(1)).owed, "the first turn was done before"

        run.stack.start_worker("w2", pool=pool, slots=1)
        assert run.reply(sid_of(1), 1).done
        assert run.reply(sid_of(2), 1).done
        for number in (1, 2):
            assert len(entries(run, sid_of(number), "claimed")) == 1
            answered_once(run, sid_of(number))


@BOTH_POOLS
def test_a_worker_without_its_broker_finishes_its_turn_and_ends(tmp_path: Path, pool: str) -> None:
    with EmbeddedServer.start() as broker:
        with running(
            tmp_path, broker_url=broker.url, pool=pool, slots=1, responder="counted", pace_s="1"
        ) as run:
            run.caller_says(sid_of(1), 1, "we are stuck please help")
            worker = run.process_of(run.being_answered(sid_of(1)))
            broker.kill()
            worker.end()

            assert run.reply(sid_of(1), 1).done
            ended_well(worker, LEAVES_WITHIN_S)
            assert len(entries(run, sid_of(1), "claimed")) == 1
            answered_once(run, sid_of(1))
            broker.restart()


def test_a_turn_that_is_stuck_in_a_thread_does_not_keep_its_worker(tmp_path: Path) -> None:
    """Its call is another worker's by then. The status says that something was wrong."""
    stuck = tmp_path / "stuck.py"
    stuck.write_text(
        "import sys, time\n"
        "from callflow import bootstrap, worker\n"
        "class Stuck:\n"
        "    def respond(self, record, stop):\n"
        "        time.sleep(600)\n"
        "        yield\n"
        "bootstrap.responder = lambda script: Stuck()\n"
        "worker.STUCK_AFTER_S = worker.LEAVE_WITHIN_S = 0.5\n"
        "from celery.__main__ import main\n"
        "sys.argv = sys.argv[1:]\n"
        "main()\n"
    )
    with running(tmp_path, workers=0, responder="counted", drain_s="0.5") as run:
        options = f"worker -n w1@%h -Q {','.join(CALLS)} -P threads -c 1 --without-mingle".split()
        command = [sys.executable, str(stuck), "celery", "-A", "callflow", *options]
        worker = run.stack.start("w1", command)
        run.wait_for_workers(1)
        run.caller_says(sid_of(1), 1, "we are stuck please help")
        run.being_answered(sid_of(1))
        worker.end()

        assert worker.popen.wait(LEAVES_WITHIN_S) == STUCK_STATUS, worker.last_lines()
        assert [e.reason for e in entries(run, sid_of(1), "handed_back")] == ["drained"]
        run.stack.start_worker("w2", slots=1)
        assert run.reply(sid_of(1), 1).done
        answered_once(run, sid_of(1))


def test_fault_42_a_call_whose_first_message_the_ending_worker_has_taken_is_not_forgotten(
    tmp_path: Path,
) -> None:
    with running(tmp_path, workers=1, slots=1, responder="counted") as run:
        worker = run.stack.processes["w1"]
        for number in range(1, 6):
            run.caller_says(sid_of(number), 1, f"this is passenger {number}")
        worker.end()
        for number in range(6, 11):
            run.caller_says(sid_of(number), 1, f"this is passenger {number}")
        ended_well(worker, LEAVES_WITHIN_S)
        run.stack.start_worker("w2", slots=1)

        for number in range(1, 11):
            assert run.reply(sid_of(number), 1).done
            answered_once(run, sid_of(number))
