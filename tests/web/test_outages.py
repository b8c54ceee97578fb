"""The server that holds the calls is gone for a while: nobody waits in silence, nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.celery import use_broker
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.web import handoffs, line_webhooks
from tests.exchange import HUMANS, Exchange, open_exchange
from tests.parts import SID, Parts


@pytest.fixture
def exchange(
    own_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Exchange]:
    monkeypatch.setattr(handoffs, "GIVEN_BACK_WITHIN_S", 0.3)
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        parts = Parts(client)
        with open_exchange(parts, own_server.url, tmp_path, outage_transfer_s=1.5) as running:
            yield running
        if not own_server.alive:
            own_server.restart()
        parts.close()


def test_an_utterance_spoken_in_the_outage_rides_in_the_address_and_is_answered_after_it(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    line = exchange.arrived()
    own_server.kill()
    answer = line.says(1, "we are stuck, ñandú 电梯 & <b>")
    assert answer.names == ["Say", "Redirect"]
    path, query = answer.target("Redirect")
    assert path == "/voice/wait"
    assert query["u"] == "we are stuck, ñandú 电梯 & <b>"

    answer = line.follow(answer, "Redirect")
    assert answer.target("Redirect")[1]["u"] == query["u"]

    own_server.restart()
    with exchange.worker("Stay inside."):
        answer = line.follow(answer, "Redirect")
        while answer.names[-1] == "Redirect" and "Gather" not in answer.names:
            answer = line.follow(answer, "Redirect")
    assert answer.says == "Stay inside."
    assert exchange.parts.record().said(1, "caller") == query["u"]


def test_pressed_keys_and_unsure_words_survive_the_ride(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    line = exchange.arrived()
    own_server.kill()
    keys = line.post("/voice/turn", {"n": 1}, Digits="0")
    unsure = line.says(1, "brr", Confidence="0.01")
    assert keys.target("Redirect")[1]["d"] == "0"
    assert unsure.target("Redirect")[1]["c"] == "0"
    assert unsure.target("Redirect")[1]["q"] == "0.01"
    own_server.restart()
    line.follow(keys, "Redirect")
    assert exchange.parts.record().needs_human == "pressed_0"


def test_after_some_seconds_the_caller_is_put_through_without_store_or_workers(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    line = exchange.arrived()
    own_server.kill()
    answer = line.says(1, "we are stuck")
    for _ in range(20):
        if "Dial" in answer.names:
            break
        assert answer.says, "the caller was left in silence"
        answer = line.follow(answer, "Redirect")
    assert answer.verbs[-1][0].text == HUMANS[0]

    answer = line.follow(answer, "Dial", DialCallStatus="no-answer")
    assert answer.verbs[-1][0].text == HUMANS[1]
    answer = line.follow(answer, "Dial", DialCallStatus="completed", DialBridged="false")
    assert answer.target("Redirect")[1]["u"] == "we are stuck"

    own_server.restart()
    with exchange.worker("Stay inside."):
        answer = line.follow(answer, "Redirect")
        while "Gather" not in answer.names:
            answer = line.follow(answer, "Redirect")
    assert exchange.parts.record().said(1, "caller") == "we are stuck"


def test_the_human_who_is_rung_in_an_outage_hears_where_to_go(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    exchange.arrived()
    own_server.kill()
    leg = exchange.line(call_sid="CAhuman", called=HUMANS[0])
    leg.calling = "+441632960010"
    answer = leg.post("/voice/human", {"out": 1})
    assert "Lift 4" in answer.says
    assert leg.follow(answer, "Gather", Digits="1").names == []
    assert leg.follow(answer, "Gather").names == ["Hangup"]


def test_a_call_that_arrives_in_an_outage_is_answered_and_opened_by_its_first_turn(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    own_server.kill()
    line = exchange.line()
    answer = line.arrives()
    assert "automated assistant" in answer.says
    own_server.restart()
    with exchange.worker("Stay inside."):
        answer = line.follow(answer, "Gather", SpeechResult="stuck")
        while "Gather" not in answer.names:
            answer = line.follow(answer, "Redirect")
    assert answer.says == "Stay inside."
    assert exchange.parts.record().site == "tower"


def test_the_end_of_a_call_is_asked_for_again_until_it_is_kept(
    exchange: Exchange, own_server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_webhooks, "END_WITHIN_S", 0.1)
    line = exchange.arrived()
    own_server.kill()
    assert line.post("/voice/status", CallStatus="completed").status == 503
    own_server.restart()
    while line.post("/voice/status", CallStatus="completed").status == 503:
        """As the carrier does, whose retries end with the first answer."""
    assert exchange.parts.record(SID).outcome == "hung_up"


def test_a_caller_whose_human_leaves_in_an_outage_is_not_taken_for_theirs_afterwards(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    """Their next words would bring them into a conference where nobody is."""
    line = exchange.arrived()
    exchange.ringing.accept(SID, "ring", "CAhuman")
    own_server.kill()
    stay = line.post("/voice/transfer-ended", {"n": 1})
    assert stay.names == ["Say", "Redirect"]
    assert stay.says.startswith("The person has left the call.")
    path, query = stay.target("Redirect")
    assert (path, query["n"]) == ("/voice/transfer-ended", "1")

    own_server.restart()
    back = line.follow(stay, "Redirect")
    assert "left" not in back.says
    assert back.names == ["Gather", "Redirect"]
    assert exchange.parts.record().handling == "agent"
    with exchange.worker("Stay inside."):
        assert line.follow(back, "Gather", SpeechResult="hello?").says == "Stay inside."


def test_a_caller_whose_human_leaves_in_a_long_outage_is_put_through_to_another(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    line = exchange.arrived()
    exchange.ringing.accept(SID, "ring", "CAhuman")
    own_server.kill()
    answer = line.post("/voice/transfer-ended", {"n": 1})
    for _ in range(10):
        if "Dial" in answer.names:
            break
        answer = line.follow(answer, "Redirect")
    dial = next(verb for verb in answer.verbs if verb.tag == "Dial")
    assert "".join(dial.itertext()).strip() == HUMANS[0]


def test_what_was_stored_although_nobody_heard_so_has_a_worker_woken_at_once(
    exchange: Exchange, own_server: EmbeddedServer
) -> None:
    """A frozen server does what it was asked when it comes back, and nobody waits for its word."""
    line = exchange.arrived()
    own_server.kill()
    answer = line.says(1, "we are stuck")
    own_server.restart()
    # As that first request does when it is carried out at last: stored, and no message sent.
    exchange.parts.store.record_utterance(SID, 1, "we are stuck")
    assert sum(exchange.parts.queued()) == 0
    line.follow(answer, "Redirect")
    assert sum(exchange.parts.queued()) == 1
