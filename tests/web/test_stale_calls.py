"""A hang-up that was lost is found: the carrier is asked about the lines of stale calls."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.call.state import CallState
from callflow.web import line_webhooks
from tests.exchange import Exchange, open_exchange
from tests.parts import SID, Parts
from tests.rest_api import Asked, RestApi, rest_api
from tests.waiting import wait_until


@pytest.fixture
def carrier() -> Iterator[RestApi]:
    with rest_api() as running:
        yield running


@pytest.fixture
def asking(
    parts: Parts,
    redis_url: str,
    tmp_path: Path,
    carrier: RestApi,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Exchange]:
    """A web process that asks after a second in which nothing was said."""
    monkeypatch.setattr(line_webhooks, "LOOK_EVERY_S", 0.1)
    with open_exchange(parts, redis_url, tmp_path, api_url=carrier.url, line_check_s=1) as running:
        yield running


def _looks(carrier: RestApi, times: int) -> None:
    wait_until(lambda: carrier.looked_at.count(SID) >= times, "the carrier was never asked")


def test_a_call_whose_line_is_closed_ends(asking: Exchange, carrier: RestApi) -> None:
    carrier.lines |= {"CA1": "completed", "CA2": "no-answer"}
    for call_sid in carrier.lines:
        asking.line(call_sid).arrives()
    for call_sid, outcome in (("CA1", "hung_up"), ("CA2", "no_answer")):

        def is_over(call_sid: str = call_sid) -> bool:
            return asking.parts.record(call_sid).call_state is CallState.COMPLETE

        wait_until(is_over, "the call never ended")
        assert asking.parts.record(call_sid).outcome == outcome


@pytest.mark.leaves_live_calls
def test_a_call_whose_line_is_open_goes_on_and_is_asked_for_again(
    asking: Exchange, carrier: RestApi
) -> None:
    carrier.lines[SID] = "in-progress"
    asking.line().arrives()
    _looks(carrier, 2)
    assert asking.parts.record().outcome is None


@pytest.mark.leaves_live_calls
def test_a_carrier_that_does_not_know_ends_nothing(asking: Exchange, carrier: RestApi) -> None:
    carrier.refuse = 404, 20404
    asking.line().arrives()
    for looks, refusal in ((1, (503, 20503)), (2, (401, 20003))):
        _looks(carrier, looks)
        carrier.refuse = refusal
    _looks(carrier, 4)
    assert asking.parts.record().outcome is None


LEG = f"CA{9:032x}"


@pytest.mark.leaves_live_calls
def test_a_caller_who_is_alone_in_the_conference_is_brought_back(
    asking: Exchange, carrier: RestApi
) -> None:
    """That the human has left was lost, as a failover may do with what it took last."""
    carrier.lines |= {SID: "in-progress", LEG: "completed"}
    line = asking.arrived()
    asking.ringing.accept(SID, "ring", LEG)
    wait_until(lambda: asking.parts.record().handling == "agent", "nobody brought them back")

    def moved() -> list[Asked]:
        return [one for one in carrier.asked if one.leg == SID]

    wait_until(lambda: len(moved()) == 2, "they were not fetched")
    assert moved()[-1].fields["Url"].partition("#")[0].endswith("/voice/join")
    assert line.post("/voice/join").names == ["Gather", "Redirect"]


@pytest.mark.leaves_live_calls
def test_a_caller_whose_human_is_there_stays_with_them(asking: Exchange, carrier: RestApi) -> None:
    carrier.lines |= {SID: "in-progress", LEG: "in-progress"}
    asking.line().arrives()
    asking.ringing.accept(SID, "ring", LEG)
    wait_until(lambda: carrier.looked_at.count(LEG) >= 2, "the human was never asked for")
    assert asking.parts.record().handling == "human"
