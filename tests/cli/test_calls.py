"""`callflow calls` shows what the records say, and people act in calls as on the board."""

from __future__ import annotations

import json

import pytest

from callflow.call.record import CallRecord
from callflow.lab.embedded_server import EmbeddedServer
from callflow.store.result import Claimed, Lease
from tests.cli.running import Cli, store_at
from tests.parts import SID, Parts
from tests.rest_api import rest_api
from tests.waiting import wait_until

pytestmark = pytest.mark.leaves_live_calls


def claimed(url: str, call_sid: str, said: str = "help", *, worker: str = "w1@here/7-ab") -> Lease:
    """A call that a worker is answering."""
    store = store_at(url)
    store.open(call_sid, site="Lift 4")
    store.record_utterance(call_sid, 1, said)
    claim = store.claim(call_sid, worker, "first")
    assert isinstance(claim, Claimed)
    return claim.lease


def test_a_call_is_listed_with_its_state_in_words(cli: Cli, redis_url: str) -> None:
    claimed(redis_url, "CA1", "we are stuck")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    listed = cli.run("calls", "ls")
    assert listed.code == 0
    (row,) = [line for line in listed.out.splitlines() if line.startswith("CA1")]
    assert "answering" in row
    assert "caller: we are stuck" in row
    assert "1 call under way · 1 in work" in listed.err


def test_the_list_for_programs_is_an_array_of_whole_records(cli: Cli, redis_url: str) -> None:
    claimed(redis_url, "CA1")
    store_at(redis_url).open("CA2")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    records = {each["call_sid"]: each for each in cli.run("calls", "ls", "--json").json}
    assert records.keys() == {"CA1", "CA2"}
    assert CallRecord.model_validate(records["CA1"]).site == "Lift 4"
    for sid in records:
        store_at(redis_url).end(sid, "hung_up")
    assert cli.run("calls", "ls", "--json").json == []


def test_ended_calls_are_listed_on_request(cli: Cli, redis_url: str) -> None:
    claimed(redis_url, "CA1")
    store_at(redis_url).end("CA1", "hung_up")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    assert cli.run("calls", "ls", "--json").json == []
    assert [each["call_sid"] for each in cli.run("calls", "ls", "--all", "--json").json] == ["CA1"]
    assert "ended" in cli.run("calls", "ls", "--all").out


def test_a_call_that_a_human_has_is_still_a_call(cli: Cli, redis_url: str) -> None:
    claimed(redis_url, "CA1")
    store_at(redis_url).handovers.transfer("CA1", "fire")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    assert "with a human" in cli.run("calls", "ls").out


def test_the_list_is_limited(cli: Cli, redis_url: str) -> None:
    for number in range(3):
        store_at(redis_url).open(f"CA{number}")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    limited = cli.run("calls", "ls", "--limit", "2")
    assert limited.out.count("listening") == 2
    assert "the first 2 are shown" in limited.err


def test_a_call_for_programs_is_the_customers_json_object(cli: Cli, redis_url: str) -> None:
    claimed(redis_url, "CA1")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    shown = cli.run("calls", "show", "CA1", "--json").json
    customers = {
        *("conversation_thread", "call_state", "assigned_worker", "last_heartbeat"),
        *("retrieved_sop_chunks", "scenario_type", "created_at", "updated_at"),
    }
    assert customers <= shown.keys()
    assert shown["assigned_worker"] == "w1@here/7-ab"


def test_a_call_is_shown_with_what_is_being_said_and_its_journal(cli: Cli, redis_url: str) -> None:
    lease = claimed(redis_url, "CA1", "")
    store_at(redis_url).save_draft(lease, 1, "Stay where")
    store_at(redis_url).hand_back(lease, "ValueError", costs=True)
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    shown = cli.run("calls", "show", "CA1", "--journal").out
    for expected in ("recovering", "(silence)", "Stay where … being said", "1 takeover"):
        assert expected in shown
    assert "ValueError · takeover 1" in shown
    both = cli.run("calls", "show", "CA1", "--journal", "--json").json
    assert [entry["event"] for entry in both["journal"]][-1] == "handed_back"
    assert both["record"]["call_sid"] == "CA1"


def test_what_was_said_cannot_move_the_readers_cursor(cli: Cli, redis_url: str) -> None:
    store_at(redis_url).open("CA1", site="\x1b[2J\u202eLift [red]")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    shown = cli.run("calls", "show", "CA1").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "Lift [red]" in shown


def test_a_call_that_is_unknown_or_none_is_said_to_be(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    cli.run("calls", "show", "CA404").failed_with("call CA404 is unknown")
    cli.run("calls", "show", "CA{1}\n").failed_with("has no valid CallSid")


@pytest.mark.stack
def test_each_change_is_told_once_to_programs_that_watch(cli: Cli, redis_url: str) -> None:
    lease = claimed(redis_url, "CA1")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    watching = cli.start("calls", "watch", "--json", "--interval", "0.05")
    assert watching.stdout is not None
    told = [json.loads(watching.stdout.readline())]
    store_at(redis_url).beat(lease)  # Nothing that is worth telling.
    store_at(redis_url).commit(lease, 1, "I am here")
    told.append(json.loads(watching.stdout.readline()))
    store_at(redis_url).end("CA1", "hung_up")
    told.append(json.loads(watching.stdout.readline()))
    watching.send_signal(2)
    assert cli.finish(watching).out == ""
    assert watching.returncode == 130
    assert [each["state"] for each in told] == ["answering", "listening", "ended"]
    assert [each["last_words"] for each in told] == ["help", "I am here", "I am here"]


@pytest.mark.stack
def test_watching_outlives_the_server(cli: Cli, own_server: EmbeddedServer) -> None:
    claimed(own_server.url, "CA1")
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    watching = cli.start("calls", "watch", "--json", "--interval", "0.05")
    assert watching.stdout is not None
    assert watching.stderr is not None
    assert "answering" in watching.stdout.readline().decode()
    own_server.kill()
    assert "cannot be reached" in watching.stderr.readline().decode()
    own_server.restart()
    store = store_at(own_server.url)
    wait_until(lambda: store.end("CA1", "hung_up"), "the call to be ended")
    assert "ended" in watching.stdout.readline().decode()
    watching.kill()
    watching.communicate()


SECRET = "the boy is called Tim"


@pytest.fixture
def open_call(cli: Cli, redis_url: str, parts: Parts) -> Parts:
    """A call that a person acts in."""
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    store_at(redis_url).open(SID)
    return parts


def test_a_note_is_kept_shown_and_once(cli: Cli, open_call: Parts) -> None:
    for done in (True, False):
        ran = cli.run("calls", "note", SID, SECRET, "--by", "ana", "--request", "r1", "--json")
        assert ran.json == {"call_sid": SID, "done": done}
    assert [(note.by, note.text) for note in open_call.record().notes] == [("ana", SECRET)]
    shown = cli.run("calls", "show", SID, "--journal").out
    assert f"ana: {SECRET}" in shown
    assert "by ana" in shown
    cli.run("calls", "note", SID, " ").failed_with("was given no note")


def test_an_urgency_is_set_with_a_reason_where_one_is_needed(cli: Cli, open_call: Parts) -> None:
    assert cli.run("calls", "urgency", SID, "P2", "--by", "ana").out.strip() == "P2"
    assert open_call.record().urgency == "P2"
    assert cli.run("calls", "urgency", SID, "P9").code == 2
    cli.run("calls", "urgency", "CA2", "P1").failed_with("is unknown")


def test_a_call_is_ended_and_its_line_closed(cli: Cli, open_call: Parts) -> None:
    cli.run("calls", "end", SID, "bored").failed_with("is no disposition")
    open_call.store.staff.set_urgency(SID, "P2", "ana", request="u")
    cli.run("calls", "end", SID, "released").failed_with("may still be trapped")
    with rest_api() as api:
        cli.set("CALLFLOW_TWILIO_ACCOUNT_SID", "AC" + "0" * 32)
        cli.set("CALLFLOW_TWILIO_AUTH_TOKEN", "token")
        cli.set("CALLFLOW_TWILIO_API_URL", api.url)
        ran = cli.run("calls", "end", SID, "released", "--confirm", "--by", "bo", "--json")
        assert ran.json == {"call_sid": SID, "done": True, "closed": True}
        assert (api.asked[-1].leg, api.asked[-1].fields) == (SID, {"Status": "completed"})
    record = open_call.record()
    assert record.disposition is not None
    assert (record.outcome, record.disposition.by) == ("released", "bo")
    cli.run("calls", "end", SID, "test", "--confirm").failed_with("is complete")


def test_without_a_carrier_it_is_said_that_the_line_is_not_closed_yet(
    cli: Cli, open_call: Parts
) -> None:
    ran = cli.run("calls", "end", SID, "test")
    assert ran.code == 0
    assert "ended: test" in ran.out
    assert "its next request closes it" in ran.out
