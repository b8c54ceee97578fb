"""The responder with a model: it words the reply within its time, or the procedure's script does.

A ladder within one budget: the first model, once more if it only stumbled, the second model, the
script. Each sentence passes the check before anybody hears it; one that does not is replaced by the
procedure's own, and the script goes on from there. The caller hears a pause, never a silence, and
no sentence twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from threading import Event
from typing import Final, Protocol

from callflow.call.record import CallRecord
from callflow.responder.approved import silent
from callflow.responder.model import Failure, Model, ModelError
from callflow.responder.prompt import Prompts
from callflow.responder.protocol import Piece, Responder
from callflow.responder.result import Nonsense, Part, Reading
from callflow.responder.wording import Wording

LEAST_S: Final = 0.05
"""With less time than this left, nobody is asked any more."""

_FAIR: Final = 0.9
"""A model that got less of its time for the first letter than this is not blamed for being late."""

_STUMBLES: Final[tuple[Failure, ...]] = ("busy", "server", "unreachable", "cut")
"""Failures that are over at once and may not come twice."""


class SentenceCheck(Protocol):
    """Says which rule forbids that a sentence is spoken in a call."""

    def __call__(self, sentence: str, record: CallRecord) -> str | None:
        """Return the rule's name (a word for the journal), or None when it may be spoken."""
        ...


class Breaker(Protocol):
    """Knows which models are being left alone; all workers share it."""

    def may_ask(self, model: str, attempt: str) -> bool:
        """Whether this attempt may go ahead."""
        ...

    def succeeded(self, model: str, attempt: str) -> None:
        """It answered."""
        ...

    def failed(self, model: str, attempt: str, *, barred: bool = False) -> bool:
        """It did not; `barred`: nor will it next time."""
        ...


class ModelResponder:
    """Implements `Responder` with models, the first one first, and the script behind them."""

    def __init__(
        self,
        models: Sequence[Model],
        script: Responder,
        check: SentenceCheck,
        breaker: Breaker,
        *,
        first_token_s: float = 1.2,
        reply_s: float = 3.0,
        prompts: Prompts | None = None,
        lift: Callable[[CallRecord], str] = lambda record: "",
    ) -> None:
        """`first_token_s` is each model's time for its first letter, `reply_s` the time of all of
        them for the whole reply; `lift` tells where the caller is. Raises ValueError without any
        model, and for a time that is not positive.
        """
        if not models:
            raise ValueError("no model: the script alone is ScriptedResponder")
        if not 0 < first_token_s <= reply_s:
            raise ValueError(
                f"first_token_s is {first_token_s}, reply_s {reply_s}: both are positive, and the "
                "first letter comes before the reply is whole"
            )
        self._models = tuple(models)
        self._script = script
        self._check = check
        self._breaker = breaker
        self._first_token_s = first_token_s
        self._reply_s = reply_s
        self._prompts = Prompts.load() if prompts is None else prompts
        self._lift = lift

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield the reply to turn `record.answered + 1`, each sentence as soon as it is complete.

        Ends within `reply_s` and a moment, whatever the models do. Raises StoreError where the
        breakers cannot be reached.
        """
        if silent(record):
            yield from self._script.respond(record, stop)
            return
        deadline = time.monotonic() + self._reply_s
        prompt = self._prompts.fill(record, self._lift(record))
        wording = Wording(record, prompt, self._check)
        yield from wording.greeting()
        # A reply that a worker before us has brought to its question is whole.
        whole = wording.spoken.whole or (yield from self._worded(wording, deadline, stop))
        if stop.is_set():
            return
        yield from wording.led_on() if whole else wording.scripted(self._script, stop)
        if not stop.is_set():
            yield wording.last()

    def _worded(
        self, wording: Wording, deadline: float, stop: Event
    ) -> Generator[Piece, None, bool]:
        """Go down the ladder of models; True when one of them has worded the reply."""
        retries = 1
        for model in self._models:
            again = True
            while again and _left_s(deadline) > LEAST_S and not stop.is_set():
                attempt = secrets.token_hex(8)
                if not self._breaker.may_ask(model.name, attempt):
                    wording.remarks.append("model:open")
                    break
                fair = _left_s(deadline) >= self._first_token_s * _FAIR
                try:
                    yield from self._said_by(model, wording, deadline, stop)
                except ModelError as error:
                    wording.remarks.append(f"model:{error.kind}")
                    self._tell(error, attempt, fair)
                    if wording.by_model:
                        # What was still to come after the question is no loss.
                        return wording.spoken.whole
                    again = retries > 0 and _may_help(error, _left_s(deadline))
                    retries -= again
                else:
                    if not stop.is_set():
                        self._breaker.succeeded(model.name, attempt)
                    return not wording.caught
        return False

    def _tell(self, error: ModelError, attempt: str, fair: bool) -> None:
        """Tell all workers; but of a model that was given too little time nothing is known."""
        if error.kind == "slow" and not fair:
            return
        if error.kind == "refused" and error.status is None:
            # It answers, only not this caller: nobody else is to be kept from it.
            self._breaker.succeeded(error.model, attempt)
        else:
            self._breaker.failed(error.model, attempt, barred=error.kind == "auth")

    def _said_by(
        self, model: Model, wording: Wording, deadline: float, stop: Event
    ) -> Iterator[Piece]:
        """Speak what the model writes, sentence by sentence, until its reply is whole, full or
        caught. Raises ModelError."""
        wording.begin()
        left_s = _left_s(deadline)
        first_s = min(self._first_token_s, left_s)
        try:
            stream = model.stream(wording.prompt, left_s, stop, first_s=first_s)
            # However this ends, the endpoint is hung up on at once.
            with closing(_parts(stream, stop)) as parts:
                for part in parts:
                    yield from wording.take(part)
                    if wording.over:
                        return
        except Nonsense as nonsense:
            raise ModelError(model.name, "nonsense", nonsense.reason) from nonsense
        if not wording.any_words and not stop.is_set():
            raise ModelError(model.name, "nonsense", "not a word")


def _parts(stream: Iterator[str], stop: Event) -> Generator[Part, None, None]:
    """The parts of a reply as they become complete; what is cut off never is."""
    reading = Reading()
    try:
        for text in stream:
            yield from reading.feed(text)
        if not stop.is_set():
            yield from reading.end()
    finally:
        if isinstance(stream, Generator):
            stream.close()


def _left_s(deadline: float) -> float:
    return deadline - time.monotonic()


def _may_help(error: ModelError, left_s: float) -> bool:
    """Whether the same model, asked again at once, may answer in the time that is left."""
    return error.kind in _STUMBLES and error.retry_after_s < left_s
