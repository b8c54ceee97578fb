"""The responder without a model: it walks the procedure, one question at a time.

Every reply is a greeting (once in a call), one sentence that informs or calms, and the next
question. It says nothing that waits for a fact which is not known, nothing that a rule forbids and
nothing with a gap to fill. All of it follows from the record, so a takeover says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

from callflow.call.facts import answered, known
from callflow.call.record import CallRecord, Sentence
from callflow.responder.phrases import disclosures, generic
from callflow.responder.protocol import Piece
from callflow.responder.speech import heard_prefix, joined, remaining

_GAP = re.compile(r"\{([a-z][a-z0-9_]*)\}")


class ScriptedResponder:
    """Implements `Responder` from the chunks in the record alone; never fails, never waits."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield the reply to turn `record.answered + 1`, without what its draft holds already.

        A call whose procedure is silent gets one last piece with the text "". So does a draft that
        holds the whole reply: what is left to say is nothing, what is left to tell is the step.
        """
        reply = plan(record)
        heard = _heard(record)
        sentences = _after_draft(reply, record, heard)
        pieces = joined(sentences, heard) or [""]
        for index, text in enumerate(pieces):
            if stop.is_set():
                return
            if index < len(pieces) - 1:
                yield Piece(text)
            else:
                yield Piece(text, True, reply.sop_step, reply.needs_human)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply: the greeting, the sentences after it, and where the call stands then."""

    greeting: tuple[str, ...]
    body: tuple[str, ...]
    sop_step: int
    needs_human: str | None


def plan(record: CallRecord) -> Reply:
    """Return the whole reply to the owed turn, as if nothing of it had been said yet."""
    chunks = record.retrieved_sop_chunks
    needs_human = record.fetches_human
    own = [chunk for chunk in chunks if not chunk.aside]
    if own and all(chunk.silent for chunk in own):
        return Reply((), (), record.sop_step, needs_human)
    script = _Script(record)
    question, step = script.question()
    if not chunks:
        body = script.without_procedure()
    elif question:
        body = [*script.say(1), question]
    else:
        body = script.closing()
    return Reply(tuple(script.greeting()), tuple(dict.fromkeys(body)), step, needs_human)


class _Script:
    """What may be said in one turn, read off the record."""

    def __init__(self, record: CallRecord) -> None:
        self.record = record
        self.turn = record.answered + 1
        self.generic = generic(record.language)
        self.facts = known(record)
        self.forbidden = {
            name
            for chunk in record.retrieved_sop_chunks
            for rule in chunk.sentences
            for name in rule.forbids
        }
        # A reply that is being repeated after a takeover must not see itself in the thread. What a
        # person has had said need not be said again either.
        self.said = [
            (entry.turn, entry.text)
            for entry in record.conversation_thread
            if entry.role != "caller" and entry.turn < self.turn
        ]

    def greeting(self) -> list[str]:
        """Who is speaking: in the first turn, unless something of ours has opened the call."""
        if self.turn > 1 or self.said:
            return []
        alerting = bool(self.facts.get("human.alert_started"))
        person = alerting and "person_alerted" not in self.forbidden
        return [
            self.generic["line"],
            self.generic["disclosure_alerting" if person else "disclosure"],
        ]

    def question(self) -> tuple[str, int]:
        """Return the next question and the step after it; "" when all have been asked.

        A question that an earlier procedure of the same call has asked is not asked again, nor one
        whose answer is known.
        """
        questions = self._section("ask")
        for index in range(max(self.record.sop_step, 0), len(questions)):
            question = questions[index]
            if question.learns is not None and answered(question.learns, self.facts):
                continue
            text = self._speakable(question)
            if text and self._last_said(text) is None:
                return text, index + 1
        return "", max(len(questions), self.record.sop_step)

    def say(self, count: int) -> list[str]:
        """Return up to `count` sentences: news first, then what was said the longest ago."""
        usable: list[tuple[tuple[bool, int], str]] = []
        for sentence in self._section("say"):
            if text := self._speakable(sentence):
                turn = self._last_said(text)
                news = turn is None and sentence.only_after is not None
                usable.append(((not news, turn or 0), text))
        usable.sort(key=lambda entry: entry[0])
        return [text for _, text in usable[:count]]

    def closing(self) -> list[str]:
        """What is said once the questions are used up: it calms, and promises nothing."""
        calm = self.say(1)
        ends = [name for name in ("eta_unknown", "staying") if name not in self.forbidden]
        if self.facts.get("dispatch.confirmed_with_eta") and "eta_unknown" in ends:
            ends.remove("eta_unknown")
        if ends:
            calm.append(self.generic[ends[self.turn % len(ends)]])
        return calm or [self.generic["listening"]]

    def without_procedure(self) -> list[str]:
        """What is right in any lift when no procedure has been found."""
        return [self.generic["stay_inside"], self.generic["staying"]]

    def _section(self, name: str) -> list[Sentence]:
        chunks = self.record.retrieved_sop_chunks
        return [
            line
            for chunk in chunks
            if chunk.section == name and not chunk.aside
            for line in chunk.sentences
        ]

    def _speakable(self, sentence: Sentence) -> str:
        """Return the sentence with its gaps filled, or "" when it may not be said now."""
        facts = self.facts
        if sentence.id in self.forbidden:
            return ""
        if sentence.only_after is not None and not facts.get(sentence.only_after):
            return ""
        if sentence.until is not None and facts.get(sentence.until):
            return ""
        return _filled(sentence.text, facts)

    def _last_said(self, text: str) -> int | None:
        return next((turn for turn, said in reversed(self.said) if text in said), None)


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    for name in _GAP.findall(text):
        value = facts.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return ""
        if not str(value).strip():
            return ""
    return _GAP.sub(lambda gap: str(facts[gap[1]]).strip(), text)


def _heard(record: CallRecord) -> str:
    draft = record.draft
    return draft.text if draft is not None and draft.turn == record.answered + 1 else ""


def _after_draft(reply: Reply, record: CallRecord, heard: str) -> list[str]:
    """Return the sentences that are left; a caller who knows what we are is not greeted again."""
    whole = [*reply.greeting, *reply.body]
    greeted = any(sentence in heard for sentence in disclosures(record.language))
    if greeted and heard_prefix(whole, heard) is None:
        return remaining(reply.body, heard)
    return remaining(whole, heard)
