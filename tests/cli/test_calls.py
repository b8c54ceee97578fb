"""`callflow calls` shows what the records say."""

from __future__ import annotations

import json

import pytest

from callflow.call.record import CallRecord
from callflow.lab.embedded_server import EmbeddedServer
from callflow.store.outcome import Claimed, Lease
from tests.cli.running import Cli, store_at
from tests.waiting import wait_until

pytestmark = pytest.mark.leaves_live_calls


def claimed(url: str, call_sid: str, said: str = "help", *, worker: str = "w1@here/7-ab") -> Lease:
    """A call that a worker is answering."""
    store = store_at(url)
    store.open(call_sid, site="Lift 4")
    store.hear(call_sid, 1, said)
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


def test_no_calls_are_an_empty_array(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
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
    store_at(redis_url).note_draft(lease, 1, "Stay where")
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


def test_an_unknown_call_is_said_to_be_unknown(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    cli.run("calls", "show", "CA404").failed_with("call CA404 is unknown")


def test_a_call_sid_that_is_none_is_refused(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    cli.run("calls", "show", "CA{1}\n").failed_with("has no valid CallSid")


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
