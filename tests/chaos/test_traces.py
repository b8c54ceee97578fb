"""Traces and logs of real processes: a worker dies in the middle of a turn, and both tell of it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from callflow.lab.stack import free_port
from tests.exchange import PUBLIC, SITES, TOKEN, Line
from tests.otlp import collecting
from tests.parts import SID
from tests.stack_parts import Running, running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(120)]

SAID = "private words we are stuck"


def _line_to_a_web_process(run: Running) -> Line:
    line = Line(free_port())
    web = run.stack.start_web(line.port)

    def answers() -> bool:
        assert web.alive, web.last_lines()
        try:
            return httpx.get(f"http://127.0.0.1:{line.port}/healthz").status_code == 200
        except httpx.ConnectError:
            return False

    wait_until(answers, "the web process answers", within_s=30)
    return line


def _logged(log: Path) -> list[dict[str, Any]]:
    """The lines of the log; Celery prints its banner beside it."""
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def test_a_turn_hangs_together_across_all_processes_and_the_one_that_died_in_it(
    tmp_path: Path,
) -> None:
    sites = tmp_path / "sites.yaml"
    sites.write_text(SITES, encoding="utf-8")
    with (
        collecting() as collector,
        running(
            tmp_path / "logs",
            slots=1,
            env={"OTEL_BSP_SCHEDULE_DELAY": "100"},
            traces_url=collector.url,
            log_format="json",
            log_level="info",
            pace_s="0.4",
            public_url=PUBLIC,
            twilio_auth_token=TOKEN,
            sites=str(sites),
        ) as run,
        ThreadPoolExecutor(1) as caller,
    ):
        line = _line_to_a_web_process(run)
        line.arrives()
        spoken = caller.submit(line.says, 1, SAID)
        record = run.being_answered(SID)
        run.process_of(record).kill()
        answer = spoken.result()
        while "Gather" not in answer.names:
            answer = line.follow(answer, "Redirect")
        run.stack.stop()
        logs = {name: _logged(process.log) for name, process in run.stack.processes.items()}
        written = "".join(one.log.read_text() for one in run.stack.processes.values())

    webhook, turn = collector.one("/voice/turn"), collector.one("turn")
    dead = int(str(record.assigned_worker).partition("/")[2].partition("-")[0])
    # What the dead process was in the middle of is known to nobody.
    collector.spans = [span for span in collector.spans if span.process["process.pid"] != dead]
    whole = collector.whole(webhook.trace)
    assert {span.name for span in whole} >= {"turn", "claim", "respond", "commit", "speak"}
    assert {span.process["callflow.part"] for span in whole} == {"web", "worker"}
    reclaim = collector.one("reclaim", call_sid=SID, lost=record.assigned_worker)
    assert [trace for trace, _ in turn.links] == [reclaim.trace]
    assert turn.attributes.items() >= {"fence": 2, "attempts": 1}.items()
    assert b"private" not in collector.raw

    assert "private" not in written
    (name,) = {str(turn.attributes["worker"]).partition("@")[0]}
    done = [one for one in logs[name] if "succeeded" in one["message"]]
    assert {one["call_sid"] for one in done} == {SID}
