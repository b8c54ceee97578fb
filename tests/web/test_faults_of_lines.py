"""What went wrong on the lines of systems like ours; `tests/test_faults.py` has the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event

import pytest

from callflow.call.record import CallRecord
from callflow.responder import Piece
from callflow.store.result import Claimed
from tests.exchange import Exchange, Line
from tests.parts import SID, Says
from tests.relay_socket import open_socket, parameters_of, relay
from tests.waiting import wait_until

FIRST = ("Stay inside. ", "Keep away from the doors. ", "How many are you?")


@dataclass
class InSteps:
    """Says the first reply one sentence for each step that it is let go; the others at once."""

    steps: list[Event] = field(default_factory=lambda: [Event() for _ in FIRST])

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        if record.answered:
            yield Piece("I am listening.", last=True)
            return
        for number, (text, step) in enumerate(zip(FIRST, self.steps, strict=True), 1):
            assert step.wait(10)
            yield Piece(text, last=number == len(FIRST))


def test_fault_28_a_takeover_greets_nobody_again_and_forgets_nothing(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        with exchange.worker("Is anybody hurt?"):
            socket.says("we are stuck")
            assert socket.hears_reply() == "Is anybody hurt?"
        socket.says("my leg hurts")
        wait_until(lambda: exchange.parts.record().heard == 2, "nothing was heard")
        dead = exchange.parts.store.claim(SID, "dead", "claim-2")
        assert isinstance(dead, Claimed)
        exchange.parts.store.hand_back(dead.lease, "test", costs=True)
        says = Says(("Sit down. I am with you.",))
        successor = exchange.parts.worker(says)
        assert successor.run(SID) == "answered"
        assert socket.hears_reply() == "Sit down. I am with you."
    (seen,) = says.seen
    assert [(e.role, e.text) for e in seen.conversation_thread if e.turn > 0] == [
        ("caller", "we are stuck"),
        ("agent", "Is anybody hurt?"),
        ("caller", "my leg hurts"),
    ]


def test_fault_30_a_reply_that_no_line_was_left_to_speak_does_not_count_as_heard(
    exchange: Exchange, relay_line: Line
) -> None:
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    # The socket is gone before the reply is worded, and so is its web process.
    with exchange.worker(*FIRST):
        wait_until(lambda: exchange.parts.record().answered == 1, "nothing was answered")
    assert exchange.parts.record().sent is None
    back = relay_line.socket_ended("failed", ErrorCode="64105")
    assert (back.verbs[0][0].get("welcomeGreeting") or "").endswith("".join(FIRST))


@pytest.mark.parametrize("sentences", range(len(FIRST) + 1))
def test_fault_31_who_speaks_into_a_reply_at_any_stage_never_hears_it_again(
    exchange: Exchange, relay_line: Line, sentences: int
) -> None:
    responder = InSteps()
    with exchange.worker("unused") as worker, relay(exchange) as socket:
        worker.turns = exchange.parts.worker(responder)
        socket.setup()
        socket.says("we are stuck")
        heard = ""
        for step in responder.steps[:sentences]:
            step.set()
            heard += str(socket.hears()["token"])
        assert heard == "".join(FIRST[:sentences])
        if heard:
            socket.interrupts("Stay")
        socket.says("wait what")
        wait_until(lambda: exchange.parts.record().heard == 2, "the interruption was not heard")
        for step in responder.steps:
            step.set()
        said = socket.hears_reply()
        if not heard:
            # Nothing had been said: the first question is still owed its answer.
            assert said == "".join(FIRST)
            said = socket.hears_reply()
        assert said == "I am listening."
    thread = [e for e in exchange.parts.record().conversation_thread if e.turn > 0]
    assert [(e.role, e.turn) for e in thread if e.role == "caller"] == [
        ("caller", 1),
        ("caller", 2),
    ]
    assert [e.text for e in thread if e.role == "agent"] == ["".join(FIRST), "I am listening."]
    assert [e.heard for e in thread if e.role == "agent"] == ["Stay" if heard else None, None]


def test_what_a_socket_was_to_begin_with_is_not_taken_for_heard_because_time_has_passed(
    exchange: Exchange, relay_line: Line
) -> None:
    """By the clock of this web process the whole of it is said within hundredths of a second."""
    with open_socket(exchange) as socket:
        socket.says("we are stuck")
        wait_until(lambda: exchange.parts.record().heard == 1, "nothing was heard")
    with exchange.worker(*FIRST):
        wait_until(lambda: exchange.parts.record().answered == 1, "nothing was answered")
    back = relay_line.socket_ended("failed")
    assert (back.verbs[0][0].get("welcomeGreeting") or "").endswith("".join(FIRST))
    with open_socket(exchange, **parameters_of(back)) as socket:
        wait_until(lambda: exchange.parts.record().sent is not None, "it never began")
        sent = exchange.parts.record().sent
        assert sent is not None
        now_ms = exchange.parts.reader.now_ms
        wait_until(lambda: now_ms() > sent.at + 500, "the clock stands still")
    again = relay_line.follow(back, "Connect", SessionStatus="failed", ErrorCode="64105")
    assert again.says.endswith("".join(FIRST))
