"""Any operations in any order, with stale fences, repeated scripts and lost answers, leave the
record, its indexes and its journal as the plain-Python protocol says."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from callflow.call.deadline import Timing
from callflow.call.ladder import accepted, fresh
from callflow.call.state import CallState, Event
from callflow.call.utterance import clean
from callflow.errors import CallEnded, TurnOutOfOrder
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.leaks import keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.store.calls import CallStore
from callflow.store.keys import call_keys
from callflow.store.leases import Leases
from callflow.store.outcome import Claimed, Lease
from callflow.store.reader import CallReader
from tests.store.model import ModelCall

TIMING = Timing(
    beat_ms=250,
    stale_ms=10_000,
    owed_ms=2_500,
    turn_ms=8_000,
    abandoned_ms=3_600_000,
    completed_ttl_ms=1_800_000,
)
SID = "CA00000000000000000000000000000001"
WORKERS = st.sampled_from(["w1@a/1-aa", "w2@b/2-bb"])
TWICE = st.booleans()
TEXTS = st.text(max_size=12).map(lambda text: text.strip() or "…")


class CallProtocol(RuleBasedStateMachine):
    """One call, every operation, two workers, and a clock that only goes forward."""

    client: Client

    @initialize()
    def open(self) -> None:
        self.client.flushall()
        self.store = CallStore(Scripts(self.client), TIMING)
        self.snapshots = CallReader(self.client)
        self.watched = Leases(Scripts(self.client), TIMING)
        self.model = ModelCall(TIMING.owed_ms, TIMING.rewake_ms)
        self.now = 1_700_000_000_000
        self.leases: list[Lease] = []
        self.claims = 0
        self.store.open(SID, now_ms=self.now)
        assert self.store.open(SID, now_ms=self.now) == "known"

    def _lease(self, back: int) -> Lease:
        """The newest lease, or one that has long been lost."""
        return self.leases[-1 - back % len(self.leases)]

    @rule(ms=st.integers(0, 20_000))
    def time_passes(self, ms: int) -> None:
        self.now += ms

    @rule(ahead=st.integers(-1, 3), text=TEXTS, twice=TWICE, after_loss=st.booleans())
    def hear(self, ahead: int, text: str, twice: bool, after_loss: bool) -> None:
        turn = max(1, self.model.heard + ahead)
        for _ in range(1 + twice):
            word = self._heard(turn, text, after_loss)
            assert word == self.model.hear(turn, clean(SID, text), self.now, after_loss)

    def _heard(self, turn: int, text: str, after_loss: bool) -> str:
        try:
            return self.store.hear(SID, turn, text, after_loss=after_loss, now_ms=self.now).word
        except CallEnded:
            return "ended"
        except TurnOutOfOrder:
            return "ahead"

    @rule(worker=WORKERS, again=st.booleans())
    def claim(self, worker: str, again: bool) -> None:
        """`again`: the answer to the last claim was lost and the client sends it once more."""
        if not again or not self.claims:
            self.claims += 1
        claim_id = f"claim-{self.claims}"
        expected = self.model.claim(worker, claim_id, self.now)
        found = self.store.claim(SID, worker, claim_id, now_ms=self.now)
        if isinstance(found, Claimed):
            assert expected == "claimed"
            assert found.lease.fence == self.model.fence
            assert found.record == self.snapshots.read(SID)
            self.leases.append(found.lease)
        else:
            assert found == expected

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), twice=TWICE)
    def beat(self, back: int, twice: bool) -> None:
        lease = self._lease(back)
        for _ in range(1 + twice):
            assert self.store.beat(lease, now_ms=self.now) == [
                self.model.beat(lease.fence, self.now)
            ]

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), text=TEXTS)
    def draft(self, back: int, text: str) -> None:
        lease = self._lease(back)
        turn = self.model.answered + 1
        word = self.store.note_draft(lease, turn, text, now_ms=self.now)
        assert word == self.model.note(lease.fence, turn, text)

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), ahead=st.integers(0, 2), text=TEXTS, twice=TWICE)
    def commit(self, back: int, ahead: int, text: str, twice: bool) -> None:
        lease = self._lease(back)
        turn = self.model.answered + ahead
        for _ in range(1 + twice):
            word = self.store.commit(lease, turn, text, now_ms=self.now).word
            assert word == self.model.commit(lease.fence, turn, text, self.now)

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), costs=st.booleans(), twice=TWICE)
    def hand_back(self, back: int, costs: bool, twice: bool) -> None:
        lease = self._lease(back)
        for _ in range(1 + twice):
            released = self.store.hand_back(lease, "test", costs=costs, now_ms=self.now)
            expected = self.model.release(Event.HAND_BACK, lease.fence, costs, None, self.now)
            assert released.word == expected

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), missed=st.integers(-1, 1), twice=TWICE)
    def reclaim(self, back: int, missed: int, twice: bool) -> None:
        """`missed` < 0: the worker has beaten since the watchdog looked."""
        fence = self._lease(back).fence
        seen = (self.model.last_beat or 0) + missed
        for _ in range(1 + twice):
            released = self.store.reclaim(SID, fence, seen, "silent", now_ms=self.now)
            expected = self.model.release(Event.RECLAIM, fence, True, seen, self.now)
            assert released.word == expected

    @rule(by_holder=st.booleans(), back=st.integers(0, 3), dice=st.integers(0, 5))
    def transfer(self, by_holder: bool, back: int, dice: int) -> None:
        if dice == 0:  # The agent would have nothing more to do in most runs.
            lease = self._lease(back) if by_holder and self.leases else None
            word = self.store.handovers.transfer(SID, "asked", lease=lease, now_ms=self.now)
            fence = lease.fence if lease else None
            assert word == self.model.transfer(fence)

    @rule(dice=st.integers(0, 5), twice=TWICE)
    def accept(self, dice: int, twice: bool) -> None:
        taken = accepted(fresh("asked"), "CA0000000000000000000000000000000a")
        for _ in range((1 + twice) * (dice == 0)):
            word = self.store.handovers.accept(SID, taken, now_ms=self.now)
            assert word == self.model.transfer(None, accepts=True)

    @precondition(lambda self: self.leases)
    @rule(back=st.integers(0, 3), ahead=st.integers(0, 1))
    def understand(self, back: int, ahead: int) -> None:
        lease, turn = self._lease(back), self.model.answered + ahead
        record = self.snapshots.read(SID).model_copy(update={"understood": turn})
        word = self.store.note_understood(lease, record, now_ms=self.now).word
        assert word == self.model.understand(lease.fence, turn)

    @rule(twice=TWICE)
    def rewake(self, twice: bool) -> None:
        """Two sweeps may have found the call, and one of them wakes it; none, one that has ended
        since."""
        for _ in range(1 + twice):
            woken = self.watched.take_unclaimed([SID], now_ms=self.now)
            assert bool(woken) == self.model.rewake(self.now)

    @rule(twice=TWICE, over=st.booleans())
    def resume(self, twice: bool, over: bool) -> None:
        for _ in range(1 + twice):
            word = self.store.handovers.resume(SID, "left", over=over, now_ms=self.now)
            assert word == self.model.resume()

    @rule(dice=st.integers(0, 8), twice=TWICE)
    def end(self, dice: int, twice: bool) -> None:
        if dice == 0:
            for _ in range(1 + twice):
                word = self.store.end(SID, "hung_up", now_ms=self.now)
                assert word == self.model.end()

    @invariant()
    def the_record_is_what_the_protocol_says(self) -> None:
        record, model = self.snapshots.read(SID), self.model
        assert record.call_state == model.state
        assert (record.fence, record.heard, record.answered) == (
            model.fence,
            model.heard,
            model.answered,
        )
        assert (record.attempts, record.understood, record.lost) == (
            model.attempts,
            model.understood,
            model.lost,
        )
        assert record.assigned_worker == model.holder
        assert record.last_heartbeat == model.last_beat
        assert [(e.role, e.turn, e.text) for e in record.conversation_thread] == model.thread
        draft = (record.draft.turn, record.draft.text) if record.draft else None
        assert draft == model.draft

    @invariant()
    def the_indexes_agree_with_the_record(self) -> None:
        shard, model = call_keys(SID).shard, self.model
        over = model.state is CallState.COMPLETE
        leased = self.client.zscore(shard.leases, SID)
        assert leased == (model.last_beat if model.state is CallState.IN_PROGRESS else None)
        assert self.client.zscore(shard.owed, SID) == model.due
        assert (model.due is not None) == (model.owed and model.holder is None and not over)
        assert (self.client.zscore(shard.active, SID) is None) == over
        assert (self.client.zscore(shard.ended, SID) is not None) == over

    @invariant()
    def every_turn_was_answered_once_and_by_the_hand_that_held_it(self) -> None:
        committed = [e for e in self.snapshots.journal(SID) if e.event == "committed"]
        assert {e.turn: e.fence for e in committed} == self.model.committed_by
        assert len(committed) == len(self.model.committed_by)

    @invariant()
    def a_refused_write_leaves_a_line_in_the_journal_and_nothing_else(self) -> None:
        refused = [e for e in self.snapshots.journal(SID) if e.event == "refused"]
        assert len(refused) == self.model.refused

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.end(SID, "hung_up")
            assert keys_without_lifetime(self.client) == []


@pytest.mark.slow
def test_any_operations_in_any_order_leave_what_the_protocol_says(
    each_server: EmbeddedServer,
) -> None:
    with connect(each_server.url) as client:
        machine = type("OnServer", (CallProtocol,), {"client": client})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=60, stateful_step_count=40)
        )
