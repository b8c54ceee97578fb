"""A model's server that dies or freezes, before it has begun and in the middle of a sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from callflow.responder.model import ModelError, ModelPrompt
from tests.model.asking import AMPLE_S, LATE_S, SCRIPT, at, grammar, heard, responder
from tests.model.llama import Llama
from tests.model.proxy import Proxy, proxy
from tests.responder.calls import later
from tests.waiting import wait_until

pytestmark = pytest.mark.model

ROOT = Path(__file__).parents[2]
WHILE_S = 4.0
BABBLE = grammar('"I hear you."', "[A-Z] [a-z]+ word{400}")
"""A sentence, and one that does not end before whatever is to happen has happened."""


def test_a_server_that_is_killed_in_mid_stream_is_noticed_at_once(own_llama: Llama) -> None:
    model = at(own_llama.url)
    letters = model.stream(ModelPrompt("Speak.", "Tell me a very long story."), AMPLE_S, Event())
    next(letters)
    own_llama.kill()
    with pytest.raises(ModelError) as raised:
        list(letters)
    assert raised.value.kind == "cut"
    reply = heard(responder(own_llama.url), later())
    assert reply.text == SCRIPT
    assert reply.remarks == ("model:unreachable", "model:script")
    assert reply.took_s < 1.0


def test_a_caller_hears_whole_sentences_and_the_procedure_when_the_server_is_killed(
    own_llama: Llama,
) -> None:
    with proxy(own_llama.address) as way:
        way.added = BABBLE
        pieces = responder(way.url).respond(later(), Event())
        said = next(pieces).text
        own_llama.kill()
        rest = list(pieces)
    assert said + "".join(piece.text for piece in rest) == f"I hear you. {SCRIPT}"
    assert rest[-1].remarks == ("model:cut", "model:script")


def test_a_server_that_is_frozen_costs_its_time_and_is_of_use_again_afterwards(
    llama: Llama, through: Proxy
) -> None:
    llama.freeze()
    try:
        reply = heard(responder(through.url, first_s=1.0, reply_s=2.0), later())
    finally:
        llama.thaw()
    assert reply.text == SCRIPT
    assert reply.remarks == ("model:slow", "model:script")
    assert 1.0 <= reply.took_s < 1.0 + LATE_S
    assert heard(responder(through.url), later()).remarks == ()


def test_a_server_that_freezes_in_mid_stream_leaves_whole_sentences(
    llama: Llama, through: Proxy
) -> None:
    through.added = BABBLE
    started = time.monotonic()
    pieces = responder(through.url, reply_s=WHILE_S).respond(later(), Event())
    try:
        said = next(pieces).text
        llama.freeze()
        rest = list(pieces)
    finally:
        llama.thaw()
    assert WHILE_S <= time.monotonic() - started < WHILE_S + LATE_S
    assert said + "".join(piece.text for piece in rest) == f"I hear you. {SCRIPT}"
    assert rest[-1].remarks == ("model:slow", "model:script")


def test_no_server_outlives_a_test_run_not_even_a_frozen_one(llama: Llama) -> None:
    program = (
        "import sys; from tests.model.llama import Llama, weights\n"
        "server = Llama(weights()); server.freeze()\n"
        "print(server.pid, flush=True); sys.stdin.read()"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        owner.send_signal(signal.SIGKILL)
    wait_until(lambda: _gone(pid), "the end of a server whose owner was killed")


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
