"""The responder with models: one of them words the reply within its time, or the script does.

A ladder within one budget: the first model, once more if it only stumbled, the second model, the
script. Each sentence passes the check before anybody hears it. One that does not is left out, with
what refers to it; the procedure's answer to what the caller asked takes its place, and the model's
other sentences are judged each on their own. Where none of them is left the script goes on. The
caller hears a pause, never a silence, and no sentence twice.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Final, Protocol

from callflow.call.record import CallRecord, Draft
from callflow.responder import Piece, Responder
from callflow.responder.model import Failure, Model, ModelError, ModelPrompt, Prompts
from callflow.responder.model_reply import (
    ApprovedChosen,
    FactClaimed,
    HumanAsked,
    Nonsense,
    OwnWords,
    QuestionAsked,
    ReplyParser,
    ReplyPart,
    verify_fact,
)
from callflow.responder.phrases import disclosures, generic
from callflow.responder.scripted import (
    ScriptedReply,
    answers,
    approved,
    asks_back,
    next_questions,
    plan_reply,
    silent,
)
from callflow.responder.sentences import (
    asks,
    contains,
    goes_on,
    joined,
    leads_on,
    plain,
    refers_back,
    remaining,
    split,
)

LEAST_S: Final = 0.05
"""With less time than this left, nobody is asked any more."""

MOST_SENTENCES: Final = 3
MOST_CHARS: Final = 350
"""A reply is listened to in a noisy lift by somebody who is afraid: about 20 s at the very most."""

LEFT_OUT_AT_MOST: Final = 5

_FAIR: Final = 0.9
"""A model that got less of its time for the first letter than this is not blamed for being late."""

_STUMBLES: Final[tuple[Failure, ...]] = ("busy", "server", "unreachable", "cut")
"""Failures that are over at once and may not come twice."""

_TOLD_BY_NAME: Final = ("asked", "not_understood")
"""Reasons that people are told in words of their own when they are rung."""


SentenceCheck = Callable[[str, CallRecord], str | None]
"""The name of the rule (a word for the journal) that forbids a sentence in a call, or None."""


class Breaker(Protocol):
    """Knows which models are being left alone; all workers share it."""

    def may_ask(self, model: str, attempt: str) -> bool:
        """Return whether this attempt may go ahead."""

    def succeeded(self, model: str, attempt: str) -> None:
        """The model answered."""

    def failed(self, model: str, attempt: str, *, barred: bool = False) -> bool:
        """It did not; `barred`: nor will it next time."""


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
        if silent(record) or asks_back(record):
            yield from self._script.respond(record, stop)
            return
        deadline = time.monotonic() + self._reply_s
        prompt = self._prompts.fill(record, self._lift(record))
        reply = ReplyBuilder(record, prompt, self._check)
        yield from reply.greeting()
        # A reply that a worker before us has brought to its question is whole.
        whole = reply.spoken.whole or (yield from self._ask_models(reply, deadline, stop))
        if stop.is_set():
            return
        yield from reply.lead_on() if whole else reply.continue_by_script(self._script, stop)
        if not stop.is_set():
            yield reply.last()

    def _ask_models(
        self, reply: ReplyBuilder, deadline: float, stop: Event
    ) -> Generator[Piece, None, bool]:
        """Go down the ladder of models; True when one of them has worded the reply."""
        retries = 1
        for model in self._models:
            again = True
            while again and _left_s(deadline) > LEAST_S and not stop.is_set():
                attempt = secrets.token_hex(8)
                if not self._breaker.may_ask(model.name, attempt):
                    reply.remarks.append("model:open")
                    break
                fair = _left_s(deadline) >= self._first_token_s * _FAIR
                try:
                    yield from self._ask_model(model, reply, deadline, stop)
                except ModelError as error:
                    reply.remarks.append(f"model:{error.kind}")
                    self._report(error, attempt, fair)
                    if reply.by_model:
                        # What was still to come after the question is no loss.
                        return reply.spoken.whole
                    again = retries > 0 and _may_help(error, _left_s(deadline))
                    retries -= again
                else:
                    if not stop.is_set():
                        self._breaker.succeeded(model.name, attempt)
                    return reply.caught is None
        return False

    def _report(self, error: ModelError, attempt: str, fair: bool) -> None:
        """Tell all workers; but of a model that was given too little time nothing is known."""
        if error.kind == "slow" and not fair:
            return
        if error.kind == "refused" and error.status is None:
            # It answers, only not this caller: nobody else is to be kept from it.
            self._breaker.succeeded(error.model, attempt)
        else:
            self._breaker.failed(error.model, attempt, barred=error.kind == "auth")

    def _ask_model(
        self, model: Model, reply: ReplyBuilder, deadline: float, stop: Event
    ) -> Iterator[Piece]:
        """Speak what the model writes, sentence by sentence, until its reply is whole or full.
        Raises ModelError."""
        reply.any_words = False
        left_s = _left_s(deadline)
        first_s = min(self._first_token_s, left_s)
        try:
            stream = model.stream(reply.prompt, left_s, stop, first_s=first_s)
            # However this ends, the endpoint is hung up on at once.
            with closing(_parts(stream, stop)) as parts:
                for part in parts:
                    yield from reply.take(part)
                    if reply.over:
                        return
        except Nonsense as nonsense:
            raise ModelError(model.name, "nonsense", nonsense.reason) from nonsense
        if not reply.any_words and not stop.is_set():
            raise ModelError(model.name, "nonsense", "not a word")


def _parts(stream: Iterator[str], stop: Event) -> Generator[ReplyPart, None, None]:
    """The parts of a reply as they become complete; what is cut off never is."""
    parser = ReplyParser()
    try:
        for text in stream:
            yield from parser.feed(text)
        if not stop.is_set():
            yield from parser.end()
    finally:
        if isinstance(stream, Generator):
            stream.close()


def _left_s(deadline: float) -> float:
    return deadline - time.monotonic()


def _may_help(error: ModelError, left_s: float) -> bool:
    """Whether the same model, asked again at once, may answer in the time that is left."""
    return error.kind in _STUMBLES and error.retry_after_s < left_s


class ReplyBuilder:
    """The reply to the owed turn of one record, in the making."""

    def __init__(self, record: CallRecord, prompt: ModelPrompt, check: SentenceCheck) -> None:
        self.record = record
        self.prompt = prompt
        self.plan = plan_reply(record)
        self.spoken = SpokenReply.so_far(record)
        self.remarks: list[str] = []
        self.over = False
        """There is no room for more, or too much had to be left out: what the model still writes is
        not read."""
        self.caught: str | None = None
        """What the check forbade, while nothing has been spoken after it."""
        self.any_words = False
        """The model that is asked now has tried to say something."""
        self._check = check
        self._sentences = approved(record)
        self._questions = next_questions(record)
        self._named: int | None = None
        self._reason: str | None = None
        self._facts: dict[str, Any] = {}
        self._by_script = False
        self._left_out = 0
        self._taken_over = len(self.spoken.body)

    @property
    def by_model(self) -> bool:
        """Whether the caller has heard a model in this turn since we took it up."""
        return len(self.spoken.body) > self._taken_over

    def greeting(self) -> Iterator[Piece]:
        """Who is speaking, where the caller does not know it yet."""
        for piece in self.spoken.greeting(self.plan, self.record.language):
            yield Piece(piece)

    def take(self, part: ReplyPart) -> Iterator[Piece]:
        """Act on one part of a reply, and yield what is spoken of it. Raises Nonsense."""
        match part:
            case OwnWords(text):
                if self.prompt.echoes(text):
                    raise Nonsense("an echo of the prompt")
                yield from self._say(text)
            case ApprovedChosen(name):
                yield from self._say_approved(name)
            case QuestionAsked(name):
                self._named = self._questions.get(name, self._named)
            case FactClaimed(key, value, quote):
                self._learn(key, value, quote)
            case HumanAsked(reason):
                self._reason = reason if reason in _TOLD_BY_NAME else f"model: {reason}"

    def _say_approved(self, name: str) -> Iterator[Piece]:
        sentence = self._sentences.get(name)
        if sentence is None or sentence.waits_for is not None:
            self.remarks.append("model:unknown_sentence" if sentence is None else "model:too_early")
            return
        self._named = self._questions.get(name, self._named)
        yield from self._say(sentence.text)

    def _say(self, sentence: str) -> Iterator[Piece]:
        self.any_words = True
        if self.spoken.full:
            self.over = True
        elif self.spoken.holds(sentence) or not self.spoken.has_room(sentence):
            # A better one may follow; a model that rambles is not listened to for ever.
            self._left_out += 1
            self.over = self._left_out >= LEFT_OUT_AT_MOST
        elif rule := self._forbidden(sentence):
            self.remarks.append(f"guard:{rule}")
            self.caught = sentence
            self._left_out += 1
            self.over = self._left_out >= LEFT_OUT_AT_MOST
            yield from self._answer_by_script()
        else:
            self.caught = None
            yield Piece(self.spoken.add(sentence))

    def _answer_by_script(self) -> Iterator[Piece]:
        """Answer what the caller asked, where the model's own answer may have been left out."""
        for answer in answers(self.record):
            if not self.spoken.holds(answer) and self.spoken.has_room(answer):
                yield Piece(self.spoken.add(answer))

    def _forbidden(self, sentence: str) -> str | None:
        """The rule that forbids it, alone or as the second half of what stood before it."""
        before = self.spoken.body[-1] if self.spoken.body else ""
        if self.caught is not None and refers_back(sentence):
            before = self.caught
        elif not (before and goes_on(before, sentence)):
            before = ""
        rule = self._check(sentence, self.record)
        if rule is None and before:
            rule = self._check(f"{before} {sentence}", self.record)
        return rule

    def _learn(self, key: str, value: str, quote: str) -> None:
        thread = self.record.conversation_thread
        said = [entry.text for entry in thread if entry.role == "caller"]
        found = verify_fact(key, value, quote, said)
        if found is None:
            self.remarks.append("model:unfounded_fact")
        else:
            self._facts[key] = found

    def lead_on(self) -> Iterator[Piece]:
        """End a model's reply with the procedure's next sentence, if it leaves the caller alone."""
        asked = self.spoken.asked
        rest = [
            line
            for line in self.plan.body
            if not self.spoken.holds(line) and not (asked and asks(line))
        ]
        if rest and not self.spoken.leads_on:
            self._by_script = not asked
            yield Piece(self.spoken.add(rest[-1]))

    def continue_by_script(self, script: Responder, stop: Event) -> Iterator[Piece]:
        """Go on with the procedure's own sentences, as many as there is room for, and at least the
        last; a second question is not asked."""
        self.remarks.append("model:script")
        asked = self.spoken.asked
        self._by_script = not asked
        pieces = script.respond(self.spoken.as_draft(self.record), stop)
        sentences = [piece.text.strip() for piece in pieces]
        fit = [line for line in sentences if line and not (asked and asks(line))]
        room = max(MOST_SENTENCES - len(self.spoken.body), 1)
        for sentence in fit[-room:]:
            yield Piece(self.spoken.add(sentence))

    def last(self) -> Piece:
        """The end of the reply: nothing more to say, and where the call stands."""
        return Piece(
            "",
            last=True,
            sop_step=self._step(),
            needs_human=self.plan.needs_human or self._reason,
            facts=dict(self._facts),
            remarks=tuple(dict.fromkeys(self.remarks)),
        )

    def _step(self) -> int:
        """How far along the procedure the call is: by what was asked, not by what was announced."""
        body = self.plan.body
        if self._by_script or (body and asks(body[-1]) and self.spoken.holds(body[-1])):
            return self.plan.sop_step
        if self._named is not None and self.spoken.asked:
            return self._named
        return self.record.sop_step


@dataclass(slots=True)
class SpokenReply:
    """What has been said of the reply to one turn, the greeting not counted."""

    text: str
    """All of it, from the first letter: a takeover begins with what was heard."""
    body: list[str] = field(default_factory=list)
    """The sentences after the greeting."""

    @classmethod
    def so_far(cls, record: CallRecord) -> SpokenReply:
        """What the caller has been sent of the reply that is owed."""
        draft = record.draft
        text = draft.text if draft is not None and draft.turn == record.answered + 1 else ""
        words = generic(record.language)
        greeting = {plain(words["line"]), *(plain(line) for line in disclosures(record.language))}
        return cls(text, [line for line in split(text) if plain(line) not in greeting])

    def greeting(self, reply: ScriptedReply, language: str) -> list[str]:
        """The pieces of the greeting that are left; whoever knows what we are is not greeted."""
        if any(line in self.text for line in disclosures(language)):
            return []
        pieces = joined(remaining(reply.greeting, self.text), self.text)
        self.text += "".join(pieces)
        return pieces

    def add(self, sentence: str) -> str:
        """Say a sentence; returns it with the space before it."""
        (piece,) = joined([sentence], self.text)
        self.text += piece
        self.body.append(sentence)
        return piece

    def holds(self, sentence: str) -> bool:
        """Whether it has been said already in this reply, in whatever signs and letters."""
        return contains(plain(self.text), plain(sentence))

    @property
    def full(self) -> bool:
        """Whether as much has been said as somebody can listen to."""
        return len(self.body) >= MOST_SENTENCES or self._letters >= MOST_CHARS

    def has_room(self, sentence: str) -> bool:
        """Whether it may still be said: it fits, and the last one there is room for leads on."""
        if not self.body:
            return True
        if self.full or self._letters + len(sentence) > MOST_CHARS:
            return False
        return len(self.body) < MOST_SENTENCES - 1 or leads_on(sentence)

    @property
    def _letters(self) -> int:
        return sum(map(len, self.body))

    @property
    def asked(self) -> bool:
        """Whether a question has been asked."""
        return any(asks(sentence) for sentence in self.body)

    @property
    def leads_on(self) -> bool:
        """Whether the caller knows what to do now."""
        return bool(self.body) and leads_on(self.body[-1])

    @property
    def whole(self) -> bool:
        """Whether nothing more need be said: it ends with a question."""
        return bool(self.body) and asks(self.body[-1])

    def as_draft(self, record: CallRecord) -> CallRecord:
        """The record as another responder finds it that goes on from here."""
        if not self.text:
            return record
        return record.model_copy(update={"draft": Draft(turn=record.answered + 1, text=self.text)})
