"""Any requests in any order, with stale leases, repeated scripts and lost answers, leave the
record, its indexes and its journal as the model says: on a server of each kind."""

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

from callflow.errors import TurnOutOfOrder
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.store.keys import call_keys
from callflow.store.reader import CallReader
from tests.protocol.real import SID, RealCall, ms_of
from tests.protocol.record import COMPLETE, Record, Request
from tests.protocol.server import execute
from tests.protocol.sizes import RULES

TWICE = st.booleans()
BACK = st.integers(0, 3)


class AnyOrder(RuleBasedStateMachine):
    """One call, every request, two workers, and a clock that only goes forward."""

    client: Client

    @initialize()
    def open(self) -> None:
        self.real = RealCall(self.client)
        self.reader = CallReader(self.client)
        self.record = Record()
        self.tick = 1
        self.leases: list[Request] = []
        self.claims = 0
        self.committed: dict[int, int] = {}
        self.refused = 0
        self.real.open()
        assert self.real.store.open(SID) == "again"

    def ask(self, asked: Request, twice: bool = False) -> str:
        """Ask both, once or twice, and compare what they say."""
        for _ in range(1 + twice):
            before = self.record
            expected, self.record = execute(before, asked, self.tick, RULES)
            assert self.real.ask(asked, self.tick) == expected, (before, asked)
            if asked.script == "commit" and len(self.record.thread) > len(before.thread):
                self.committed[asked.turn] = asked.fence
            # A beat of the holder that comes too late leaves no line.
            beats = asked.script == "beat" and self._holds(before, asked)
            if asked.script in ("beat", "understand", "draft", "commit") and not beats:
                self.refused += expected.word in ("fenced", "ended")
        return expected.word

    @staticmethod
    def _holds(record: Record, asked: Request) -> bool:
        return (asked.fence, asked.claim) == (record.fence, record.claim)

    def _lease(self, script: str, back: int) -> Request:
        """A request with the newest lease, or with one that has long been lost."""
        return self.leases[-1 - back % len(self.leases)]._replace(script=script)

    @rule(ticks=st.integers(0, 20))
    def time_passes(self, ticks: int) -> None:
        self.tick += ticks

    @rule(ahead=st.integers(-1, 3), twice=TWICE)
    def hear(self, ahead: int, twice: bool) -> None:
        self.ask(Request("hear", turn=max(1, self.record.heard + ahead)), twice)

    @rule(ahead=st.integers(2, 3))
    def hear_out_of_order(self, ahead: int) -> None:
        """Whoever does not know that the turns between were heard is refused."""
        if self.record.state != COMPLETE:
            with pytest.raises(TurnOutOfOrder):
                self.real.store.record_utterance(SID, self.record.heard + ahead, "stuck")

    @rule(worker=st.integers(1, 2), again=st.booleans())
    def claim(self, worker: int, again: bool) -> None:
        """`again`: the answer to the last claim was lost and the client sends it once more."""
        if not again or not self.claims:
            self.claims += 1
        asked = Request("claim", name=worker, claim=self.claims)
        if self.ask(asked) == "ok":
            self.leases.append(asked._replace(fence=self.record.fence, name=self.record.holder))

    @precondition(lambda self: self.leases)
    @rule(back=BACK, twice=TWICE)
    def beat(self, back: int, twice: bool) -> None:
        self.ask(self._lease("beat", back), twice)

    @precondition(lambda self: self.leases)
    @rule(back=BACK, ahead=st.integers(0, 1))
    def understand(self, back: int, ahead: int) -> None:
        lease = self._lease("understand", back)
        self.ask(lease._replace(turn=self.record.answered + ahead))

    @precondition(lambda self: self.leases)
    @rule(back=BACK, pieces=st.integers(1, 3))
    def draft(self, back: int, pieces: int) -> None:
        lease = self._lease("draft", back)
        text = tuple(f"{number}{'ab'[lease.name - 1]}" for number in range(1, pieces + 1))
        self.ask(lease._replace(turn=self.record.answered + 1, text=text))

    @precondition(lambda self: self.leases)
    @rule(back=BACK, ahead=st.integers(0, 2), twice=TWICE)
    def commit(self, back: int, ahead: int, twice: bool) -> None:
        turn, lease = self.record.answered + ahead, self._lease("commit", back)
        self.ask(lease._replace(turn=turn, text=("1a", "2b")), twice)

    @precondition(lambda self: self.leases)
    @rule(back=BACK, costs=st.booleans(), twice=TWICE)
    def hand_back(self, back: int, costs: bool, twice: bool) -> None:
        self.ask(self._lease("hand_back", back)._replace(costs=costs), twice)

    @precondition(lambda self: self.leases)
    @rule(back=BACK, missed=st.integers(-1, 1), twice=TWICE)
    def reclaim(self, back: int, missed: int, twice: bool) -> None:
        """`missed` < 0: the worker has beaten since the watchdog looked."""
        fence, seen = self._lease("", back).fence, self.record.beat + missed
        self.ask(Request("reclaim", fence=fence, seen=seen, costs=True), twice)

    @rule(by_holder=st.booleans(), back=BACK, dice=st.integers(0, 5))
    def transfer(self, by_holder: bool, back: int, dice: int) -> None:
        if dice == 0:  # The agent would have nothing more to do in most runs.
            held = by_holder and self.leases
            self.ask(self._lease("transfer", back) if held else Request("transfer"))

    @rule(dice=st.integers(0, 5), twice=TWICE)
    def accept(self, dice: int, twice: bool) -> None:
        if dice == 0:
            self.ask(Request("accept"), twice)

    @rule(over=st.booleans(), twice=TWICE)
    def resume(self, over: bool, twice: bool) -> None:
        self.ask(Request("resume", costs=over), twice)

    @rule()
    def rewake(self) -> None:
        self.tick += 20  # Past the longest time between two wakes.
        self.ask(Request("rewake"))

    @rule(dice=st.integers(0, 8), twice=TWICE)
    def end(self, dice: int, twice: bool) -> None:
        if dice == 0:
            self.ask(Request("end"), twice)

    @invariant()
    def the_record_and_its_indexes_are_what_the_model_says(self) -> None:
        assert self.real.read() == self.record
        shard, over = call_keys(SID).shard, self.record.state == COMPLETE
        assert (self.client.zscore(shard.active, SID) is None) == over
        assert (self.client.zscore(shard.ended, SID) is not None) == over

    @invariant()
    def the_journal_tells_who_answered_and_who_was_refused(self) -> None:
        lines = self.reader.journal(SID)
        committed = [line for line in lines if line.event == "committed"]
        assert {line.turn: line.fence for line in committed} == self.committed
        assert len(committed) == len(self.committed)
        assert sum(line.event == "refused" for line in lines) == self.refused

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.real.store.end(SID, "hung_up", now_ms=ms_of(self.tick))
            assert keys_without_lifetime(self.client) == []


@pytest.mark.slow
def test_any_requests_in_any_order_leave_what_the_model_says(each_server: EmbeddedServer) -> None:
    with connect(each_server.url) as client:
        machine = type("OnServer", (AnyOrder,), {"client": client})
        run_state_machine_as_test(
            machine, settings=settings(max_examples=60, stateful_step_count=40)
        )
        client.flushall()
