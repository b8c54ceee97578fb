"""A stack with two web processes, and a carrier in front of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.lab.chaos.environment import PhoneSetup
from tests.chaos.test_telephone import SPEED, Telephone
from tests.stack_parts import running
from tests.waiting import wait_until


@pytest.fixture
def telephone(tmp_path: Path) -> Iterator[Telephone]:
    line = PhoneSetup.create()
    env = {**line.env, "CALLFLOW_SPEECH_LETTERS_PER_S": str(15 * SPEED)}
    with running(tmp_path, env=env, pace_s="0.05") as run:
        for name, port in line.ports.items():
            run.stack.start_web(port, name)
        ready = Telephone(run, line)
        wait_until(lambda: asyncio.run(ready.web.all_answer()), "no web process", within_s=20)
        yield ready
