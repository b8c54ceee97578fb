"""What is acknowledged while replicas are waited for is on them; what is not is said to be not."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from callflow.errors import CallEnded, StoreError, StoreUnreplicated, UnknownCall
from callflow.lab.chaos.chaos_servers import ServerPair, freeze, server_pair, thaw
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.store.calls import CallStore
from callflow.store.result import Claimed, Lease, Result, UtteranceStored
from tests.parts import SID, TIMING, Parts
from tests.waiting import wait_until


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    """A primary and its replica behind one endpoint, in step."""
    with server_pair() as running:
        yield running


@pytest.fixture
def parts(pair: ServerPair) -> Iterator[Parts]:
    """One process's worth of callflow that waits for nobody."""
    with connect(pair.url) as client:
        yield Parts(client)


def _careful(client: Client, least: int = 1, wait_ms: int = 100) -> CallStore:
    """A store that waits for replicas, on connections of its own."""
    return CallStore(Scripts(client, replicas=Replicas(least, wait_ms)), TIMING)


@pytest.fixture
def careful(parts: Parts) -> CallStore:
    """A store that waits for the replica."""
    return _careful(parts.client)


def _claim(store: CallStore, claim_id: str = "claim-1") -> Lease:
    claimed = store.claim(SID, "w@test/1-aa", claim_id)
    assert isinstance(claimed, Claimed)
    return claimed.lease


def _remarks(parts: Parts) -> list[str | None]:
    return [entry.reason for entry in parts.journal() if entry.event == "remarked"]


def test_an_utterance_is_acknowledged_once_the_replica_has_it(
    pair: ServerPair, parts: Parts, careful: CallStore
) -> None:
    parts.store.open(SID)
    for turn in range(1, 21):
        assert careful.record_utterance(SID, turn, "stuck").result == "ok"
    pair.fail_over()
    assert parts.record().heard == 20
    assert _remarks(parts) == []


def test_an_utterance_that_no_replica_has_is_not_acknowledged_and_journaled_once(
    pair: ServerPair, parts: Parts, careful: CallStore
) -> None:
    parts.store.open(SID)
    pair.cut_off_replica()
    for _ in range(3):
        with pytest.raises(StoreUnreplicated, match="CALLFLOW_MIN_REPLICAS") as raised:
            careful.record_utterance(SID, 1, "stuck")
    assert raised.value.least == 1
    assert _remarks(parts) == ["unreplicated"]
    assert parts.record().heard == 1, "it is stored all the same"

    pair.follow()
    pair.wait_until_in_step()
    assert careful.record_utterance(SID, 1, "stuck").result == "again"
    with pytest.raises(StoreUnreplicated):
        _careful(parts.client, least=2).record_utterance(SID, 2, "there is one replica")


def test_who_asks_again_is_told_of_what_another_connection_has_written(
    pair: ServerPair, parts: Parts
) -> None:
    """WAIT asks about the last write of its own connection: without one it would say yes."""
    parts.store.open(SID)
    pair.wait_until_in_step()
    freeze(pair.replica)
    parts.store.record_utterance(SID, 1, "stuck")
    lease = _claim(parts.store)
    parts.store.commit(lease, 1, "Hello.")
    with connect(pair.url) as client:
        with pytest.raises(StoreUnreplicated):
            _careful(client).record_utterance(SID, 1, "stuck")
    with connect(pair.url) as client:
        assert _careful(client).commit(lease, 1, "Hello.").result == "ok"
    assert _remarks(parts) == ["unreplicated"]
    with connect(pair.url) as client, pytest.raises(StoreUnreplicated):
        _careful(client).failover.has_reply(SID, 1, "Hello.")
    parts.store.end(SID, "hung_up")
    with connect(pair.url) as client, pytest.raises(StoreUnreplicated):
        _careful(client).end(SID, "hung_up")
    thaw(pair.replica)
    pair.wait_until_in_step()
    with connect(pair.url) as client:
        store = _careful(client)
        assert store.record_utterance(SID, 1, "stuck").result == "again"
        assert store.failover.has_reply(SID, 1, "Hello.")
        assert store.end(SID, "hung_up") == "ended"


def test_a_reply_that_no_replica_has_stands_is_journaled_and_may_not_be_spoken(
    pair: ServerPair, parts: Parts, careful: CallStore
) -> None:
    parts.store.open(SID)
    careful.record_utterance(SID, 1, "stuck")
    lease = _claim(careful)
    pair.wait_until_in_step()
    pair.cut_off_replica()
    parts.store.save_draft(lease, 1, "Stay ")
    with pytest.raises(StoreUnreplicated):
        careful.failover.has_reply(SID, 1, "Stay ")
    assert careful.commit(lease, 1, "Stay inside.").result == "ok"
    assert _remarks(parts) == ["unreplicated"]
    with pytest.raises(StoreUnreplicated):
        careful.failover.has_reply(SID, 1, "Stay inside.")

    pair.fail_over()
    # It is lost, and was not spoken: another worker's words for the turn are the first.
    assert parts.store.failover.has_reply(SID, 1, "Stay inside.") is False
    assert parts.store.failover.has_reply(SID, 1, "Stay ") is False
    assert parts.record().answered == 0


def test_a_draft_may_be_spoken_as_far_as_the_record_has_it(
    parts: Parts, careful: CallStore
) -> None:
    parts.store.open(SID)
    careful.record_utterance(SID, 1, "stuck")
    lease = _claim(careful)
    careful.save_draft(lease, 1, "Stay ")
    assert careful.failover.has_reply(SID, 1, "Stay ")
    assert careful.failover.has_reply(SID, 1, "Stay inside.") is False
    assert careful.failover.has_reply(SID, 2, "Stay ") is False
    with pytest.raises(UnknownCall):
        careful.failover.has_reply("CA2", 1, "Stay ")


def test_the_end_of_a_call_is_asked_for_again_until_the_replica_has_it(
    pair: ServerPair, parts: Parts, careful: CallStore
) -> None:
    parts.store.open(SID)
    pair.cut_off_replica()
    with pytest.raises(StoreUnreplicated):
        careful.end(SID, "hung_up")
    pair.follow()
    pair.wait_until_in_step()
    assert careful.end(SID, "hung_up") == "ended"
    pair.fail_over()
    assert parts.record().outcome == "hung_up"


def test_fault_04_who_waits_for_a_replica_when_the_roles_change_asks_again(
    pair: ServerPair, parts: Parts
) -> None:
    """UNBLOCKED is what the server says to them."""
    patient = _careful(parts.client, wait_ms=1_500)
    parts.store.open(SID)
    pair.wait_until_in_step()
    freeze(pair.replica)
    outcome: list[object] = []

    def hear() -> None:
        try:
            outcome.append(patient.record_utterance(SID, 1, "stuck"))
        except StoreError as error:
            outcome.append(error)

    waiting = threading.Thread(target=hear)
    waiting.start()
    wait_until(lambda: pair.client.info("clients")["blocked_clients"] == 1, "nobody waits")
    old = pair.primary
    pair.client_of(old).replicaof("127.0.0.1", pair.replica.port)
    thaw(pair.replica)
    pair.promote()
    pair.lead_clients(keep_open=True)
    waiting.join()
    # The new primary had it or not; either way it was not refused, and asked again it stands.
    assert isinstance(outcome[0], UtteranceStored | StoreUnreplicated)


# Nobody is waited for: what was lost is found.


def test_turns_that_a_failover_took_are_journaled_and_the_call_goes_on_behind_them(
    pair: ServerPair, parts: Parts
) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    lease = _claim(parts.store)
    pair.wait_until_in_step()
    pair.cut_off_replica()
    parts.store.commit(lease, 1, "Hello.")
    parts.store.record_utterance(SID, 2, "lost")
    parts.store.record_utterance(SID, 3, "lost as well")
    pair.fail_over()

    assert parts.store.failover.admit_loss(SID, 3, told=1)
    assert parts.store.failover.admit_loss(SID, 3, told=1) is False, "twice is once"
    record = parts.record()
    assert (record.heard, record.answered, record.lost) == (3, 3, 2)
    (line,) = [entry for entry in parts.journal() if entry.event == "lost"]
    assert (line.turn, line.count) == (3, 2)
    assert parts.store.claim(SID, "w@test/1-aa", "claim-2") is Result.IDLE
    # Whoever worked on the call has lost it.
    assert parts.store.commit(lease, 1, "Hello.").result == "fenced"
    assert parts.store.record_utterance(SID, 4, "hello?").wake
    assert _claim(parts.store, "claim-3").fence > lease.fence


def test_a_reply_that_a_failover_took_is_not_worded_again_where_it_was_passed_on(
    pair: ServerPair, parts: Parts
) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    lease = _claim(parts.store)
    pair.wait_until_in_step()
    pair.cut_off_replica()
    parts.store.commit(lease, 1, "Hello.")
    pair.fail_over()
    assert not parts.store.record_utterance(SID, 2, "help", after_loss=True).wake, (
        "turn 1 is owed again"
    )

    assert parts.store.failover.admit_loss(SID, 0, told=1)
    assert parts.store.failover.admit_loss(SID, 0, told=1) is False
    record = parts.record()
    assert (record.heard, record.answered, record.lost) == (2, 1, 0)
    (line,) = [entry for entry in parts.journal() if entry.event == "lost"]
    assert (line.write, line.turn, line.count) == ("committed", 1, 1)
    # What is owed besides is due at once, though its message went to somebody who is fenced.
    assert parts.leases.look().unclaimed == (SID,)
    claimed = parts.store.claim(SID, "w@test/1-aa", "claim-2")
    assert isinstance(claimed, Claimed)
    assert (claimed.record.answered, claimed.record.heard) == (1, 2)


def test_what_the_record_has_is_no_loss(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "stuck")
    before = parts.record()
    assert parts.store.failover.admit_loss(SID, 1) is False
    assert parts.record() == before
    with pytest.raises(UnknownCall):
        parts.store.failover.admit_loss("CA2", 1)
    parts.store.end(SID, "hung_up")
    with pytest.raises(CallEnded):
        parts.store.failover.admit_loss(SID, 5)


@pytest.mark.chaos
@pytest.mark.timeout(120)
def test_no_utterance_that_was_acknowledged_is_lost_in_ten_failovers(
    pair: ServerPair, parts: Parts
) -> None:
    """The primary dies in the middle of a stream of utterances, with some on their way."""
    replicas = Replicas(least=1, wait_ms=300)
    careful = CallStore(Scripts(parts.client, replicas=replicas), TIMING, 10_000)
    parts.store.open(SID)
    acknowledged, stop, heard_more = [0], threading.Event(), threading.Event()

    def speak() -> None:
        while not stop.is_set():
            try:
                careful.record_utterance(SID, acknowledged[0] + 1, "stuck", after_loss=True)
            except StoreError:
                continue
            acknowledged[0] += 1
            if acknowledged[0] % 50 == 0:
                heard_more.set()

    speaking = threading.Thread(target=speak)
    speaking.start()
    try:
        for _ in range(10):
            heard_more.clear()
            assert heard_more.wait(20), "nobody speaks"
            pair.fail_over()
            pair.follow()
            pair.wait_until_in_step()
    finally:
        stop.set()
        speaking.join()
    record = parts.record()
    assert record.lost == 0
    assert record.heard >= acknowledged[0]
    heard = [e.turn for e in record.conversation_thread if e.role == "caller"]
    assert heard == list(range(1, record.heard + 1))
