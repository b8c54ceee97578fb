"""What a worker process does besides its tasks, seen from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from callflow.celery import CALLS, WATCHDOG, use_broker
from callflow.heartbeat import STUCK_STATUS
from callflow.lab.embedded_server import EmbeddedServer
from callflow.messages import discard_sweeps, wake
from tests.parts import Parts

ROOT = Path(__file__).parents[1]


def _python(
    *arguments: str, cwd: Path, timeout_s: float = 50, **env: str
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": path, **env},
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


@pytest.mark.stack
def test_a_worker_without_usable_procedures_does_not_start(redis_url: str, tmp_path: Path) -> None:
    """It would take calls from the workers that can answer them."""
    sops = tmp_path / "sops"
    sops.mkdir()
    (sops / "bad.md").write_text("no front matter here\n")

    worker = _python(
        *("-m", "celery", "-A", "callflow", "worker", "-Q", ",".join(CALLS), "-c", "1"),
        cwd=tmp_path,
        CALLFLOW_REDIS_URL=redis_url,
        CALLFLOW_SOP_DIR=str(sops),
    )

    assert worker.returncode == 1
    assert f"{sops / 'bad.md'}:1: " in worker.stderr


def test_a_celeryconfig_in_the_working_directory_does_not_take_the_place_of_ours(
    redis_url: str, tmp_path: Path
) -> None:
    (tmp_path / "celeryconfig.py").write_text(
        "accept_content = ['pickle']\nbroker_url = 'amqp://elsewhere'\n"
    )
    asks = (
        "import json; from callflow.celery import app; c = app.conf; "
        "print(json.dumps([c.accept_content, c.broker_url, sorted(c.task_routes)]))"
    )

    told = _python("-c", asks, cwd=tmp_path, CALLFLOW_REDIS_URL=redis_url)

    assert json.loads(told.stdout) == [
        ["json"],
        redis_url,
        ["callflow.run_turn", "callflow.sweep"],
    ], told.stderr


def test_sweeps_that_nobody_takes_are_thrown_away(parts: Parts) -> None:
    parts.client.lpush(WATCHDOG, "an old sweep", "another")

    discard_sweeps()

    assert parts.client.llen(WATCHDOG) == 0


def test_throwing_sweeps_away_needs_no_broker(own_server: EmbeddedServer) -> None:
    use_broker(own_server.url)
    own_server.stop()
    discard_sweeps()


@pytest.mark.stack
@pytest.mark.parametrize("expendable", [True, False])
def test_a_pool_process_whose_turn_will_not_stop_ends_itself(
    redis_url: str, tmp_path: Path, expendable: bool
) -> None:
    """Its call has been given away; the slot that it sits in has not. A pool of threads stays:
    its other turns are well."""
    story = f"""
        import time
        from callflow import heartbeat
        from callflow.celery import use_broker
        from callflow.redis.client import connect
        from tests.parts import SID, Parts

        heartbeat.STUCK_AFTER_S = 0.3
        use_broker({redis_url!r})

        class Wedged:
            def respond(self, record, stop):
                time.sleep(3)
                return iter(())

        parts = Parts(connect({redis_url!r})).patient(turn_ms=300)
        parts.intake.open(SID)
        parts.intake.hear(SID, 1, "stuck")
        worker = parts.worker(Wedged())
        worker.heartbeat.start(expendable={expendable})
        print(worker.run(SID))
        parts.close()
    """

    done = _python("-c", textwrap.dedent(story), cwd=tmp_path)

    if expendable:
        assert done.returncode == STUCK_STATUS, done.stderr
    else:
        assert (done.returncode, done.stdout.strip()) == (0, "lost"), done.stderr
    with Parts.on(redis_url) as parts:
        assert [e.reason for e in parts.journal() if e.event == "handed_back"] == ["deadline"]
        parts.close()


@pytest.mark.chaos
def test_a_process_whose_heartbeat_dies_ends_itself_and_says_why(
    redis_url: str, tmp_path: Path
) -> None:
    """Else it would take calls and lose each of them, for as long as it lives."""
    story = f"""
        import logging, time
        from callflow.redis.client import connect
        from tests.parts import Parts, Says

        logging.basicConfig()
        heartbeat = Parts(connect({redis_url!r})).worker(Says(("Hello.",))).heartbeat
        heartbeat.start()
        heartbeat.beat = None
        time.sleep(30)
    """

    done = _python("-c", textwrap.dedent(story), cwd=tmp_path)

    assert done.returncode == STUCK_STATUS, done.stderr
    assert "ends itself: its heartbeat has died" in done.stderr
    assert "'NoneType' object is not callable" in done.stderr
    with Parts.on(redis_url) as parts:
        assert parts.leases.present_now() == []


@pytest.mark.chaos
@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_that_cannot_run_turns_says_why_ends_and_keeps_no_message(
    redis_url: str, tmp_path: Path, pool: str
) -> None:
    """Celery would replace its children by others that cannot either, and take messages for them.
    (attevon-llc/OpenTranscribe#631: 69,231 of them in one night.)"""
    story = f"""
        import sys
        from callflow import bootstrap

        def broken(node):
            raise RuntimeError("can't start new thread")

        bootstrap.turns = broken
        from celery.__main__ import main

        sys.argv = "celery -A callflow worker -Q turns -c 1 -P {pool}".split()
        sys.exit(main())
    """
    use_broker(redis_url)
    wake("CA1")

    worker = _python(
        *("-c", textwrap.dedent(story)),
        cwd=tmp_path,
        CALLFLOW_REDIS_URL=redis_url,
        CALLFLOW_DRAIN_S="1",
    )

    assert """no turns here: RuntimeError("can't start new thread")""" in worker.stderr
    with Parts.on(redis_url) as parts:
        assert parts.queued() == (0, 1)
        parts.client.flushall()
