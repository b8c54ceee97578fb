"""What went wrong with calls in systems like ours; `tests/test_faults.py` has the numbers."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from callflow import messages
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.celery import CALLS
from callflow.responder import Piece
from tests.exchange import Exchange, Line
from tests.parts import SID, TIMING, Parts, Says

ODD = {
    "polish": "zażółć gęślą jaźń",
    "arabic": "نحن عالقون في المصعد",
    "chinese": "电梯里很黑",
    "emoji": "help 🆘👨‍👩‍👧",
    "lone surrogate": "stuck \ud83d here",
    "NUL": "stuck\x00here",
    "line ends": "stuck\r\nhere\u2028and here",
    "markup": "<Say>&amp;]]></Say> \\ \" '",
    "marks": "s\u0336t\u0336u\u0336c\u0336k\u202e\ufeff",
}


def _messages(parts: Parts) -> list[dict[str, object]]:
    return [json.loads(str(line)) for queue in CALLS for line in parts.client.lrange(queue, 0, -1)]


class Deadly:
    """Its process dies in the middle: nothing is said, and the lease stays as it was."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        raise MemoryError
        yield  # It is a generator, as every responder.


def test_fault_13_a_turn_that_kills_its_workers_ends_at_a_human_and_not_in_a_loop(
    parts: Parts,
) -> None:
    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "poison")
    deaths = 0
    while parts.record().handling == "agent":
        with pytest.raises(MemoryError):
            parts.worker(Deadly(), Deadly()).run(SID)
        deaths += 1
        assert deaths <= 4, "it goes on and on"

    assert deaths == 4
    assert not parts.record().owed
    assert parts.worker(Says(("x",))).run(SID) == "idle"
    later = (parts.record().updated_at or 0) + 100 * TIMING.rewake_ms
    assert parts.watchdog.sweep("test", now_ms=later).woken == 0


def test_fault_33_every_message_carries_the_call_that_it_is_about(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[str, str]] = []
    send = messages._send

    def noted(task: str, call_sid: str, queue: str) -> messages.Wake:
        sent.append((task, call_sid))
        return send(task, call_sid, queue)

    monkeypatch.setattr(messages, "_send", noted)
    parts.intake.open(SID, alert="assist")
    parts.intake.hear(SID, 1, "there is smoke", wants_human="asked")
    parts.intake.hear(SID, 2, "there is fire")
    with pytest.raises(MemoryError):
        parts.worker(Deadly()).run(SID)
    parts.worker(Says(("Stay low.",))).run(SID)
    due = (parts.record().owed_since or 0) + TIMING.owed_ms
    parts.watchdog.sweep("test", now_ms=due)

    assert len(sent) >= 6
    assert {call_sid for _, call_sid in sent} == {SID}
    for message in _messages(parts):
        body = base64.b64decode(str(message["body"]))
        assert json.loads(body)[:2] == [[SID], {}]


@pytest.mark.parametrize("path", ["/voice/inbound", "/voice/turn"])
def test_fault_36_the_same_webhook_many_times_at_once_is_one_call_and_one_turn(
    exchange: Exchange, line: Line, path: str
) -> None:
    if path == "/voice/turn":
        line.arrives()
    with exchange.worker("Stay inside."), ThreadPoolExecutor(8) as carrier:

        def send(_: int) -> str:
            return line.says(1, "stuck").says if path == "/voice/turn" else line.arrives().says

        said = list(carrier.map(send, range(16)))

    assert len(set(said)) == 1, "each copy is answered the same"
    events = exchange.parts.events()
    assert events.count("opened") == 1
    assert events.count("heard") == events.count("committed") == int(path == "/voice/turn")


STATUSES = ("initiated", "ringing", "in-progress", "completed")


def test_fault_38_a_call_ends_once_in_whatever_order_its_statuses_arrive(
    exchange: Exchange,
) -> None:
    for number, order in enumerate(itertools.permutations(STATUSES)):
        line = exchange.arrived(call_sid=f"CA{number}")
        for status in order:
            # Twice: a copy of one status is no reason to drop the next.
            for _ in range(2):
                assert line.post("/voice/status", CallStatus=status).status == 200

        record = exchange.parts.record(line.call_sid)
        assert (record.call_state, record.outcome) == (CallState.COMPLETE, "hung_up"), order
        assert exchange.parts.events(line.call_sid).count("ended") == 1, order


def test_fault_38_statuses_at_the_same_moment_end_a_call_once(
    line: Line, exchange: Exchange
) -> None:
    line.arrives()
    with ThreadPoolExecutor(8) as carrier:
        answers = carrier.map(
            lambda status: line.post("/voice/status", CallStatus=status).status, STATUSES * 4
        )
        assert set(answers) == {200}

    assert exchange.parts.record().outcome == "hung_up"
    assert exchange.parts.events().count("ended") == 1


def test_fault_40_whatever_letters_are_heard_they_are_kept_and_answered(
    exchange: Exchange,
) -> None:
    parts = exchange.parts
    for number, (name, odd) in enumerate(ODD.items()):
        line = exchange.line(call_sid=f"CA{number}")
        parts.intake.open(line.call_sid, greeting=_storable(odd), facts={"lift": "Ż 🛗"})
        parts.intake.hear(line.call_sid, 1, odd)
        with exchange.worker(f"You said {_storable(odd)}."):
            answer = line.post("/voice/wait", {"n": 1, "k": 0})
            while answer.names[-1] == "Redirect" and "Gather" not in answer.names:
                answer = line.follow(answer, "Redirect")

        record = parts.record(line.call_sid)
        assert record.said(1, "caller") == _storable(odd), name
        assert record.said(1, "agent") == f"You said {_storable(odd)}.", name
        assert answer.says.startswith("You said"), name
        assert parts.events(line.call_sid).count("committed") == 1, name


def _storable(text: str) -> str:
    """Halves of pairs are marked, controls are spaces: nothing else is changed."""
    changed: Mapping[str, str] = {"\ud83d": "\ufffd", "\x00": " ", "\r": " ", "\n": " "}
    return "".join(changed.get(letter, letter) for letter in text)


def test_fault_40_whatever_letters_the_carrier_sends_they_are_heard(exchange: Exchange) -> None:
    with exchange.worker("Stay inside."):
        for number, (name, odd) in enumerate(ODD.items()):
            # On the wire it can only come as bytes that are no UTF-8.
            sent = odd.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            line = exchange.arrived(call_sid=f"CA{number}")
            assert line.says(1, sent).says == "Stay inside.", name
            assert exchange.parts.record(line.call_sid).said(1, "caller") == _storable(sent), name
