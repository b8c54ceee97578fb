"""Humans are rung, rung by rung, until one presses the key; the caller is never without company."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

from callflow.call import ladder
from callflow.handover import RingResult
from callflow.store.keys import call_keys
from tests.exchange import (
    GATHER,
    HUMANS,
    PUBLIC,
    RELAY,
    Answer,
    Exchange,
    Line,
    WebServer,
    open_exchange,
    web_server,
)
from tests.parts import SID, Parts
from tests.rest_api import RestApi, rest_api
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def carrier() -> Iterator[RestApi]:
    with rest_api() as running:
        yield running


@pytest.fixture
def api(carrier: RestApi) -> RestApi:
    carrier.forget()
    return carrier


@pytest.fixture(scope="module")
def shared_web(
    server_url: str, tmp_path_factory: pytest.TempPathFactory, carrier: RestApi
) -> Iterator[WebServer]:
    """A web process that can ring humans."""
    with web_server(server_url, tmp_path_factory.mktemp("web"), api_url=carrier.url) as running:
        yield running


def ring_of(api: RestApi) -> dict[str, str]:
    """What our own address, given to the carrier with the newest ring, says about it."""
    return dict(parse_qsl(urlsplit(api.last_ring["Url"]).query))


def human(exchange: Exchange, api: RestApi, **fields: str) -> Answer:
    """The human's leg of the newest ring asks what to do."""
    leg = exchange.line(call_sid="CAhuman")
    asked = {"asked": "1"} if "asked" in fields else {}
    fields.pop("asked", None)
    return leg.post("/voice/human", {**ring_of(api), **asked}, **fields)


def due_now(exchange: Exchange) -> None:
    """The time of the next step has come."""
    call = call_keys(SID).call
    exchange.parts.client.hset(call, "alert_due", "1")


def ring(exchange: Exchange, api: RestApi) -> None:
    """A call whose first human is being rung."""
    exchange.line().arrives()
    assert exchange.ringing.ring(SID) is RingResult.RINGING


def test_in_assist_mode_a_human_is_rung_while_the_agent_talks(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    assert "alerting a person" in line.arrives().says
    with exchange.worker("Stay inside."):
        wait_until(lambda: api.rung == [HUMANS[0]], "nobody was rung")
        assert line.says(1, "stuck").says == "Stay inside."
    asked = api.last_ring
    assert asked["From"] == GATHER
    assert asked["Timeout"] == "20"
    assert asked["Url"].startswith(f"{PUBLIC}/voice/human?")
    record = exchange.parts.record()
    assert record.alert is not None
    assert (record.alert.state, record.alert.leg) == ("ringing", f"CA{1:032x}")


def test_whoever_asks_for_a_person_hears_that_one_is_rung(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    line.arrives()
    with exchange.worker("Stay inside."):
        answer = line.says(1, "can i speak to a real person")
    assert "getting a person" in answer.says
    assert answer.says.endswith("Stay inside.")


def test_a_site_without_a_human_at_the_start_says_so_in_the_journal(
    exchange: Exchange, api: RestApi
) -> None:
    answer = exchange.line(called=RELAY).arrives()
    assert "alerting" not in answer.text
    assert "agent_only" in exchange.parts.events()
    assert exchange.parts.record().alert is None


def test_ringing_twice_at_once_rings_one_telephone(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    assert exchange.ringing.ring(SID) is RingResult.NOTHING
    assert api.rung == [HUMANS[0]]


def test_the_human_hears_who_and_where_before_anything_else(
    exchange: Exchange, api: RestApi
) -> None:
    ring(exchange, api)
    answer = human(exchange, api)
    assert answer.names == ["Gather"]
    for word in ("Lift 4", "1 High Street, Leeds", "9"):
        assert word in answer.says


def test_picking_up_is_not_enough(exchange: Exchange, api: RestApi) -> None:
    """An answering machine picks up too."""
    ring(exchange, api)
    human(exchange, api)
    assert human(exchange, api, asked="1", Digits="").names == ["Hangup"]
    assert exchange.parts.record().handling == "agent"
    assert api.rung == [HUMANS[0], HUMANS[1]]


def test_the_human_with_the_key_gets_the_caller(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    joined = human(exchange, api, asked="1", Digits="1")

    assert joined.names == ["Dial"]
    (conference,) = joined.verbs[0]
    assert conference.text == SID
    fetched = api.asked[-1]
    assert fetched.leg == SID
    assert fetched.fields["Url"].startswith(f"{PUBLIC}/voice/join")
    record = exchange.parts.record()
    assert record.handling == "human"
    assert record.alert is not None
    assert (record.alert.state, record.alert.leg) == ("accepted", "CAhuman")

    caller = exchange.line().post("/voice/join")
    assert caller.names == ["Say", "Dial"]
    (conference,) = caller.verbs[1]
    assert conference.text == SID
    assert conference.get("endConferenceOnExit") == "true"


@pytest.mark.parametrize("path", ["/voice/turn", "/voice/wait", "/voice/fallback"])
def test_a_caller_whom_nobody_fetched_joins_with_the_next_request(
    exchange: Exchange, api: RestApi, path: str
) -> None:
    api_refuses(exchange, api)
    caller = exchange.line().post(path, {"n": 1, "k": 1}, SpeechResult="hello")
    assert "Dial" in caller.names


def api_refuses(exchange: Exchange, api: RestApi) -> None:
    """A human has the call, but the carrier would not fetch the caller."""
    ring(exchange, api)
    exchange.parts.intake.hear(SID, 1, "stuck")
    api.refuse = (500, 20500)
    human(exchange, api, asked="1", Digits="1")
    assert "fetch_failed" in exchange.parts.events()


def test_a_caller_who_waits_for_a_reply_is_put_through_at_once(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    ring(exchange, api)
    exchange.parts.intake.hear(SID, 1, "stuck")
    human(exchange, api, asked="1", Digits="1")
    assert line.post("/voice/wait", {"n": 1, "k": 1}).names == ["Say", "Dial"]


def test_when_the_human_leaves_the_agent_is_still_there(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    ring(exchange, api)
    human(exchange, api, asked="1", Digits="1")
    joined = line.post("/voice/join")
    back = line.follow(joined, "Dial", DialCallStatus="completed")
    assert "left" in back.says
    assert back.target("Gather") == ("/voice/turn", {"n": "1"})
    with exchange.worker("I am here."):
        assert line.follow(back, "Gather", SpeechResult="hello").says == "I am here."
    assert exchange.parts.record().handling == "agent"


def test_a_caller_who_hangs_up_on_the_human_has_ended_the_call(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    ring(exchange, api)
    human(exchange, api, asked="1", Digits="1")
    joined = line.post("/voice/join")
    over = line.follow(joined, "Dial", DialCallStatus="completed", CallStatus="completed")
    assert over.names == ["Hangup"]
    assert exchange.parts.record().outcome == "hung_up"


def test_the_next_one_is_rung_when_nobody_answers(exchange: Exchange, api: RestApi) -> None:
    leg = exchange.line(call_sid="CAhuman")
    for status in ("no-answer", "busy", "failed", "canceled", "completed"):
        ring(exchange, api)
        missed = ring_of(api)
        for _ in range(2):
            assert leg.post("/voice/leg-status", missed, CallStatus=status).status == 200
        assert api.rung == [HUMANS[0], HUMANS[1]], status
        record = exchange.parts.record()
        assert record.alert is not None
        assert (record.alert.contact_index, record.alert.state) == (1, "ringing")
        exchange.parts.client.flushdb()
        api.forget()


def test_no_other_word_of_the_carrier_moves_the_ladder(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    for status in ("queued", "initiated", "ringing", "in-progress", ""):
        leg = exchange.line(call_sid="CAhuman")
        leg.post("/voice/leg-status", ring_of(api), CallStatus=status)
        assert api.rung == [HUMANS[0]], status


def test_after_the_last_one_the_first_is_rung_again(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    leg = exchange.line(call_sid="CAhuman")
    for _ in range(2):
        leg.post("/voice/leg-status", ring_of(api), CallStatus="no-answer")
    due_now(exchange)
    assert exchange.ringing.ring(SID) is RingResult.RINGING
    assert api.rung == [HUMANS[0], HUMANS[1], HUMANS[0]]
    alert = exchange.parts.record().alert
    assert alert is not None
    assert (alert.round, alert.contact_index) == (2, 0)


def test_a_ring_of_which_nothing_is_heard_is_over_after_its_time(
    exchange: Exchange, api: RestApi
) -> None:
    ring(exchange, api)
    due_now(exchange)
    assert exchange.ringing.ring(SID) is RingResult.RINGING
    assert api.rung == [HUMANS[0], HUMANS[1]]


def test_a_ring_that_died_with_its_process_is_rung_again(exchange: Exchange, api: RestApi) -> None:
    exchange.line().arrives()
    handovers = exchange.parts.store.handovers
    begun = ladder.ringing(ladder.fresh("assist"), "lost")
    from callflow.store.handovers import AlertStep

    handovers.move(SID, ladder.fresh("assist"), AlertStep(begun, ladder.CONFIRM_MS, "ringing"))
    due_now(exchange)
    assert exchange.ringing.ring(SID) is RingResult.RINGING
    assert api.rung == [HUMANS[0]]


def test_a_number_that_the_carrier_will_not_ring_is_passed_over(
    exchange: Exchange, api: RestApi
) -> None:
    exchange.line().arrives()
    api.refuse = (400, 21211)
    assert exchange.ringing.ring(SID) is RingResult.FAILED
    api.refuse = None
    due_now(exchange)
    assert exchange.ringing.ring(SID) is RingResult.RINGING
    assert api.rung == [HUMANS[0], HUMANS[1]]
    assert "ring_failed" in exchange.parts.events()


def test_who_picks_up_after_the_caller_is_gone_is_told_so(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    ring(exchange, api)
    line.post("/voice/status", CallStatus="completed")
    assert api.asked[-1].leg == f"CA{1:032x}"
    assert api.asked[-1].fields["Status"] == "completed"
    answer = human(exchange, api)
    assert answer.names == ["Say", "Hangup"]
    assert "hung up" in answer.says


def test_late_word_of_an_earlier_ring_changes_nothing(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    leg = exchange.line(call_sid="CAhuman")
    first = ring_of(api)
    leg.post("/voice/leg-status", first, CallStatus="no-answer")
    before = exchange.parts.record()
    leg.post("/voice/leg-status", first, CallStatus="no-answer")
    assert exchange.parts.record() == before


def test_two_humans_with_the_key_are_both_with_the_caller(exchange: Exchange, api: RestApi) -> None:
    ring(exchange, api)
    assert human(exchange, api, asked="1", Digits="1").names == ["Dial"]
    assert human(exchange, api, asked="1", Digits="1").names == ["Dial"]
    assert exchange.parts.events().count("accepted") == 1


def test_a_turn_that_cost_too_many_workers_waits_for_a_human_in_company(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    line.arrives()
    exchange.parts.intake.hear(SID, 1, "poison")
    exchange.parts.store.handovers.transfer(SID, "poison")
    answer = line.post("/voice/wait", {"n": 1, "k": 0})
    assert "person" in answer.says
    assert answer.target("Redirect")[0] == "/voice/wait"
    assert api.rung == [HUMANS[0]]
    human(exchange, api, asked="1", Digits="1")
    assert line.follow(answer, "Redirect").names == ["Say", "Dial"]


def test_when_a_round_has_passed_the_agent_listens_again_and_it_goes_on_ringing(
    exchange: Exchange, api: RestApi, line: Line
) -> None:
    line.arrives()
    exchange.parts.intake.hear(SID, 1, "poison")
    exchange.parts.store.handovers.transfer(SID, "poison")
    answer = line.post("/voice/wait", {"n": 1, "k": 0})
    leg = exchange.line(call_sid="CAhuman")
    for _ in range(2):
        leg.post("/voice/leg-status", ring_of(api), CallStatus="no-answer")
    answer = line.follow(answer, "Redirect")
    assert answer.target("Gather") == ("/voice/turn", {"n": "2"})
    assert exchange.parts.record().handling == "agent"
    due_now(exchange)
    assert exchange.ringing.ring(SID) is RingResult.RINGING


def test_without_a_telephone_the_journal_says_that_nobody_is_rung(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    with open_exchange(parts, redis_url, tmp_path) as exchange:
        exchange.line().arrives()
        parts.store.handovers.want(SID, "asked")
        assert exchange.ringing.ring(SID) is RingResult.NOBODY
        assert "nobody_to_ring" in parts.events()
        assert exchange.ringing.ring(SID) is RingResult.NOTHING
