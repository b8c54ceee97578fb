"""Workers replaced under load: a turn is answered once, and a deploy costs a caller one claim."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from callflow.store.replies import Replies
from tests.chaos.test_drain import LEAVES_WITHIN_S, answered_once, ended_well, entries, sid_of
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


class Callers:
    """They speak, wait for the reply, think, and speak again, until they are told to stop."""

    def __init__(self, run: Running, count: int, think_s: float) -> None:
        self._run = run
        self._think_s = think_s
        self._enough = threading.Event()
        self.sids = [sid_of(number) for number in range(1, count + 1)]
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))

    def beside(self, happens: Callable[[], None]) -> None:
        """Let them speak while something happens, and finish their last turns."""
        self._thread.start()
        try:
            happens()
        finally:
            self._enough.set()
            self._thread.join()

    def turns(self) -> list[tuple[int, int]]:
        """When each turn was heard, and how long it took to be answered; ms on the server's clock.
        Each was answered once."""
        found = []
        for sid in self.sids:
            heard = {entry.turn: entry.at for entry in entries(self._run, sid, "heard")}
            committed = {entry.turn: entry.at for entry in entries(self._run, sid, "committed")}
            assert heard.keys() == committed.keys(), f"{sid}: a turn was not answered"
            answered_once(self._run, sid, turns=len(heard))
            found += [(at, committed[turn] - at) for turn, at in heard.items()]
        return found

    async def _live(self) -> None:
        async with Replies.listening(self._run.url) as replies:
            async with asyncio.TaskGroup() as calls:
                for number, sid in enumerate(self.sids):
                    calls.create_task(self._call(replies, sid, number / len(self.sids)))

    async def _call(self, replies: Replies, sid: str, after: float) -> None:
        await asyncio.sleep(after * self._think_s)
        turn = 0
        while not self._enough.is_set():
            turn += 1
            await asyncio.to_thread(self._run.caller_says, sid, turn, f"hello for time {turn}")
            reply = await replies.wait(sid, turn, 30)
            assert reply is not None
            assert reply.done
            await asyncio.sleep(self._think_s)


def test_fault_10_workers_told_to_end_under_load_answer_each_turn_once(tmp_path: Path) -> None:
    """So often that turns do not fit: they change workers, and nothing is said twice."""
    with running(
        tmp_path, workers=3, slots=1, responder="counted", pace_s="0.2", drain_s="0.1"
    ) as run:
        callers = Callers(run, 8, think_s=0.2)

        def replace_them_all_twice() -> None:
            for number in range(1, 7):
                run.stack.start_worker(f"w{number + 3}", slots=1)
                run.wait_for_workers(4)
                worker = run.stack.processes[f"w{number}"]
                worker.end()
                ended_well(worker, LEAVES_WITHIN_S)

        callers.beside(replace_them_all_twice)
        assert len(callers.turns()) > 50
        reasons = [e.reason for sid in callers.sids for e in entries(run, sid, "handed_back")]
        assert reasons
        assert set(reasons) == {"drained"}


def test_a_rolling_deploy_of_every_process_costs_a_caller_one_claim(tmp_path: Path) -> None:
    with running(
        tmp_path, workers=10, pool="threads", slots=1, responder="counted", pace_s="0.3"
    ) as run:
        began_ms = 0
        callers = Callers(run, 30, think_s=3)
        for sid in callers.sids:
            run.parts.intake.open(sid)

        def a_while_of_peace_and_then_the_deploy() -> None:
            nonlocal began_ms
            wait_until(
                lambda: min(r.answered for r in run.parts.reader.active()) >= 3,
                "not everybody has been answered three times",
                within_s=40,
            )
            began_ms = run.parts.reader.now_ms()
            for number in range(1, 11):
                run.stack.start_worker(f"w{number + 10}", pool="threads", slots=1)
                run.wait_for_workers(11)
                worker = run.stack.processes[f"w{number}"]
                worker.end()
                ended_well(worker, LEAVES_WITHIN_S)
            for name, start in (
                ("beat1", run.stack.start_beat),
                ("watchdog", run.stack.start_watchdog),
            ):
                run.stack.processes[name].end()
                ended_well(run.stack.processes[name], LEAVES_WITHIN_S)
                start(name)

        callers.beside(a_while_of_peace_and_then_the_deploy)
        turns = callers.turns()
        undisturbed = max(took for at, took in turns if at + took < began_ms)
        disturbed = max(took for at, took in turns if at + took >= began_ms)
        print(f"undisturbed {undisturbed} ms, disturbed {disturbed} ms, {len(turns)} turns")
        assert disturbed <= 1.5 * undisturbed
