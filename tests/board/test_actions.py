"""What dispatchers do from the board: it happens once, and the second of two people is told."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from callflow.board.actions import ACTIONS
from callflow.call import edits
from callflow.call.edits import Disposition
from callflow.call.state import CallState
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.keys import call_keys
from tests.dispatchers import TELEPHONE, Dispatcher, dispatcher, staffed_exchange
from tests.exchange import HUMANS, Exchange
from tests.parts import CHUNK, SID, Parts
from tests.rest_api import RestApi, rest_api
from tests.waiting import wait_until

SECRET = "the boy in lift four is called Tim"


@pytest.fixture
def exchange(exchange: Exchange) -> Exchange:
    """A call has arrived."""
    exchange.line().arrives()
    return exchange


def test_a_viewer_acts_in_no_call(exchange: Exchange) -> None:
    before = exchange.parts.record()
    with dispatcher(exchange, "vera") as vera:
        for what in ACTIONS:
            answer = vera.act(what, text="x", name="x", urgency="P1", disposition="test")
            assert answer.status_code == 403, what
    assert exchange.parts.record() == before


def test_nobody_acts_without_the_token_of_their_session(ana: Dispatcher) -> None:
    before = ana.exchange.parts.record()
    ana.csrf = ""
    for what in ACTIONS:
        assert ana.act(what, text="x", urgency="P1", disposition="test").status_code == 403
    assert ana.exchange.parts.record() == before


def test_the_same_request_twice_is_done_once(ana: Dispatcher, api: RestApi) -> None:
    for _ in range(2):
        ana.does("note", text="one", request="n1")
        ana.does("say", text="two", request="s1")
        ana.does("fact", name="eta_minutes", value="20", request="f1")
        ana.does("urgency", urgency="P2", request="u1")
        ana.does("take-over", request="t1")
    for _ in range(2):
        ana.does("end", disposition="test", confirm="yes", request="e1")
    record = ana.exchange.parts.record()
    assert len(record.notes) == 1
    assert api.rung == [TELEPHONE]
    events = ana.exchange.parts.events()
    for once in ("noted", "phrase", "recorded", "urgency", "taken_over", "disposed", "ended"):
        assert events.count(once) == 1, once


def test_what_was_done_and_not_gone_on_with_is_gone_on_with_when_it_is_asked_again(
    ana: Dispatcher, api: RestApi
) -> None:
    """The process was killed behind the store, before the carrier; the browser sends it again."""
    store = ana.exchange.parts.store
    store.staff.take_over(SID, "ana", TELEPHONE, request="t1")
    assert api.rung == []
    ana.does("take-over", request="t1")
    assert api.rung == [TELEPHONE]
    store.staff.end(
        ana.exchange.parts.record,
        SID,
        Disposition.RELEASED,
        "ana",
        request="e1",
        confirmed=True,
    )
    assert ana.does("end", disposition="released", request="e1")["closed"] is True
    assert api.asked[-1].leg == SID
    assert api.asked[-1].fields["Status"] == "completed"


def test_a_note_is_in_the_record_and_neither_logged_nor_spoken(
    ana: Dispatcher, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ana.does("note", text=SECRET)
    ana.does("say", text=SECRET)
    ana.does("urgency", urgency="P1", reason=SECRET)
    record = ana.exchange.parts.record()
    kept = [(note.by, note.text, note.urgency) for note in record.notes]
    assert kept == [("ana", SECRET, None), ("ana", SECRET, "P1")]
    assert SECRET not in caplog.text
    assert SECRET not in str(ana.exchange.parts.client.xrange(call_keys(SID).journal))


def test_facts_are_recorded_taken_back_and_the_second_is_told(
    ana: Dispatcher, bo: Dispatcher
) -> None:
    ana.looks()
    bo.looks()
    ana.does("fact", name="dispatch.requested", value="yes")
    ana.does("fact", name="eta_minutes", value="20")
    told = bo.is_told("fact", name="eta_minutes", value="5")
    assert "ana recorded eta_minutes" in told["told"]
    bo.does("fact", name="eta_minutes", value="20")
    bo.looks()
    bo.does("fact", name="eta_minutes", value="")
    assert ana.exchange.parts.record().recorded == {"dispatch.requested": True}
    for name, value in (("people", "3"), ("eta_minutes", "soon"), ("x", ""), ("", "yes")):
        assert ana.act("fact", name=name, value=value).status_code == 400


def test_less_urgent_than_what_was_heard_needs_a_reason(ana: Dispatcher) -> None:
    ana.exchange.parts.client.hset(call_keys(SID).call, "urgency", '"P2"')
    told = ana.is_told("urgency", urgency="P4")
    assert told["reason"] is True
    assert ana.exchange.parts.record().urgency == "P2"
    ana.does("urgency", urgency="p4", reason="they are out")
    assert ana.exchange.parts.record().urgency == "P4"
    assert ana.act("urgency", urgency="P9").status_code == 400


def test_a_call_that_waits_for_a_worker_and_becomes_urgent_is_woken_ahead(
    ana: Dispatcher,
) -> None:
    ana.exchange.parts.store.record_utterance(SID, 1, "hello")
    ana.does("urgency", urgency="P1")
    wait_until(lambda: ana.exchange.parts.client.llen("urgent"), "it waits behind the others")


CANNOT_BE_MEANT: list[tuple[str, dict[str, str]]] = [
    ("end", {"disposition": "other"}),
    ("end", {}),
    ("note", {"text": ""}),
    ("note", {"text": "x", "request": "a b"}),
    ("note", {"text": "x" * 2001}),
    ("say", {}),
    ("say", {"phrase": "nothing"}),
    ("urgency", {"urgency": "P1", "seen": "urgency"}),
    ("urgency", {"urgency": "P1", "reason": "x" * 501}),
]


def test_a_form_that_cannot_be_meant_changes_nothing(ana: Dispatcher) -> None:
    before = ana.exchange.parts.record()
    for what, form in CANNOT_BE_MEANT:
        answer = ana.act(what, **form)
        assert answer.status_code == 400, (what, form, answer.text)
        assert answer.json()["told"].startswith("Not done:")
    assert ana.exchange.parts.record() == before


def test_an_unknown_call_is_not_found(ana: Dispatcher) -> None:
    for sid in ("CA2", "no%20call"):
        for what in ACTIONS:
            form = {"text": "x", "name": "eta_minutes", "value": "5", "disposition": "test"}
            answer = ana.act(what, sid, urgency="P1", **form)
            assert answer.status_code == 404, (what, answer.text)


def test_a_sentence_of_the_procedures_is_said_as_it_stands_once_it_may_be(
    ana: Dispatcher,
) -> None:
    (stay,) = CHUNK.sentences
    later = stay.model_copy(
        update={
            "id": "eta",
            "text": "Help comes in {eta_minutes} minutes.",
            "only_after": "eta_minutes",
        }
    )
    chunk = CHUNK.model_copy(update={"sentences": (stay, later)})
    call = call_keys(SID).call
    ana.exchange.parts.client.hset(call, "retrieved_sop_chunks", f"[{chunk.model_dump_json()}]")
    answer = ana.act("say", phrase="eta")
    assert answer.status_code == 400
    assert "once eta_minutes is known" in answer.json()["told"]
    ana.does("fact", name="eta_minutes", value="12")
    ana.does("say", phrase="eta")
    assert [one.text for one in ana.exchange.parts.record().sayings] == [
        "Help comes in 12 minutes."
    ]


def test_while_the_store_is_gone_people_are_told_so_and_may_ask_again(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    with connect(own_server.url) as client, rest_api() as api:
        parts = Parts(client)
        with (
            staffed_exchange(parts, own_server.url, tmp_path, api_url=api.url) as exchange,
            dispatcher(exchange, "ana") as ana,
        ):
            exchange.line().arrives()
            own_server.kill()
            for what in ACTIONS:
                answer = ana.act(what, text="x", urgency="P1", disposition="test", name="x")
                assert answer.status_code == 503, (what, answer.text)
            assert api.asked == []
            own_server.restart()
            exchange.line().arrives()
            wait_until(lambda: ana.act("note", text="x", request="r").status_code == 200, "gone")
            assert len(parts.record().notes) == 1
            assert parts.record().outcome is None
        parts.close()


def test_what_the_store_could_not_do_is_told_and_nothing_is_half_done(ana: Dispatcher) -> None:
    client, keys = ana.exchange.parts.client, call_keys(SID)
    client.delete(keys.journal)
    client.set(keys.journal, "no stream")
    before = client.hgetall(keys.call)
    for what in ACTIONS:
        form = {"name": "eta_minutes", "value": "5", "disposition": "test"}
        answer = ana.act(what, text="x", urgency="P1", **form)
        assert answer.status_code == 503, what
        assert "not done twice" in answer.json()["told"]
    assert client.hgetall(keys.call) == before
    client.delete(keys.journal)


def test_what_a_page_shows_is_what_its_form_sends_back(ana: Dispatcher) -> None:
    ana.does("urgency", urgency="P2")
    ana.does("fact", name="eta_minutes", value="20")
    shown = edits.version_token(ana.exchange.parts.record().acts)
    assert shown == "fact:eta_minutes=1 urgency=1"


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
    assert alert.attempt_id is not None
    for _ in range(2):
        ana.exchange.ringing.not_answered(SID, alert.attempt_id, "no-answer")
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
    assert abs(told["at"] - ana.exchange.parts.reader.now_ms()) < 60_000
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
    assert alert.attempt_id is not None
    ana.exchange.ringing.accept(SID, alert.attempt_id, "CAana")
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
