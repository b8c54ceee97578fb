"""`callflow call`: be the caller, through a pipe as in a terminal."""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from typing import Any

import pytest

from callflow.cli import call
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.reader import CallReader
from tests.cli.running import Cli, store_at
from tests.waiting import wait_until


def record(url: str, call_sid: str) -> Any:
    return CallReader(connect(url)).find(call_sid)


def call_sid() -> str:
    return f"CA{os.urandom(16).hex()}"


@pytest.mark.stack
def test_each_line_is_answered_by_a_line_and_the_end_hangs_up(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    said = b"we are stuck \xf0\x9f\x98\x80 \xff\n\nhello?\n"
    called = cli.call("--call-sid", sid, said=said)
    assert called.code == 0, called
    assert (len(called.out.splitlines()), called.out[-1]) == (3, "\n")
    assert "hung up" in called.err
    ended = record(staffed_url, sid)
    assert (ended.heard, ended.answered, ended.outcome) == (3, 3, "hung_up")
    assert ended.site == "high-street"
    assert ended.said(1, "caller").startswith("we are stuck 😀 \ufffd")
    assert ended.said(2, "caller") == "", "an empty line is silence"


@pytest.mark.stack
def test_programs_get_one_object_for_each_event(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    events = cli.call("--json", "--site", "calle-mayor", said=b"no puedo salir").events
    opened, greeting, heard, *_, ended = events
    assert (opened["event"], opened["known"]) == ("opened", False)
    assert opened["record"]["site"] == "calle-mayor"
    assert greeting["event"] == "greeting"
    assert heard == {"event": "heard", "turn": 1}
    replies = [event for event in events if event["event"] == "reply"]
    assert [reply["done"] for reply in replies] == [False] * (len(replies) - 1) + [True]
    assert all(after["text"].startswith(one["text"]) for one, after in pairwise(replies))
    assert ended == {"event": "ended", "outcome": "hung_up"}


@pytest.mark.stack
def test_a_call_that_was_left_open_goes_on(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    left = cli.call("--call-sid", sid, "--keep", said=b"we are stuck\n")
    assert left.code == 0, left
    assert f"the call stays open: callflow call --call-sid {sid}" in left.err
    assert record(staffed_url, sid).outcome is None
    gone_on = cli.call("--call-sid", sid, said=b"hello?\n")
    assert "we are stuck" in gone_on.err, "the thread so far"
    assert len(gone_on.out.splitlines()) == 1
    assert (record(staffed_url, sid).heard, record(staffed_url, sid).outcome) == (2, "hung_up")


@pytest.mark.stack
def test_ctrl_c_leaves_the_call_open(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    calling = cli.start("call", "--call-sid", sid)
    wait_until(lambda: record(staffed_url, sid), "the call to be opened", within_s=30)
    calling.send_signal(signal.SIGINT)
    called = cli.finish(calling)
    assert called.code == 130
    assert "the call stays open" in called.err
    assert record(staffed_url, sid).outcome is None
    store_at(staffed_url).end(sid, "hung_up")


@pytest.mark.stack
def test_a_call_that_passes_to_a_human_says_so_and_ends(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    calling = cli.start("call", "--call-sid", sid)
    wait_until(lambda: record(staffed_url, sid), "the call to be opened", within_s=30)
    store_at(staffed_url).handovers.transfer(sid, "smoke in the lift")
    called = cli.finish(calling, b"are you there?\nhello?\n")
    assert called.code == 0, called
    assert "a human has this call now: smoke in the lift" in called.err
    assert called.out == ""


@pytest.mark.stack
@pytest.mark.leaves_live_calls
def test_a_reply_that_does_not_come_is_a_clear_message(
    cli: Cli, redis_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(call, "REPLY_WITHIN_S", 0.5)
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    lines = cli.home / "lines"
    lines.write_text("hello?\n")
    with lines.open() as said, monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", said)
        with pytest.raises(call.NoReply, match="call CA1 got no reply to turn 1 within"):
            call.call(call_sid="CA1")
    told = capsys.readouterr().err
    assert "no worker is at work there" in told
    assert "the call stays open" in told
    assert record(redis_url, "CA1").heard == 1


@pytest.mark.stack
@pytest.mark.parametrize("closed", [">&- 2>&-", "<&- >&- 2>&-"])
def test_a_caller_whom_nobody_listens_to_is_answered_all_the_same(
    cli: Cli, staffed_url: str, closed: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    called = cli.finish(cli.start("call", "--call-sid", sid, redirected=closed), b"hello?\n")
    assert called.code == 0, called
    ended = record(staffed_url, sid)
    assert ended.heard == ended.answered == (0 if "<" in closed else 1)
    assert ended.outcome == "hung_up"


@pytest.mark.stack
def test_without_a_server_a_local_stack_serves_for_as_long_as_the_call(cli: Cli) -> None:
    called = cli.call(said=b"we are stuck\n")
    assert called.code == 0, called
    assert "starting a local stack for this call" in called.err
    assert len(called.out.splitlines()) == 1
    assert not (cli.home / "data").exists()


def test_a_name_or_a_language_that_is_none_is_refused_before_anything_starts(cli: Cli) -> None:
    cli.run("call", "--call-sid", "CA 1").failed_with("has no valid CallSid")
    assert cli.run("call", "--language", "english please").code == 2


def test_a_call_is_not_taken_where_it_could_be_lost(
    cli: Cli, own_server: EmbeddedServer, redis_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    with connect(own_server.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
        unfit = "not fit to hold calls: its maxmemory-policy is allkeys-lru"
        cli.run("call", "--call-sid", "CA1", said="hello?\n").failed_with(unfit)
        client.config_set("maxmemory-policy", "noeviction")
        host, _, port = redis_url.rpartition("@")[2].partition("/")[0].partition(":")
        client.replicaof(host, port)
        cli.run("call", said="hello?\n").failed_with("is read-only: it is a replica")
    assert record(own_server.url, "CA1") is None


@pytest.mark.stack
def test_nothing_can_be_said_in_a_call_that_has_ended_or_at_a_site_that_is_none(
    cli: Cli, redis_url: str
) -> None:
    store_at(redis_url).open("CA1")
    store_at(redis_url).end("CA1", "hung_up")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    ran = cli.run("call", "--call-sid", "CA1", said="hello?\n")
    assert ran.code == 1
    assert "call CA1 is complete" in ran.err
    ran = cli.run("call", "--site", "nowhere", said="hello?\n")
    assert ran.code == 1
    assert "there is no site 'nowhere'; name one with --site: high-street" in ran.err
