"""What dispatchers do from the board: it happens once, and the second of two people is told."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.board.actions import ACTIONS
from callflow.call import edits
from callflow.call.disposition import Disposition
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.keys import call_keys
from tests.acting import TELEPHONE, Dispatcher, dispatcher, staffed_exchange
from tests.exchange import Exchange
from tests.parts import CHUNK, SID, Parts
from tests.rest_api import RestApi, rest_api
from tests.waiting import wait_until

SECRET = "the boy in lift four is called Tim"


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
