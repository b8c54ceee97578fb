"""What a caller has heard is not said again, whatever was gone while they heard it."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from callflow.errors import StoreUnavailable
from callflow.lab.embedded_server import EmbeddedServer
from callflow.store.caller_line import ReplyPlayback
from tests.exchange import RELAY, Exchange, Line, open_exchange
from tests.parts import SID, Parts
from tests.relay_socket import open_socket, parameters_of
from tests.waiting import wait_until

pytestmark = pytest.mark.leaves_live_calls


def test_when_the_human_has_left_the_agents_last_reply_is_not_said_again(
    exchange: Exchange, relay_line: Line
) -> None:
    """By webhooks it was being said when the human came, and nobody had told how far."""
    with exchange.worker("Stay inside."):
        relay_line.says(1, "we are stuck")
        exchange.ringing.accept(SID, "ring", "CAhuman")
        back = relay_line.post("/voice/transfer-ended", {"n": 2})
    assert "Stay inside." not in (back.verbs[0][0].get("welcomeGreeting") or "")
    with exchange.worker("Help is near."), open_socket(exchange, **parameters_of(back)) as socket:
        socket.says("are you there")
        assert socket.hears_reply() == "Help is near."


def test_a_greeting_is_not_cut_off_and_said_again_because_the_server_is_gone_for_a_moment(
    parts: Parts, embedded: EmbeddedServer, redis_url: str, tmp_path: Path
) -> None:
    with open_exchange(
        parts, redis_url, tmp_path, reply_wait_s=3.5, speech_letters_per_s=5
    ) as exchange:
        line = exchange.arrived(called=RELAY)
        with exchange.worker("Stay inside, please."):
            answer = line.says(1, "we are stuck")
        assert answer.verbs[0][0].get("welcomeGreeting") == "Stay inside, please."
        os.kill(embedded.pid, signal.SIGSTOP)
        thaw = threading.Timer(2.0, os.kill, (embedded.pid, signal.SIGCONT))
        thaw.start()
        try:
            with open_socket(exchange, **parameters_of(answer)) as socket:
                thaw.join()
                with exchange.worker("Help is near."):
                    socket.says("are you there")
                    assert socket.hears_reply() == "Help is near."
        finally:
            thaw.join()


def test_a_socket_that_could_not_tell_what_was_heard_tells_it_when_it_ends(
    exchange: Exchange, relay_line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = threading.Event()

    def gone(*_: Any, **__: Any) -> str:
        failed.set()
        raise StoreUnavailable("test", "gone")

    with exchange.worker("Stay inside. ", "I am here."), open_socket(exchange) as socket:
        socket.says("we are stuck")
        assert socket.hears_reply() == "Stay inside. I am here."
        monkeypatch.setattr(ReplyPlayback, "save_played", gone)
        socket.send(type="info", name="tokensPlayed", value="Stay inside.")
        assert failed.wait(5)

    def told() -> bool:
        sent = exchange.parts.record().sent
        return sent is not None and sent.played == len("Stay inside.")

    wait_until(told, "what was heard is not in the record")
