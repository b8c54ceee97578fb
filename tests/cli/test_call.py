"""`callflow call`: be the caller, through a pipe as in a terminal."""

from __future__ import annotations

import os
from typing import Any

import pytest

from callflow.cli import conversation
from callflow.lab.server.embedded import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.reader import CallReader
from tests.cli.running import Cli, store_at
from tests.waiting import wait_until


def record(url: str, call_sid: str) -> Any:
    return CallReader(connect(url)).find(call_sid)


def call_sid() -> str:
    return f"CA{os.urandom(16).hex()}"


def test_each_line_is_answered_by_a_line_and_the_end_hangs_up(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    called = cli.call("--call-sid", sid, "--site", "Lift 4", said=b"we are stuck\n\nhello?\n")
    assert called.code == 0
    assert len(called.out.splitlines()) == 3
    assert "hung up" in called.err
    ended = record(staffed_url, sid)
    assert (ended.heard, ended.answered, ended.outcome) == (3, 3, "hung_up")
    assert ended.site == "Lift 4"
    assert ended.said(2, "caller") == "", "an empty line is silence"


def test_programs_get_one_object_for_each_event(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    events = cli.call("--json", said=b"we are stuck").events
    assert events[0]["event"] == "opened"
    assert events[1] == {"event": "heard", "turn": 1}
    replies = [event for event in events if event["event"] == "reply"]
    assert [reply["done"] for reply in replies] == [False] * (len(replies) - 1) + [True]
    assert events[-1] == {"event": "ended", "outcome": "hung_up"}


def test_emoji_nul_bytes_and_broken_letters_are_stored_readably(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    called = cli.call("--call-sid", sid, said=b"\xf0\x9f\x98\x80 a\0b \xff \xed\xa0\xbd c\n")
    assert called.code == 0
    said = record(staffed_url, sid).said(1, "caller")
    assert said.startswith("😀 a b \ufffd ")
    assert said.endswith("\ufffd c")


def test_a_call_that_was_left_open_goes_on(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    left = cli.call("--call-sid", sid, "--keep", said=b"we are stuck\n")
    assert f"the call stays open: callflow call --call-sid {sid}" in left.err
    gone_on = cli.call("--call-sid", sid, said=b"hello?\n")
    assert "we are stuck" in gone_on.err, "the thread so far"
    assert len(gone_on.out.splitlines()) == 1
    assert record(staffed_url, sid).heard == 2


def test_what_is_said_when_somebody_else_took_the_turn_is_said_in_the_next(
    cli: Cli, staffed_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    calling = cli.start("call", "--call-sid", sid)
    wait_until(lambda: record(staffed_url, sid), "the call to be opened")
    store_at(staffed_url).hear(sid, 1, "from the other phone")
    called = cli.finish(calling, b"from here\n")
    assert called.code == 0
    assert "somebody else speaks in this call too" in called.err
    ended = record(staffed_url, sid)
    assert ended.said(2, "caller") == "from here"
    assert ended.answered == 2


def test_a_call_that_passes_to_a_human_says_so_and_ends(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    calling = cli.start("call", "--call-sid", sid)
    wait_until(lambda: record(staffed_url, sid), "the call to be opened")
    store_at(staffed_url).handovers.transfer(sid, "smoke in the lift")
    called = cli.finish(calling, b"are you there?\nhello?\n")
    assert called.code == 0
    assert "a human has this call now: smoke in the lift" in called.err
    assert called.out == ""


def test_nothing_can_be_said_in_a_call_that_has_ended(cli: Cli, redis_url: str) -> None:
    store_at(redis_url).open("CA1")
    store_at(redis_url).end("CA1", "hung_up")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    cli.run("call", "--call-sid", "CA1", said="hello?\n").failed_with("call CA1 is complete")


@pytest.mark.leaves_live_calls
def test_a_reply_that_does_not_come_is_a_clear_message(
    cli: Cli, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "REPLY_WITHIN_S", 0.3)
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    called = cli.run("call", "--call-sid", "CA1", said="hello?\n")
    called.failed_with("call CA1 got no reply to turn 1 within")
    assert "no worker is at work there" in called.err
    assert "the call stays open" in called.err
    assert record(redis_url, "CA1").heard == 1


@pytest.mark.leaves_live_calls
def test_an_utterance_that_no_caller_says_is_refused(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    called = cli.run("call", "--call-sid", "CA1", said="a" * 20_001)
    called.failed_with("was sent an utterance of 20001 characters")
    assert record(redis_url, "CA1").heard == 0


def test_a_name_that_is_no_call_sid_is_refused_before_anything_starts(cli: Cli) -> None:
    cli.run("call", "--call-sid", "CA 1").failed_with("has no valid CallSid")


def test_a_language_that_is_none_is_a_mistake_in_the_command(cli: Cli) -> None:
    assert cli.run("call", "--language", "english please").code == 2


def test_no_call_is_taken_on_a_server_that_evicts(cli: Cli, own_server: EmbeddedServer) -> None:
    connect(own_server.url).config_set("maxmemory-policy", "allkeys-lru")
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    called = cli.run("call", "--call-sid", "CA1", said="hello?\n")
    called.failed_with("not fit to hold calls: its maxmemory-policy is allkeys-lru")
    assert record(own_server.url, "CA1") is None


def test_no_call_is_taken_on_a_replica(
    cli: Cli, own_server: EmbeddedServer, redis_url: str
) -> None:
    host, _, port = redis_url.rpartition("@")[2].partition("/")[0].partition(":")
    connect(own_server.url).replicaof(host, port)
    cli.set("CALLFLOW_REDIS_URL", own_server.url)
    cli.run("call", said="hello?\n").failed_with("is read-only: it is a replica")


def test_a_message_that_is_lost_is_told_once_and_made_good(cli: Cli, staffed_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    cli.set("CALLFLOW_BROKER_URL", "redis://127.0.0.1:1/0")
    cli.set("CALLFLOW_OWED_AFTER_S", "0.2")
    called = cli.call(said=b"we are stuck\nhello?\n")
    assert called.code == 0, called
    assert called.err.count("the message to the workers was lost") == 1
    assert len(called.out.splitlines()) == 2


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_caller_whom_nobody_listens_to_is_answered_all_the_same(
    cli: Cli, staffed_url: str, closed: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", staffed_url)
    sid = call_sid()
    called = cli.finish(cli.start("call", "--call-sid", sid, redirected=closed), b"hello?\n")
    assert called.code == 0, called
    assert "Traceback" not in called.err
    ended = record(staffed_url, sid)
    assert ended.heard == ended.answered == (0 if "<" in closed else 1)
    assert ended.outcome == "hung_up"


def test_without_a_server_a_local_stack_serves_for_as_long_as_the_call(cli: Cli) -> None:
    called = cli.call(said=b"we are stuck\n")
    assert called.code == 0, called
    assert "starting a local stack for this call" in called.err
    assert len(called.out.splitlines()) == 1
    assert not (cli.home / "data").exists()
