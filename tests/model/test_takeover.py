"""A worker is lost in the middle of a model's streamed reply: the next one's goes on from there."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.celery import use_broker
from callflow.redis.client import connect
from callflow.responder.sentences import split
from callflow.turn import TurnOutcome
from tests.model.asking import OPENING, responder
from tests.model.proxy import Proxy, proxy
from tests.model.turns import patient_parts
from tests.parts import SID, Parts
from tests.waiting import wait_until

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]
GREETING = "You've reached the lift emergency line. I'm an automated assistant."
HEARD = f"{GREETING} {OPENING}"
HEARD_LESS = f"{GREETING} I hear you."


@pytest.fixture
def called(redis_url: str) -> Iterator[Parts]:
    """A caller has said something."""
    use_broker(redis_url)
    with connect(redis_url) as client:
        built = patient_parts(client)
        built.intake.open(SID, site="lift 7")
        built.intake.hear(SID, 1, "stuck between two floors")
        yield built
        built.close()


@pytest.fixture
def breaks_off(through: Proxy) -> Proxy:
    """A way on which a reply stops in its third sentence."""
    through.faults = ["stall"]
    return through


def test_a_reply_goes_on_after_the_worker_that_spoke_it_was_killed(
    called: Parts, redis_url: str, breaks_off: Proxy
) -> None:
    command = [sys.executable, "-m", "tests.model.lone_worker", redis_url, breaks_off.url, SID]
    with subprocess.Popen(command, cwd=ROOT) as lost:
        try:
            wait_until(lambda: _drafted(called) == HEARD, "two sentences of a model", 30.0)
        finally:
            lost.kill()
    _give_away(called)
    _assert_gone_on_with(called, breaks_off, HEARD)


def test_a_reply_goes_on_when_its_worker_has_lost_the_call(
    called: Parts, breaks_off: Proxy
) -> None:
    breaks_off.when = lambda said: said.count("\n") == 1 and not said.endswith("\n")
    outcomes: list[TurnOutcome] = []
    worker = called.worker(responder(breaks_off.url))
    losing = threading.Thread(target=lambda: outcomes.append(worker.run(SID)))
    losing.start()
    wait_until(lambda: _drafted(called) == HEARD_LESS, "a sentence of a model", 30.0)
    _give_away(called)
    _assert_gone_on_with(called, breaks_off, HEARD_LESS)
    losing.join()
    assert outcomes == [TurnOutcome.LOST]
    wait_until(breaks_off.exchanges[0].over.is_set, "the model is hung up on")


def _drafted(parts: Parts) -> str | None:
    draft = parts.record().draft
    return draft.text if draft is not None else None


def _give_away(parts: Parts) -> None:
    """As the watchdog does when a worker has been silent for too long."""
    late = (parts.record().last_heartbeat or 0) + 10 * parts.timing.stale_ms
    assert parts.watchdog.sweep("test", now_ms=late).reclaimed == 1


def _assert_gone_on_with(parts: Parts, before: Proxy, heard: str) -> None:
    """Answer the call with another worker, and look at what its model was asked and has said."""
    with proxy(before.upstream) as way:
        way.added = before.added
        assert parts.worker(responder(way.url)).run(SID) is TurnOutcome.ANSWERED
        (exchange,) = way.exchanges
    assert f"heard this beginning of your reply:\n{heard}\n" in exchange.prompt
    assert "CALLER stuck between two floors CALLER" in exchange.prompt
    # It began anew, as small models do: what had been heard was left out.
    assert exchange.said.startswith("SAY: I hear you.\nSAY: You are not alone.\nSAY: ")
    reply = parts.record().said(1, "agent")
    assert reply is not None
    assert reply.startswith(heard)
    assert reply.removeprefix(HEARD) in (" Are you hurt?", " Is it dark?")
    assert len(split(reply)) == len(set(split(reply))) == 5
    assert "remarked" not in parts.events()
    assert parts.events().count("understood") == 1
