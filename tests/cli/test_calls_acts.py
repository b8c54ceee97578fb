"""People act in calls from the command line, as they do from the board."""

from __future__ import annotations

import pytest

from tests.cli.running import Cli, store_at
from tests.parts import SID, Parts
from tests.rest_api import rest_api

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
    open_call.store.desk_work.urge(SID, "P2", "ana", request="u")
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
