"""Dispatchers take calls over and end them: who has a call, and that its line is closed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.call.state import CallState
from callflow.store.keys import call_keys
from tests.acting import TELEPHONE, Dispatcher, dispatcher, staffed_exchange
from tests.exchange import HUMANS, Exchange
from tests.parts import SID, Parts
from tests.rest_api import RestApi, rest_api


@pytest.fixture
def api() -> Iterator[RestApi]:
    with rest_api() as running:
        yield running


@pytest.fixture
def exchange(parts: Parts, redis_url: str, tmp_path: Path, api: RestApi) -> Iterator[Exchange]:
    with staffed_exchange(parts, redis_url, tmp_path, api_url=api.url) as running:
        running.line().arrives()
        yield running


@pytest.fixture
def ana(exchange: Exchange) -> Iterator[Dispatcher]:
    with dispatcher(exchange, "ana") as person:
        yield person


@pytest.fixture
def bo(exchange: Exchange) -> Iterator[Dispatcher]:
    with dispatcher(exchange, "bo") as person:
        yield person


def test_whoever_takes_a_call_over_is_rung_first_and_the_agent_talks_on(
    ana: Dispatcher, api: RestApi
) -> None:
    assert ana.does("take-over") == {"done": True, "rung": "ringing"}
    assert api.rung == [TELEPHONE]
    record = ana.exchange.parts.record()
    assert record.handling == "agent"
    assert record.alert is not None
    assert (record.alert.who, record.alert.asked_by) == ("ana", "ana")


def test_when_they_do_not_pick_up_the_ladder_of_the_site_goes_on(
    ana: Dispatcher, api: RestApi
) -> None:
    ana.does("take-over")
    alert = ana.exchange.parts.record().alert
    assert alert is not None
    assert alert.ring is not None
    for _ in range(2):
        ana.exchange.ringing.not_answered(SID, alert.ring, "no-answer")
    assert api.rung == [TELEPHONE, HUMANS[0]]


def test_who_has_no_telephone_has_those_of_the_site_rung(bo: Dispatcher, api: RestApi) -> None:
    bo.does("take-over")
    assert api.rung == [HUMANS[0]]


def test_whoever_was_being_rung_is_let_go(ana: Dispatcher, api: RestApi) -> None:
    assert ana.exchange.ringing.ring(SID) == "ringing"
    leg = f"CA{1:032x}"
    ana.does("take-over")
    assert api.rung == [HUMANS[0], TELEPHONE]
    assert [one.leg for one in api.asked if one.fields.get("Status") == "completed"] == [leg]


def test_the_second_who_takes_a_call_over_is_told_who_was_first(
    ana: Dispatcher, bo: Dispatcher, api: RestApi
) -> None:
    ana.looks()
    bo.looks()
    ana.does("take-over")
    told = bo.is_told("take-over")
    assert "ana took the call over" in told["told"]
    assert (told["by"], told["what"]) == ("ana", "call")
    assert abs(told["at"] - ana.exchange.parts.snapshots.now_ms()) < 60_000
    assert api.rung == [TELEPHONE]
    bo.looks()
    bo.does("take-over")
    assert api.rung == [TELEPHONE, HUMANS[0]]


def test_a_call_that_a_human_has_is_taken_by_nobody(
    ana: Dispatcher, bo: Dispatcher, api: RestApi
) -> None:
    ana.does("take-over")
    alert = ana.exchange.parts.record().alert
    assert alert is not None
    assert alert.ring is not None
    ana.exchange.ringing.accept(SID, alert.ring, "CAana")
    told = bo.is_told("take-over")
    assert told["by"] == "ana"
    assert "ana, who is on the line with the caller" in told["told"]
    assert bo.is_told("say", text="hello")["by"] == "ana"
    assert [(line.event, line.by) for line in ana.exchange.parts.journal() if line.by] == [
        ("taken_over", "ana"),
        ("accepted", "ana"),
    ]


def test_a_call_ends_with_a_disposition_and_its_line_is_closed(
    ana: Dispatcher, bo: Dispatcher, api: RestApi
) -> None:
    ana.looks()
    bo.looks()
    assert ana.does("end", disposition="false_alarm") == {"done": True, "closed": True}
    record = ana.exchange.parts.record()
    assert (record.call_state, record.outcome) == (CallState.COMPLETE, "false_alarm")
    assert (api.asked[-1].leg, api.asked[-1].fields["Status"]) == (SID, "completed")
    told = bo.is_told("end", disposition="test")
    assert (told["by"], told["what"]) == ("ana", "end")
    assert "ana has ended the call (false_alarm)" in told["told"]
    assert bo.is_told("note", text="x")["by"] == "ana"
    ana.exchange.line().post("/voice/status", CallStatus="completed")
    assert ana.exchange.parts.record() == record


def test_a_call_whose_line_was_closed_is_told_so(ana: Dispatcher) -> None:
    ana.exchange.line().post("/voice/status", CallStatus="completed")
    assert "its line was closed (hung_up)" in ana.is_told("note", text="x")["told"]


def test_where_somebody_may_be_trapped_the_call_is_ended_on_confirmation_alone(
    ana: Dispatcher, api: RestApi
) -> None:
    ana.exchange.parts.client.hset(call_keys(SID).call, "urgency", '"P3"')
    told = ana.is_told("end", disposition="released")
    assert told["confirm"] is True
    assert "may still be trapped" in told["told"]
    assert ana.exchange.parts.record().outcome is None
    assert api.asked == []
    ana.does("end", disposition="released", confirm="yes")


def test_a_line_that_the_carrier_does_not_close_closes_with_its_next_request(
    ana: Dispatcher, api: RestApi
) -> None:
    api.refuse = (500, 20500)
    assert ana.does("end", disposition="test") == {"done": True, "closed": False}
    assert ana.exchange.line().says(1, "hello?").names == ["Hangup"]
