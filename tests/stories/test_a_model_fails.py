"""A model that is dead, slow or wrong costs the caller a pause, and never a wrong word."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from callflow.redis.scripts import Scripts
from callflow.responder.model_stream import endpoint
from callflow.store.breaker import Breakers
from tests.responder.model_server import FORBIDDEN, Mode, ModelServer, model_server
from tests.stack_parts import Running, running

MODEL = "openai:a-model"
REPLY_S = 1.5
"""All models' time for a reply."""


@dataclass
class Scene:
    """A stack whose one model misbehaves as it is told."""

    run: Running
    model: ModelServer
    calls: int = 0

    @property
    def name(self) -> str:
        """The model as its breaker knows it."""
        return f"{MODEL}{endpoint(self.model.url)}"

    def asks(self, mode: Mode, words: str = "we are stuck between two floors") -> tuple[str, str]:
        """A new call, with the model in this mode; its CallSid, and the whole reply."""
        self.model.modes = [mode]
        # The breaker has its own tests: here each call asks the model.
        Breakers(Scripts(self.run.parts.client)).succeeded(self.name, f"before {mode}")
        self.calls += 1
        sid = f"CA{self.calls:032d}"
        self.run.caller_says(sid, 1, words)
        return sid, self.run.reply(sid, 1).text


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """One worker with one slot: it has asked the model before anything is measured."""
    with (
        model_server() as model,
        running(
            tmp_path_factory.mktemp("logs"),
            workers=1,
            slots=1,
            model=MODEL,
            model_url=model.url,
            model_first_token_s="0.5",
            model_reply_s=str(REPLY_S),
        ) as run,
    ):
        started = Scene(run, model)
        started.asks("good")
        yield started


@pytest.mark.stack
def test_a_model_words_the_reply_from_the_procedure(scene: Scene) -> None:
    sid, reply = scene.asks("good")
    assert len(scene.model.asked) >= 2
    assert "automated assistant" in reply
    assert "model:script" not in _remarks(scene, sid)


@pytest.mark.stack
@pytest.mark.parametrize("mode", ["hang", "drip", "cut", "error", "nonsense", "empty"])
def test_whatever_a_model_does_the_caller_hears_a_reply_in_time(scene: Scene, mode: Mode) -> None:
    began = time.monotonic()
    sid, reply = scene.asks(mode)
    took_s = time.monotonic() - began
    assert reply.rstrip().endswith(("?", "."))
    # The way there and back, the claim and the sweep that may have found it are in it, too.
    assert took_s < REPLY_S + 1.5
    told = _remarks(scene, sid)
    assert "model:open" not in told
    # What came before the cut ended with a question, and needs nothing behind it.
    assert ("model:cut" if mode == "cut" else "model:script") in told


@pytest.mark.stack
def test_forbidden_advice_is_never_spoken_and_stands_in_the_journal(scene: Scene) -> None:
    scene.model.says = FORBIDDEN
    sid, reply = scene.asks("good")
    assert "apart" not in reply
    assert "climb out." not in reply.replace("Please don't open the doors or climb out", "")
    assert any(remark.startswith("guard:") for remark in _remarks(scene, sid))


def _remarks(scene: Scene, sid: str) -> list[str]:
    return [e.reason or "" for e in scene.run.parts.journal(sid) if e.event == "remarked"]
