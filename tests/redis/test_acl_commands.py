"""The commands of the README and of compose.yaml under the users of deploy/acl, as they stand."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.health.worker_reports import Phase, ReportStore, WorkerReport
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from tests.acl import refusals, url_of, users
from tests.servers import EACH, binary_of
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "operations.md"]
WORKERS = {
    command
    for page in PAGES
    for command in re.findall(r"`(celery -A callflow worker [^`]+)`", page.read_text())
} | set(re.findall(r"command: (celery -A callflow worker .+)", (ROOT / "compose.yaml").read_text()))


@pytest.fixture(params=EACH)
def guarded(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with EmbeddedServer.start(binary=binary_of(request.param), options=users()) as server:
        yield server


def callflow(server: EmbeddedServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of a reader, as monitoring runs it."""
    return subprocess.run(
        [sys.executable, "-m", "callflow", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "CALLFLOW_REDIS_URL": url_of(server, "callflow-reader"),
            "CALLFLOW_BROKER_URL": url_of(server, "callflow-broker"),
        },
    )


@pytest.mark.stack
def test_a_reader_can_run_the_doctor(guarded: EmbeddedServer) -> None:
    with connect(url_of(guarded, "callflow")) as client:
        vitals = ReportStore(Scripts(client))
        vitals.save(
            WorkerReport("w1@a", patience_ms=60_000, slots=1, children=1, queues=("turns",))
        )
        refusals(guarded)
        ran = callflow(guarded, "doctor", "--json")
        told = {check["name"]: check for check in json.loads(ran.stdout)["checks"]}
        assert refusals(guarded) == []
        assert {"server", "writes", "workers", "owed turns", "records", "broker"} <= told.keys()
        assert told["server"]["grade"] == told["broker"]["grade"] == "ok"
        assert "permission" not in str(told)

        well = callflow(guarded, "doctor", "--node", "w1@a")
        assert (well.returncode, "w1@a is well" in well.stdout) == (0, True), well
        unknown = callflow(guarded, "doctor", "--node", "w2@a")
        assert (unknown.returncode, "has said nothing" in unknown.stdout) == (1, True), unknown
        assert refusals(guarded) == []
        vitals.forget("w1@a")


@pytest.mark.chaos
@pytest.mark.timeout(120)
def test_the_workers_of_the_readme_serve_with_the_rights_of_deploy(
    guarded: EmbeddedServer, tmp_path: Path
) -> None:
    assert len(WORKERS) >= 4, "the commands stand elsewhere now"
    given = {
        "CALLFLOW_REDIS_URL": url_of(guarded, "callflow"),
        "CALLFLOW_BROKER_URL": url_of(guarded, "callflow-broker"),
    }
    refusals(guarded)
    with LocalStack(given, tmp_path / "logs") as stack, connect(guarded.url) as admin:
        for number, command in enumerate(sorted(WORKERS)):
            words = [one for one in shlex.split(command) if not one.endswith("@%h")]
            words = [one for one in words if one != "-n"]
            mine = ("-n", f"w{number}@%h", "-c", "1")
            stack.start(f"w{number}", [sys.executable, "-m", *words, *mine])

        def working() -> bool:
            signs = ReportStore(Scripts(admin)).read().reports
            return sum(one.phase is Phase.WORKING for one in signs) == len(WORKERS)

        wait_until(working, "all of them are connected", within_s=60)
        assert refusals(guarded) == []
