"""What becomes of the parts of a model's reply: spoken, noted, or left out.

A part is acted on as it comes. Nothing is said twice, nothing without the check's leave, nothing
after the reply is full, and a fact is kept only if the caller's words bear it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from threading import Event
from typing import Any, Final

from callflow.call.record import CallRecord
from callflow.responder.approved import approved, next_questions
from callflow.responder.learned import learned
from callflow.responder.prompt import Prompt
from callflow.responder.protocol import Piece, Responder
from callflow.responder.result import Chosen, Claim, Human, Nonsense, Part, Step, Words
from callflow.responder.scripted import plan
from callflow.responder.sentences import asks, goes_on
from callflow.responder.spoken import MOST_SENTENCES, Spoken

LEFT_OUT_AT_MOST: Final = 5

_TOLD_BY_NAME: Final = ("asked", "not_understood")
"""Reasons that people are told in words of their own when they are rung."""


class Wording:
    """The reply to the owed turn of one record, in the making."""

    def __init__(
        self, record: CallRecord, prompt: Prompt, check: Callable[[str, CallRecord], str | None]
    ) -> None:
        self.record = record
        self.prompt = prompt
        self.plan = plan(record)
        self.spoken = Spoken.so_far(record)
        self.remarks: list[str] = []
        self.over = False
        """There is no room for more, or a sentence was caught: what the model still writes is not
        read."""
        self.caught = False
        self.any_words = False
        """The model has tried to say something since `begin`."""
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

    def begin(self) -> None:
        """A model is asked."""
        self.any_words = False

    def take(self, part: Part) -> Iterator[Piece]:
        """Act on one part of a reply, and yield what is spoken of it. Raises Nonsense."""
        match part:
            case Words(text):
                if self.prompt.echoes(text):
                    raise Nonsense("an echo of the prompt")
                yield from self._say(text)
            case Chosen(name):
                yield from self._say_approved(name)
            case Step(name):
                self._named = self._questions.get(name, self._named)
            case Claim(key, value, quote):
                self._learn(key, value, quote)
            case Human(reason):
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
            self.over = self.caught = True
        else:
            yield Piece(self.spoken.add(sentence))

    def _forbidden(self, sentence: str) -> str | None:
        """The rule that forbids it, alone or as the second half of what was said before it."""
        before = self.spoken.body[-1] if self.spoken.body else ""
        rule = self._check(sentence, self.record)
        if rule is None and before and goes_on(before, sentence):
            rule = self._check(f"{before} {sentence}", self.record)
        return rule

    def _learn(self, key: str, value: str, quote: str) -> None:
        thread = self.record.conversation_thread
        said = [entry.text for entry in thread if entry.role == "caller"]
        found = learned(key, value, quote, said)
        if found is None:
            self.remarks.append("model:unfounded_fact")
        else:
            self._facts[key] = found

    def led_on(self) -> Iterator[Piece]:
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

    def scripted(self, script: Responder, stop: Event) -> Iterator[Piece]:
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
