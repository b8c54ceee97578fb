"""More calls than anybody can serve: who is woken first, and what a stale message costs."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Event
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency
from callflow.celery import CALLS, TAKEOVER, TESTS, TURNS, URGENT, app
from callflow.messages import wake, wake_ring
from callflow.responder import Piece
from callflow.store.result import Claimed, Result
from tests.parts import SID, TIMING, Parts

WAITING = "we are stuck in the lift"
DANGER = "there is smoke in here, it is burning"


def _sid(number: int) -> str:
    return f"CA{number:032x}"


def _waiting(parts: Parts, queue: str) -> list[str]:
    """The calls of one queue, in the order in which a worker takes them."""
    messages = [json.loads(str(line)) for line in parts.client.lrange(queue, 0, -1)]
    bodies = [json.loads(base64.b64decode(message["body"])) for message in messages]
    return [body[0][0] for body in reversed(bodies)]


def _served(parts: Parts) -> list[str]:
    """All calls that are waiting, in the order in which a worker takes them: a blocking read of
    several lists takes from the first that has anything, as the broker is told to."""
    assert app.conf.broker_transport_options["queue_order_strategy"] == "priority"
    return [sid for queue in CALLS for sid in _waiting(parts, queue)]


def _owed(parts: Parts, sid: str, said: str = WAITING, turn: int = 1) -> None:
    if turn == 1:
        parts.intake.open(sid)
    parts.intake.hear(sid, turn, said)


def _answered(parts: Parts, sid: str, urgency: Urgency) -> None:
    """The first turn was read as so urgent, and answered."""
    _owed(parts, sid)
    claimed = parts.store.claim(sid, "w", f"claim-{sid}")
    assert isinstance(claimed, Claimed)
    read = claimed.record.model_copy(update={"urgency": urgency, "understood": 1})
    parts.store.save_analysis(claimed.lease, read)
    parts.store.commit(claimed.lease, 1, "Stay inside.")


def test_who_has_waited_longest_is_served_first(parts: Parts) -> None:
    for number in range(20):
        _owed(parts, _sid(number))

    assert _served(parts) == [_sid(number) for number in range(20)]


def test_takeovers_then_danger_then_turns_then_tests(parts: Parts) -> None:
    for number, urgency in enumerate(get_args(Urgency), 1):
        _answered(parts, _sid(number), urgency)
    parts.client.delete(*CALLS)

    for number in (5, 4, 3, 2, 1):
        _owed(parts, _sid(number), "and now", turn=2)
    wake(_sid(6), takeover=True)

    assert _served(parts) == [_sid(number) for number in (6, 2, 1, 4, 3, 5)]
    assert _waiting(parts, URGENT) == [_sid(2), _sid(1)]
    assert _waiting(parts, TESTS) == [_sid(5)]


def test_words_of_danger_go_ahead_before_anybody_has_understood_them(parts: Parts) -> None:
    _owed(parts, _sid(1))
    _owed(parts, _sid(2), DANGER)

    assert _served(parts) == [_sid(2), _sid(1)]


def test_danger_in_a_call_that_waits_already_overtakes_its_own_message(parts: Parts) -> None:
    _owed(parts, _sid(1))
    _owed(parts, _sid(2))
    _owed(parts, _sid(2), DANGER, turn=2)
    _owed(parts, _sid(1), "hello?", turn=2)

    assert _served(parts) == [_sid(2), _sid(1), _sid(2)]


@dataclass
class _Meanwhile:
    """The caller tells of danger while the reply is being worded."""

    parts: Parts

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        _owed(self.parts, record.call_sid, DANGER, turn=2)
        yield Piece("Stay inside.", last=True)


def test_danger_that_was_told_while_an_older_turn_was_answered_is_next(parts: Parts) -> None:
    _owed(parts, SID)
    worker = parts.worker(_Meanwhile(parts))
    parts.client.delete(*CALLS)

    worker.run(SID)

    assert _waiting(parts, URGENT) == [SID]
    assert _waiting(parts, TURNS) == []


def test_danger_whose_message_was_lost_is_woken_as_danger(parts: Parts) -> None:
    _owed(parts, _sid(1))
    _owed(parts, _sid(2), DANGER)
    parts.client.delete(*CALLS)

    since = parts.record(_sid(2)).owed_since or 0
    assert parts.watchdog.sweep("test", now_ms=since + TIMING.owed_ms).woken == 2

    assert _served(parts) == [_sid(2), _sid(1)]


def test_danger_that_was_answered_is_no_hurry_any_more(parts: Parts) -> None:
    _owed(parts, SID, DANGER)
    claimed = parts.store.claim(SID, "w", "claim")
    assert isinstance(claimed, Claimed)
    parts.store.commit(claimed.lease, 1, "Stay low.")
    parts.client.delete(*CALLS)

    _owed(parts, SID, "all right", turn=2)

    assert _waiting(parts, TURNS) == [SID]


def test_after_the_broker_lost_everything_the_oldest_owed_is_woken_first(parts: Parts) -> None:
    sids = [_sid(number) for number in range(40)]
    for place, sid in enumerate(sids):
        parts.store.open(sid, now_ms=1_000_000)
        parts.store.record_utterance(sid, 1, WAITING, now_ms=1_000_000 + place * 7)

    parts.watchdog.sweep("test", now_ms=1_000_000 + TIMING.owed_ms + 40 * 7)

    assert _served(parts) == sids


def test_a_backlog_is_not_made_longer_by_those_who_wait_in_it(parts: Parts) -> None:
    """A minute behind a backlog, swept five times a second, and every caller calling out again."""
    sids = [_sid(number) for number in range(50)]
    for sid in sids:
        parts.store.open(sid, now_ms=1_000_000)
        parts.store.record_utterance(sid, 1, WAITING, now_ms=1_000_000)
        wake(sid)

    for step in range(300):
        parts.watchdog.sweep("test", now_ms=1_000_000 + step * 200)
    for sid in sids:
        _owed(parts, sid, "hello?", turn=2)

    # One message each, and five more in sixty seconds.
    assert len(_served(parts)) <= 6 * len(sids)


def test_a_repeated_webhook_sends_no_message(parts: Parts) -> None:
    _owed(parts, SID)
    for _ in range(50):
        _owed(parts, SID)

    assert _served(parts) == [SID]
    assert parts.events() == ["opened", "heard"]


def test_a_stale_message_costs_one_short_question_and_changes_nothing(parts: Parts) -> None:
    idle, ended = _sid(1), _sid(2)
    _answered(parts, idle, "P3")
    _owed(parts, ended)
    parts.intake.end(ended, "hung_up")
    before = parts.record(idle), parts.events(idle), parts.events(ended)

    spent_s = []
    for number in range(300):
        began = time.perf_counter()
        assert parts.store.claim(idle, "w", f"a{number}") is Result.IDLE
        assert parts.store.claim(ended, "w", f"b{number}") is Result.ENDED
        spent_s.append((time.perf_counter() - began) / 2)

    assert sorted(spent_s)[len(spent_s) // 2] < 0.002
    assert (parts.record(idle), parts.events(idle), parts.events(ended)) == before


@given(st.lists(st.sampled_from(get_args(Urgency)), min_size=1, max_size=30))
@settings(max_examples=25)
def test_whatever_the_order_nobody_is_served_before_a_graver_kind(
    urgencies: Sequence[Urgency],
) -> None:
    kind = {"P1": 0, "P2": 0, "P3": 1, "P4": 1, "P5": 2}
    sent: list[tuple[str, str]] = []
    place = {URGENT: 0, TURNS: 1, TESTS: 2}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("callflow.messages._send", lambda _, sid, queue: sent.append((queue, sid)))
        for number, urgency in enumerate(urgencies):
            wake(_sid(number), urgency=urgency)

    served = [sid for _, sid in sorted(sent, key=lambda one: place[one[0]])]
    wanted = sorted(range(len(urgencies)), key=lambda n: kind[urgencies[n]])
    assert served == [_sid(number) for number in wanted]
    assert all(queue != TAKEOVER for queue, _ in sent)


def test_a_flood_of_hang_ups_is_cleared_away_at_once_and_nobody_else_with_it(
    parts: Parts,
) -> None:
    live = [_sid(number) for number in range(0, 2_000, 400)]
    for number in range(2_000):
        sid = _sid(number)
        wake(sid)
        if sid in live:
            parts.store.open(sid)
            parts.store.record_utterance(sid, 1, WAITING)
    began = time.monotonic()

    first = parts.watchdog.discard_stale(TURNS)

    assert time.monotonic() - began < 5
    assert first == 1_995
    assert _waiting(parts, TURNS) == live


def test_of_many_messages_about_one_call_the_first_is_kept(parts: Parts) -> None:
    for _ in range(3):
        for number in range(30):
            wake(_sid(number))
    for number in range(30):
        parts.store.open(_sid(number))
        parts.store.record_utterance(_sid(number), 1, WAITING)
    for _ in range(40):
        wake(_sid(99))

    # The next fifty are looked at, and twenty of them are not most of them.
    assert parts.watchdog.discard_stale(TURNS) == 20
    assert _waiting(parts, TURNS)[:30] == [_sid(number) for number in range(30)]


def test_a_caller_who_speaks_while_stale_messages_are_cleared_away_is_not_forgotten(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.intake.open(SID)
    wake(SID)
    unserved = parts.leases.unserved

    def speaks_meanwhile(call_sids: Sequence[str]) -> frozenset[str]:
        found = unserved(call_sids)
        if not parts.record().owed:
            parts.intake.hear(SID, 1, WAITING)
        return found

    monkeypatch.setattr(type(parts.leases), "unserved", lambda _, sids: speaks_meanwhile(sids))

    assert parts.watchdog.discard_stale(TURNS) == 1
    assert _waiting(parts, TURNS) == [SID]


def test_what_a_worker_holds_or_a_telephone_waits_for_is_judged_rightly(parts: Parts) -> None:
    held, owed = _sid(1), _sid(2)
    _owed(parts, owed)
    _owed(parts, held)
    assert isinstance(parts.store.claim(held, "w", "claim"), Claimed)
    wake_ring(_sid(3))
    parts.client.lmove(TAKEOVER, TURNS, "LEFT", "RIGHT")

    parts.watchdog.discard_stale(TURNS)

    assert _waiting(parts, TURNS) == [_sid(3), owed]
