"""A real server behind a way that breaks: the caller hears a right reply, and in time."""

from __future__ import annotations

import pytest

from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.breaker import Breakers, Pauses
from tests.model.asking import AMPLE_S, LATE_S, OPENING, SCRIPT, Heard, heard, responder
from tests.model.proxy import LATE_S as SLOW_S
from tests.model.proxy import Fault, Proxy
from tests.responder.calls import later
from tests.waiting import wait_until

pytestmark = pytest.mark.model

SHORT_S = 1.0
"""For endpoints that send nothing at all."""

WHILE_S = 4.0
"""For those that begin well: this model says two sentences in less than half of it."""

QUESTION = "Are you inside the lift now?"


@pytest.mark.parametrize("fault", ["slow", "mute"])
def test_a_first_letter_that_does_not_come_costs_no_more_than_its_time(
    through: Proxy, fault: Fault
) -> None:
    through.faults = [fault]
    reply = heard(responder(through.url, first_s=SHORT_S, reply_s=2 * SHORT_S), later())
    assert reply.text == SCRIPT
    assert reply.remarks == ("model:slow", "model:script")
    assert SHORT_S <= reply.took_s < SHORT_S + LATE_S < SLOW_S
    (exchange,) = through.exchanges
    wait_until(exchange.over.is_set, "the endpoint is hung up on")


def test_a_reply_that_drips_ends_at_its_time_with_whole_sentences(through: Proxy) -> None:
    through.faults = ["drip"]
    reply = heard(responder(through.url, reply_s=WHILE_S), later())
    assert reply.text in (SCRIPT, f"I hear you. {SCRIPT}", f"{OPENING} {QUESTION}")
    assert reply.remarks == ("model:slow", "model:script")
    assert WHILE_S <= reply.took_s < WHILE_S + LATE_S
    (exchange,) = through.exchanges
    wait_until(exchange.over.is_set, "the endpoint is hung up on")


def test_a_stream_that_stalls_is_gone_on_with_by_the_procedure(through: Proxy) -> None:
    through.faults = ["stall"]
    reply = heard(responder(through.url, reply_s=WHILE_S), later())
    assert reply.text == f"{OPENING} {QUESTION}"
    assert reply.remarks == ("model:slow", "model:script")
    assert WHILE_S <= reply.took_s < WHILE_S + LATE_S


@pytest.mark.parametrize("fault", ["cut", "half_close", "end"])
def test_of_a_stream_that_breaks_whole_sentences_are_heard_and_then_the_procedures(
    through: Proxy, fault: Fault
) -> None:
    through.faults = [fault]
    reply = heard(responder(through.url), later())
    assert reply.text == f"{OPENING} {QUESTION}"
    assert reply.remarks == ("model:cut", "model:script")
    assert reply.pieces[-1].sop_step == 1
    (exchange,) = through.exchanges
    assert not exchange.said.endswith("\n"), "it was to break in the middle of a sentence"
    assert reply.took_s < AMPLE_S


def test_after_a_reset_nothing_is_said_twice_and_no_half_sentence(through: Proxy) -> None:
    # A reset may take with it what had come and was not read: how much was heard is left to chance.
    through.faults = ["reset"]
    reply = heard(responder(through.url), later())
    assert reply.text in (
        f"{OPENING} {QUESTION}",
        f"I hear you. {SCRIPT}",
        SCRIPT,
    )
    assert reply.remarks == ("model:cut", "model:script")


@pytest.mark.parametrize(
    ("fault", "remark", "asked"),
    [("nonsense", "model:nonsense", 1), ("noise", "model:unreachable", 2)],
)
def test_what_is_no_answer_leads_to_the_procedure_at_once(
    through: Proxy, fault: Fault, remark: str, asked: int
) -> None:
    through.faults = [fault]
    reply = heard(responder(through.url), later())
    assert reply.text == SCRIPT
    assert reply.remarks == (remark, "model:script")
    assert len(through.exchanges) == asked
    assert reply.took_s < SHORT_S


def test_the_breaker_opens_for_all_workers_and_closes_when_the_model_is_back(
    through: Proxy, redis_url: str
) -> None:
    through.faults = ["mute"]
    with connect(redis_url) as one, connect(redis_url) as two:
        pauses = Pauses(first_ms=300, longest_ms=300)
        shared = [Breakers(Scripts(client), pauses) for client in (one, two)]
        first, second = (
            responder(through.url, first_s=0.3, reply_s=0.3, breaker=each) for each in shared
        )
        remarks = [heard(worker, later()).remarks[0] for worker in (first, second, first, second)]
        assert remarks == ["model:slow", "model:slow", "model:open", "model:open"]
        assert len(through.exchanges) == 2, "a model that is left alone was asked"

        through.faults = ["none"]
        patient = [responder(through.url, breaker=each) for each in shared]
        probe = wait_until(lambda: _worded(heard(patient[0], later())), "a probe of the model")
        assert probe is not None
        assert probe.startswith(OPENING)
        # Its answer has closed the breaker for the other one, too.
        assert heard(patient[1], later()).remarks == ()


def _worded(reply: Heard) -> str | None:
    """What the model has said; None while it is left alone."""
    return None if "model:open" in reply.remarks else reply.text
