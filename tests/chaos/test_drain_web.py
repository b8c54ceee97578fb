"""SIGTERM to web processes in the middle of calls: what is asked is answered, and sockets change
process without a word being said twice."""

from __future__ import annotations

import asyncio
import signal

import pytest

from callflow.lab.carrier.carrier_call import Call
from callflow.web.app import DRAIN_S
from tests.chaos.test_telephone import (
    GATHER,
    RELAY,
    Telephone,
    _unharmed,
)

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]


@pytest.mark.parametrize("to", [GATHER, RELAY])
def test_web_processes_told_to_end_one_after_the_other_are_heard_by_nobody(
    telephone: Telephone,
    to: str,
) -> None:
    ended: list[int] = []

    async def replace_one_after_the_other(call: Call) -> None:
        while True:
            for name, port in telephone.web.ports.items():
                while not await telephone.web.all_answer():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                leaving = telephone.run.stack.processes[name]
                leaving.end()
                ended.append(await asyncio.to_thread(leaving.popen.wait, DRAIN_S + 5))
                telephone.run.stack.start_web(port, name)

    report = telephone.call(to, 20, meanwhile=replace_one_after_the_other)
    _unharmed(telephone, report, 20)
    assert report.longest_silence_s <= 4
    assert len(ended) > 3
    # uvicorn lets its requests finish, and then ends by the signal that it was sent.
    assert set(ended) == {-signal.SIGTERM}
