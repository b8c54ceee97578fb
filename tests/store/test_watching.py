"""What people watch is what stands in the record, after each thing that can happen to a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from callflow.call import ladder
from callflow.call.edits import Disposition
from callflow.call.facts import known
from callflow.call.record import CallRecord, last_words, waiting_since, word
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.store.handovers import AlertStep
from callflow.store.keys import SHARDS, call_keys
from callflow.store.reader import ENDED_MS, FROM_THE_START, CallSummary, CallWatcher
from callflow.store.result import Claimed, Lease
from tests.cluster import cluster
from tests.parts import SID, Parts
from tests.waiting import wait_until

SEEN = (
    *("call_sid", "call_state", "assigned_worker", "last_heartbeat", "scenario_type", "fence"),
    *("created_at", "updated_at", "heard", "answered", "attempts", "owed_since", "language"),
    *("site", "open_scenarios", "urgency", "urgency_heard", "understood", "hurry", "facts"),
    *("recorded", "draft", "handling", "needs_human", "alert", "alert_due", "unclear", "lost"),
    *("outcome", "disposition"),
)


def what_is_seen(record: CallRecord) -> dict[str, object]:
    """All that people watch of a call, from its record or from a sight of it."""
    fields = {name: getattr(record, name) for name in SEEN}
    told = {"word": word(record), "last": last_words(record), "since": waiting_since(record)}
    return {**fields, **told, "known": known(record)}


def seen(watching: CallWatcher, call_sid: str = SID) -> CallSummary:
    """The call as the next look finds it."""
    return next(one for one in watching.look().calls if one.call_sid == call_sid)


def claimed(parts: Parts, name: str) -> Lease:
    answer = parts.store.claim(SID, f"{name}@test/1-aa", name)
    assert isinstance(answer, Claimed)
    return answer.lease


Doing = Callable[[], object]


def everything_that_happens(parts: Parts) -> Iterator[tuple[str, Doing]]:
    """Each thing that can happen to a call, in an order in which all of them can."""
    store, handovers, work = parts.store, parts.store.handovers, parts.store.staff
    leases: list[Lease] = []

    def claim(name: str) -> Doing:
        return lambda: leases.append(claimed(parts, name))

    def understood() -> None:
        record = parts.record()
        more = {"understood": 1, "urgency": "P2", "scenario_type": "fire_smoke", "language": "es"}
        store.save_analysis(leases[-1], record.model_copy(update=more))

    def step(event: str, **changes: object) -> Doing:
        def move() -> None:
            wanted, _ = handovers.read(SID)
            assert wanted.alert is not None
            after = wanted.alert.model_copy(update=changes)
            handovers.move(SID, wanted.alert, AlertStep(after, None, event))

        return move

    def accept() -> None:
        wanted, _ = handovers.read(SID)
        assert wanted.alert is not None
        handovers.accept(SID, ladder.accepted(wanted.alert, "CA9"))

    yield "heard", lambda: store.record_utterance(SID, 1, "smoke", danger=True)
    yield "claimed", claim("w1")
    yield "understood", understood
    yield "beaten", lambda: store.beat(leases[-1])
    yield "drafted", lambda: store.save_draft(leases[-1], 1, "I am")
    yield "drafted on", lambda: store.save_draft(leases[-1], 1, "I am with you.")
    yield "heard meanwhile", lambda: store.record_utterance(SID, 2, "hello?")
    yield "handed back", lambda: store.hand_back(leases[-1], "draining", costs=True)
    yield "claimed again", claim("w2")
    yield "cut", lambda: store.playback.interrupt(SID, 1, "I am")
    yield "committed", lambda: store.commit(leases[-1], 1, "I am with you.", sop_step=1)
    yield "claimed for the next", claim("w3")
    yield "reclaimed", lambda: store.reclaim(SID, leases[-1].fence, 10**13, "gone")
    yield "claimed by another", claim("w4")
    yield "committed, too", lambda: store.commit(leases[-1], 2, "Yes.", needs_human="asked")
    yield "cut afterwards", lambda: store.playback.interrupt(SID, 2, "Y")
    yield "silence", lambda: store.record_utterance(SID, 3, "", understood=False)
    yield "keys", lambda: store.record_utterance(SID, 4, "", digits="5")
    yield "a fact", lambda: store.staff.record_fact(SID, "eta_minutes", 5, "ana")
    yield "a note", lambda: work.add_note(SID, "a note", "ana", request="r1")
    yield "urgency", lambda: work.set_urgency(SID, "P1", "ana", request="r2", seen=0)
    yield "rung", step("rung", state="ringing", attempt_id="a")
    yield "taken over", lambda: work.take_over(SID, "ana", "+4930", request="r3", seen=0)
    yield "transferred", lambda: handovers.transfer(SID, "asked")
    yield "accepted", accept
    yield "heard by a human", lambda: store.record_utterance(SID, 5, "thank you")
    yield "resumed", lambda: handovers.resume(SID, "left", over=True)
    yield "remarked", lambda: handovers.add_journal_line(SID, "remarked", "why")
    yield "lost", lambda: store.failover.admit_loss(SID, 7, told=5)
    yield (
        "ended by somebody",
        lambda: work.end(
            parts.record, SID, Disposition.RELEASED, "ana", request="r4", confirmed=True
        ),
    )


def test_after_each_thing_that_happens_what_is_seen_is_what_stands_in_the_record(
    each_server: EmbeddedServer,
) -> None:
    with Parts.on(each_server.url) as parts:
        parts.store.open(SID, greeting="This is a machine.", site="tower", facts={"people": 1})
        watching = CallWatcher(parts.client)
        for what, happens in everything_that_happens(parts):
            before, raw = parts.record(), seen(watching).raw
            happens()
            record, sight = parts.record(), seen(watching)
            assert what_is_seen(sight) == what_is_seen(record), what
            assert sight.journal_length == len(parts.journal()), what
            assert what == "beaten" or sight.raw != raw, what
            assert before != record or what in ("beaten", "remarked"), what
        parts.close()


def test_a_call_in_which_nothing_has_happened_is_the_very_same_object(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.open("CA2")
    watching = CallWatcher(parts.client)
    first = seen(watching)
    for number in range(2 * SHARDS):
        parts.store.record_utterance("CA2", number + 1, "word")
        assert seen(watching) is first
        assert seen(watching, "CA2").heard == number + 1


def test_what_is_changed_behind_the_scripts_is_seen_within_a_round_of_the_shards(
    parts: Parts,
) -> None:
    parts.store.open(SID)
    watching = CallWatcher(parts.client)
    seen(watching)
    parts.client.hset(call_keys(SID).call, "site", '"mended"')
    assert "mended" in [seen(watching).site for _ in range(SHARDS)]


def test_what_is_written_without_a_line_in_the_journal_is_seen_at_once(parts: Parts) -> None:
    parts.store.open(SID)
    watching = CallWatcher(parts.client)
    seen(watching)
    for number in range(3):  # One look of them may be this shard's turn.
        more = ("site", f'"site {number}"', "updated_at", str(number))
        parts.client.hset(call_keys(SID).call, items=list(more))
        assert seen(watching).site == f"site {number}"


def test_a_sign_of_life_is_a_word_or_a_key_and_no_silence(parts: Parts) -> None:
    parts.store.open(SID, greeting="This is a machine.")
    watching = CallWatcher(parts.client)
    assert seen(watching).heard_at is None
    now_ms = parts.reader.now_ms()
    parts.store.record_utterance(SID, 1, "stuck", now_ms=now_ms + 1)
    parts.store.record_utterance(SID, 2, "", now_ms=now_ms + 2)
    assert seen(watching).heard_at == now_ms + 1
    parts.store.record_utterance(SID, 3, "", digits="1", now_ms=now_ms + 3)
    parts.store.record_utterance(SID, 4, "", now_ms=now_ms + 4)
    sight = seen(watching)
    assert sight.heard_at == now_ms + 3
    assert waiting_since(sight) == now_ms + 1
    last = sight.conversation_thread[-1]
    assert (last.turn, len(sight.conversation_thread)) == (4, 3)


def test_a_call_that_has_ended_stays_in_sight_for_a_while(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.end(SID, "hung_up")
    ended_at = parts.record().updated_at
    watching = CallWatcher(parts.client)
    assert [one.outcome for one in watching.look(now_ms=ended_at + ENDED_MS).calls] == ["hung_up"]
    assert watching.look(now_ms=ended_at + ENDED_MS + 1).calls == ()
    late = watching.look(now_ms=ended_at + ENDED_MS + 1, ended_ms=ENDED_MS + 1)
    assert [one.call_sid for one in late.calls] == [SID]


def test_calls_that_are_too_many_are_counted(parts: Parts) -> None:
    for number in range(4 * SHARDS):
        parts.store.open(f"CA{number}")
    look = CallWatcher(parts.client).look(limit=SHARDS)
    assert len(look.calls) + look.hidden == 4 * SHARDS
    assert 0 < len(look.calls) <= SHARDS
    assert CallWatcher(parts.client).look().hidden == 0


def test_a_record_that_cannot_be_read_hides_no_other(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.open("CA2")
    parts.store.open("CA3")
    parts.client.hset(call_keys(SID).call, "handling", '"a newer word"')
    parts.client.hdel(call_keys("CA3").call, "answered")
    watching = CallWatcher(parts.client)
    look = watching.look()
    assert {one.call_sid for one in look.calls} == {"CA2", "CA3"}
    assert look.unreadable == (SID,)
    assert watching.look().unreadable == (SID,)
    parts.client.hset(call_keys(SID).call, "handling", '"agent"')
    parts.client.hset(call_keys("CA3").call, "answered", "0")
    assert len(watching.look().calls) == 3


def test_an_index_without_its_record_is_no_call(parts: Parts) -> None:
    parts.store.open(SID)
    parts.client.delete(call_keys(SID).call)
    assert CallWatcher(parts.client).look().calls == ()
    parts.client.flushall()


def test_journals_are_read_on_from_the_line_that_is_known(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.open("CA2")
    watching = CallWatcher(parts.client)
    first = watching.journal_lines({SID: FROM_THE_START, "CA2": FROM_THE_START})
    assert [one.event for _, one in first[SID]] == ["opened"]
    (line, _), *_ = first[SID]
    parts.store.record_utterance(SID, 1, "stuck")
    again = watching.journal_lines({SID: line, "CA2": first["CA2"][-1][0]})
    assert [one.event for _, one in again[SID]] == ["heard"]
    assert again["CA2"] == []
    assert watching.journal_lines({}) == {}


def test_one_look_asks_once_for_each_shard_however_many_calls_there_are(parts: Parts) -> None:
    for number in range(100):
        parts.store.open(f"CA{number}")
    watching = CallWatcher(parts.client)
    watching.look()
    parts.client.config_resetstat()
    assert len(watching.look().calls) == 100
    stats = parts.client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == SHARDS
    assert "cmdstat_hgetall" not in stats


def test_in_a_cluster_all_is_seen_as_on_one_server(clustered: Parts, parts: Parts) -> None:
    for where in (clustered, parts):
        for number in range(40):
            where.store.open(f"CA{number}", now_ms=1_000 + number)
            where.store.record_utterance(f"CA{number}", 1, "stuck", now_ms=2_000 + number)
    watched = [CallWatcher(where.client) for where in (clustered, parts)]
    looks = [
        {one.call_sid: what_is_seen(one) for one in each.look(now_ms=3_000).calls}
        for each in watched
    ]
    assert looks[0] == looks[1]
    assert len(looks[0]) == 40
    lines = watched[0].journal_lines(dict.fromkeys(looks[0], FROM_THE_START))
    assert [len(each) for each in lines.values()] == [2] * 40


@pytest.mark.chaos
def test_while_a_node_is_gone_the_calls_of_the_others_are_seen() -> None:
    with cluster(node_timeout_ms=30_000) as own, connect(own.url) as client:
        parts = Parts(client)
        sids = [f"CA{number}" for number in range(40)]
        for sid in sids:
            parts.store.open(sid)
        watching = CallWatcher(client)
        assert not watching.look().blind
        own.servers[0].kill()
        theirs = {sid for sid in sids if own.owner_of(sid) != 0}
        look = watching.look()
        assert {one.call_sid for one in look.calls} == theirs
        assert 0 < len(look.blind) < SHARDS
        assert look.failure is not None
        lines = watching.journal_lines(dict.fromkeys(sids, FROM_THE_START))
        assert lines.keys() == theirs
        own.servers[0].restart()
        wait_until(own.settled, "it never came back")
        wait_until(lambda: not watching.look().blind, "it was never looked at again")
        assert len(watching.look().calls) == 40
        parts.close()


def test_a_line_of_a_journal_that_cannot_be_read_hides_no_other(parts: Parts) -> None:
    parts.store.open(SID)
    parts.client.xadd(call_keys(SID).journal, {"event": "of a newer release", "at": "soon"})
    parts.store.record_utterance(SID, 1, "stuck")
    watching = CallWatcher(parts.client)
    assert len(watching.look().calls) == 1
    assert [one.event for _, one in watching.journal_lines({SID: ""})[SID]] == ["opened", "heard"]
