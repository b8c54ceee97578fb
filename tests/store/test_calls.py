"""What the store promises beyond the protocol: expiry, reading, listing, round trips, errors, and
how much of a reply was sent and heard."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pytest
from redis.connection import AbstractConnection
from redis.crc import key_slot

from callflow.call.record import Sent
from callflow.errors import (
    CallEnded,
    InvalidCallSid,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TurnOutOfOrder,
    UnknownCall,
)
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Lease, Result
from tests.parts import CHUNK, SID, TIMING, Parts


@pytest.fixture
def parts_on_each(each_server: EmbeddedServer) -> Iterator[Parts]:
    """The store on each kind of server."""
    with connect(each_server.url) as client:
        built = Parts(client)
        yield built
        built.close()


def _claim(parts: Parts, claim_id: str = "claim-1") -> Lease:
    claimed = parts.store.claim(SID, "w@test/1-aa", claim_id)
    assert isinstance(claimed, Claimed)
    return claimed.lease


def test_the_record_read_as_a_whole_is_the_customers_json_object(parts_on_each: Parts) -> None:
    parts = parts_on_each
    parts.store.open(SID, site="lift 7", language="es", now_ms=1000)
    parts.store.record_utterance(SID, 1, "¿hola? 😀", now_ms=2000)
    lease = _claim(parts)
    understood = parts.record().model_copy(
        update={"understood": 1, "scenario_type": "entrapment", "retrieved_sop_chunks": (CHUNK,)}
    )
    parts.store.save_analysis(lease, understood)
    parts.store.commit(lease, 1, "Hola.", sop_step=1, needs_human="asked")

    shown = json.loads(parts.record().model_dump_json())

    assert shown["conversation_thread"][0] == {
        "role": "caller",
        "turn": 1,
        "text": "¿hola? 😀",
        "at": 2000,
        "digits": None,
        "confidence": None,
        "heard": None,
        "lang": None,
        "by": None,
    }
    assert shown["call_state"] == "pending"
    assert shown["assigned_worker"] is None
    assert shown["scenario_type"] == "entrapment"
    assert shown["retrieved_sop_chunks"][0]["sentences"][0]["text"] == "Stay inside."
    assert shown["created_at"] == 1000
    assert (shown["sop_step"], shown["needs_human"]) == (1, "asked")
    assert (shown["language"], shown["site"]) == ("es", "lift 7")


def test_a_complete_call_and_all_its_keys_expire_after_half_an_hour(parts_on_each: Parts) -> None:
    parts = parts_on_each
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    parts.store.end(SID, "hung_up")

    keys = call_keys(SID)
    for key in (*keys.own, keys.shard.ended):
        assert 0 < parts.client.pttl(key) <= TIMING.completed_ttl_ms


def test_a_late_write_to_an_ended_call_takes_no_lifetime_away(parts_on_each: Parts) -> None:
    parts = parts_on_each
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    lease = _claim(parts)
    parts.store.end(SID, "hung_up")

    parts.store.commit(lease, 1, "Too late.")
    parts.store.save_draft(lease, 1, "Too late.")

    assert all(parts.client.pttl(key) > 0 for key in call_keys(SID).own)


def test_ended_calls_can_be_read_and_listed_until_they_expire(parts: Parts) -> None:
    for number in range(3):
        parts.store.open(f"CA{number}")
    parts.store.end("CA1", "hung_up")

    assert {record.call_sid for record in parts.reader.active()} == {"CA0", "CA2"}
    assert [record.call_sid for record in parts.reader.ended()] == ["CA1"]
    assert len(parts.reader.active(limit=1)) == 1


def test_claim_and_commit_are_one_round_trip_each_and_a_beat_is_one_for_all(
    parts: Parts, redis_url: str
) -> None:
    sids = [f"CA{number}" for number in range(5)]
    for sid in [SID, *sids]:
        parts.store.open(sid)
        parts.store.record_utterance(sid, 1, "stuck")
    # A server that has never run the script is sent it first, once for all clients.
    assert isinstance(parts.store.claim(SID, "w@test/1-aa", SID), Claimed)
    leases = []
    for sid in sids:
        with _counting_round_trips() as trips:
            claimed = parts.store.claim(sid, "w@test/1-aa", sid)
        assert trips == [1]
        assert isinstance(claimed, Claimed)
        leases.append(claimed.lease)

    parts.store.beat(leases[0])
    with _counting_round_trips() as trips:
        parts.store.beat(*leases)
    assert trips == [1]
    parts.store.commit(leases[0], 1, "Hello.")
    with _counting_round_trips() as trips:
        parts.store.commit(leases[1], 1, "Hello.")
    assert trips == [1]


@contextmanager
def _counting_round_trips() -> Iterator[list[int]]:
    """Counts how often this process asked any server for something, in a list of one number."""
    trips = [0]
    real: Any = AbstractConnection.send_packed_command

    def send(*args: Any, **kwargs: Any) -> Any:
        trips[0] += 1
        return real(*args, **kwargs)

    with patch.object(AbstractConnection, "send_packed_command", send):
        yield trips


def test_what_cannot_be_heard_is_refused_by_name_and_changes_nothing(parts: Parts) -> None:
    with pytest.raises(UnknownCall, match=f"call {SID} is unknown"):
        parts.store.record_utterance(SID, 1, "hello?")
    parts.store.open(SID)
    with pytest.raises(TurnOutOfOrder, match="has heard 0 turns: turn 2 is not the next"):
        parts.store.record_utterance(SID, 2, "hello?")
    with pytest.raises(TurnOutOfOrder):
        parts.store.record_utterance(SID, 0, "hello?")
    parts.store.end(SID, "hung_up")
    with pytest.raises(CallEnded, match=f"call {SID} is complete: hear is not allowed"):
        parts.store.record_utterance(SID, 1, "hello?")
    assert parts.record().conversation_thread == ()


def test_an_utterance_stored_before_the_end_is_still_known_as_repeated(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    parts.store.end(SID, "hung_up")

    assert parts.store.record_utterance(SID, 1, "stuck").result == "again"


@pytest.mark.parametrize("sid", ["", "CA}1", "CA 1", "CA1\n", "x" * 65, "CÄ1", "CA:1", "CA\ud800"])
def test_a_key_that_is_no_call_sid_never_reaches_the_server(parts: Parts, sid: str) -> None:
    with pytest.raises(InvalidCallSid, match="has no valid CallSid"):
        parts.store.open(sid)


def test_what_nobody_owes_is_not_claimed(parts: Parts) -> None:
    assert parts.store.claim(SID, "w@test/1-aa", "claim-1") is Result.UNKNOWN
    parts.store.open(SID)
    assert parts.store.claim(SID, "w@test/1-aa", "claim-1") is Result.IDLE


def test_a_scripts_absence_on_the_server_costs_a_round_trip_and_nothing_else(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    lease = _claim(parts)
    parts.client.script_flush()

    assert parts.store.beat(lease) == ["ok"]
    parts.client.script_flush()
    assert parts.store.commit(lease, 1, "Hello.").result == "ok"


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    with connect("redis://:secret@127.0.0.1:1/0") as client:
        parts = Parts(client)
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1/0 cannot be reached") as error:
            parts.store.open(SID)
    assert "secret" not in str(error.value)


def test_a_replica_is_refused_as_read_only_and_nothing_is_lost(own_server: EmbeddedServer) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        parts.store.record_utterance(SID, 1, "stuck")
        client.replicaof("127.0.0.1", 1)
        with pytest.raises(StoreReadOnly, match="read-only: it is a replica"):
            parts.store.record_utterance(SID, 2, "still stuck")
        client.replicaof("NO", "ONE")
        assert parts.store.record_utterance(SID, 2, "still stuck").result == "ok"


def test_a_full_server_refuses_by_name_and_keeps_what_it_has(own_server: EmbeddedServer) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        client.config_set("maxmemory", 1)
        with pytest.raises(StoreFull, match="out of memory"):
            parts.store.record_utterance(SID, 1, "stuck")
        client.config_set("maxmemory", 0)
        assert parts.store.record_utterance(SID, 1, "stuck").result == "ok"


def test_a_frozen_server_costs_seconds_and_not_minutes(own_server: EmbeddedServer) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        os.kill(own_server.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(StoreUnavailable):
            parts.store.record_utterance(SID, 1, "stuck")
        waited_s = time.monotonic() - began
        os.kill(own_server.pid, signal.SIGCONT)
        assert waited_s < 10
        assert parts.store.record_utterance(SID, 1, "stuck").result in ("ok", "again")


def test_what_was_acknowledged_survives_the_servers_death(own_server: EmbeddedServer) -> None:
    with connect(own_server.url) as client:
        parts = Parts(client)
        parts.store.open(SID)
        parts.store.record_utterance(SID, 1, "stuck")
        own_server.restart()
        assert parts.record().said(1, "caller") == "stuck"
        assert parts.store.record_utterance(SID, 1, "stuck").result == "again"


def test_redis_is_never_asked_for_all_its_keys(parts: Parts) -> None:
    parts.client.config_resetstat()
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    parts.store.commit(_claim(parts), 1, "Hello.")
    parts.watchdog.sweep("test")
    parts.reader.active()
    parts.store.end(SID, "hung_up")

    used = {name.removeprefix("cmdstat_") for name in parts.client.info("commandstats")}
    assert "evalsha" in used or "eval" in used
    assert not used & {"keys", "scan"}


def test_all_keys_of_a_call_and_its_indexes_fall_into_one_cluster_slot() -> None:
    for number in range(200):
        keys = call_keys(f"CA{number}")
        shard = keys.shard
        names = (*keys.own, shard.leases, shard.owed, shard.active, shard.ended)
        assert len({key_slot(name.encode()) for name in names}) == 1


def _sent(parts: Parts) -> Sent:
    found = parts.record().sent
    assert found is not None
    return found


def test_what_was_sent_stands_as_it_was_told_last(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.playback.save_sent(SID, 1, 12, left_ms=800, now_ms=1_700_000_000_123)
    assert _sent(parts) == Sent(turn=1, length=12, at=1_700_000_000_123, left_ms=800)
    for _ in range(2):
        parts.store.playback.save_sent(SID, 1, 30, left_ms=0, now_ms=1_700_000_000_500)
    assert _sent(parts) == Sent(turn=1, length=30, at=1_700_000_000_500)


def test_what_was_heard_only_grows_within_a_turn(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.playback.save_sent(SID, 1, 12)
    assert _sent(parts).played is None
    for told, stands in ((5, 5), (5, 5), (3, 5), (12, 12)):
        parts.store.playback.save_played(SID, 1, told)
        assert _sent(parts).played == stands
    parts.store.playback.save_sent(SID, 1, 30, played=4)
    assert _sent(parts).played == 12
    parts.store.playback.save_sent(SID, 1, 31)
    assert _sent(parts).played == 12


def test_a_new_reply_begins_unheard_and_late_word_of_the_old_one_changes_nothing(
    parts: Parts,
) -> None:
    parts.store.open(SID)
    parts.store.playback.save_sent(SID, 1, 12, played=12)
    parts.store.playback.save_sent(SID, 2, 20, played=0)
    parts.store.playback.save_played(SID, 1, 12)
    assert (_sent(parts).turn, _sent(parts).played) == (2, 0)
    parts.store.playback.save_sent(SID, 3, 20)
    assert _sent(parts).played is None


def test_nothing_is_noted_of_a_call_that_is_over_or_unknown(parts: Parts) -> None:
    parts.store.playback.save_sent(SID, 1, 12)
    parts.store.open(SID)
    parts.store.end(SID, "hung_up")
    parts.store.playback.save_sent(SID, 1, 12)
    parts.store.playback.save_played(SID, 1, 12)
    assert parts.record().sent is None
