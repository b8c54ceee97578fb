"""The server that holds the calls fails over under real workers: turns that had begun go on.

The broker is a server of its own here, so that what is seen is the state's failover alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from callflow.celery import use_broker
from callflow.lab.chaos.chaos_servers import ServerPair, freeze, server_pair, thaw
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack
from callflow.redis.client import connect
from callflow.settings import load
from callflow.store.replies import Replies
from tests.parts import Parts
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

CALLS = 6


def _sid(number: int) -> str:
    return f"CA{number:032x}"


@dataclass
class Struck:
    """Workers whose calls are on a primary with a replica."""

    pair: ServerPair
    parts: Parts

    def all_speak(self, turn: int) -> None:
        for number in range(CALLS):
            if turn == 1:
                self.parts.intake.open(_sid(number))
            self.parts.intake.hear(_sid(number), turn, "we are stuck please help")

    def held(self) -> int:
        return self.parts.reader.counts()["leased"]

    def all_answered(self, turn: int, within_s: float) -> None:
        """Each once, and nobody silent for good."""

        async def wait() -> list[bool]:
            async with Replies.listening(self.pair.url) as replies:
                found = await asyncio.gather(
                    *(replies.wait(_sid(number), turn, within_s) for number in range(CALLS))
                )
            return [reply is not None and reply.done for reply in found]

        assert all(asyncio.run(wait()))
        for number in range(CALLS):
            events = [e for e in self.parts.journal(_sid(number)) if e.event == "committed"]
            assert [e.turn for e in events] == list(range(1, turn + 1))


@contextmanager
def _struck(log_dir: Path, **settings: str) -> Iterator[Struck]:
    with server_pair() as pair, EmbeddedServer.start() as broker:
        given = {f"CALLFLOW_{name.upper()}": value for name, value in settings.items()}
        given |= {"CALLFLOW_REDIS_URL": pair.url, "CALLFLOW_BROKER_URL": broker.url}
        use_broker(broker.url)
        with LocalStack(given, log_dir) as stack, connect(pair.url) as client:
            for number in (1, 2):
                stack.start_worker(f"w{number}", slots=3)
            stack.start_watchdog()
            stack.start_beat("beat1")
            parts = Parts(client, load(given).timing)
            wait_until(lambda: len(parts.leases.present_now()) >= CALLS, "no workers came up", 40)
            yield Struck(pair, parts)
            parts.close()


def _killed(pair: ServerPair) -> None:
    pair.wait_until_in_step()
    pair.fail_over()


def _demoted(pair: ServerPair) -> None:
    pair.wait_until_in_step()
    pair.promote()
    pair.follow()
    pair.lead_clients(keep_open=True)


def _frozen(pair: ServerPair) -> None:
    """Its connections stay open and say nothing; the endpoint ends them with the switch."""
    pair.wait_until_in_step()
    freeze(pair.primary)
    pair.promote()
    pair.lead_clients()


@pytest.mark.parametrize(
    "strike",
    [
        pytest.param(_killed, id="killed"),
        pytest.param(_demoted, id="demoted with its connections open"),
        pytest.param(_frozen, id="frozen"),
    ],
)
def test_fault_04_a_failover_in_the_middle_of_turns_costs_a_pause(
    tmp_path: Path, strike: Callable[[ServerPair], None]
) -> None:
    with _struck(tmp_path, pace_s="0.5") as struck:
        struck.all_speak(1)
        struck.all_answered(1, within_s=20)
        struck.all_speak(2)
        wait_until(lambda: struck.held() == CALLS, "the turns never began", 20)
        strike(struck.pair)
        began = time.monotonic()
        struck.all_speak(3)
        print(f"heard again after {time.monotonic() - began:.2f} s")
        struck.all_answered(3, within_s=15)
        print(f"answered after {time.monotonic() - began:.2f} s")
        thaw(struck.pair.replica)


def test_a_primary_that_restarts_in_the_middle_of_turns_costs_a_pause(tmp_path: Path) -> None:
    with _struck(tmp_path, pace_s="0.5") as struck:
        struck.all_speak(1)
        wait_until(lambda: struck.held() == CALLS, "the turns never began", 20)
        struck.pair.primary.restart()
        struck.all_answered(1, within_s=15)


def test_turns_that_an_unreplicated_failover_took_are_asked_for_and_none_is_answered_twice(
    tmp_path: Path,
) -> None:
    with _struck(tmp_path, pace_s="0.3") as struck:
        struck.all_speak(1)
        struck.all_answered(1, within_s=20)
        struck.pair.wait_until_in_step()
        struck.pair.cut_off_replica()
        struck.all_speak(2)
        struck.all_answered(2, within_s=20)
        struck.pair.fail_over()
        for number in range(CALLS):
            # As a web process does that knows from its address what it had acknowledged.
            struck.parts.store.failover.admit_loss(_sid(number), 2, told=2)
        struck.parts.intake.store.record_utterance(_sid(0), 3, "and now?")
        reply_wait_s = 15

        async def wait() -> bool:
            async with Replies.listening(struck.pair.url) as replies:
                reply = await replies.wait(_sid(0), 3, reply_wait_s)
            return reply is not None and reply.done

        assert asyncio.run(wait())
        for number in range(CALLS):
            lost = [e for e in struck.parts.journal(_sid(number)) if e.event == "lost"]
            assert [(e.turn, e.count) for e in lost] == [(2, 1)]
            assert struck.parts.record(_sid(number)).lost == 1
