"""The responder without a model, and what the procedures of a call allow to be said.

Every reply is a greeting (once in a call), what was just learned, the approved answers to what the
caller asked, one sentence that informs or calms, and the next question. It says nothing that waits
for a fact which is not known, nothing that a rule forbids and nothing with a gap to fill. A model
may have the same sentences spoken, by their ids, and a guard knows them from here. All of it
follows from the record, so a takeover says the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from threading import Event
from typing import Any, Final, Literal

from callflow.call.facts import answered, known
from callflow.call.record import CallRecord, Sentence, SopChunk, TurnAnalysis
from callflow.language.question_topics import UNLISTED
from callflow.responder import Piece
from callflow.responder.acknowledgement import acknowledge
from callflow.responder.phrases import disclosures, generic
from callflow.responder.sentences import heard_prefix, joined, remaining

AHEAD: Final = 3
"""So many of the next questions a model may choose from; it cannot run away from the procedure."""

BEGINNING: Final = 2
"""With so many of its own questions the gravest procedure begins."""

OF_ANY_CALL: Final = frozenset(("injured", "danger", "people", "location_confirmed", "lift_id"))
"""What has to be known of any call: who comes must know where, for how many, and how they are."""

SOME_TURNS: Final = 5
"""For so many turns a sentence that was said is not said again unasked."""

VARIED: Final = frozenset(
    (
        *("how_long", "help_sent", "fire_sent", "ambulance_sent", "police_sent", "other"),
        *("are_you_there", "what_now", "how_breathing", "how_birth", "should_leave"),
    )
)
"""What callers ask again and again: after MOST_SAID times its next answer is given."""
MOST_SAID: Final = 2
AGAIN: Final = "_again"
"""Ends the id of a sentence that says the same as another once that is worn; a rule that forbids
the one forbids both."""

CLOSINGS: Final = ("staying", "eta_unknown", "check_in", "not_hanging_up", "listening")
"""What is said in turn when there is nothing more to ask or to tell."""

_GAP = re.compile(r"\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Approved:
    """One sentence of a procedure as it would be spoken now.

    `waits_for` is what must be known before it may be said: a fact, or the value of a gap in it.
    None: it may be said. `aside`: it is of a procedure that the call is not about.
    """

    id: str
    section: Literal["ask", "say"]
    text: str
    waits_for: str | None
    aside: bool = False


def approved(record: CallRecord) -> dict[str, Approved]:
    """Return the sentences by id, in the order of the procedures; without those that are forbidden.

    An id that stands in several procedures means the first of them.
    """
    facts = known(record)
    found: dict[str, Approved] = {}
    for chunk, line in _allowed(record):
        if line.id not in found and chunk.section in ("ask", "say"):
            section: Literal["ask", "say"] = "ask" if chunk.section == "ask" else "say"
            text, missing = fill(line, facts)
            found[line.id] = Approved(line.id, section, text, missing, chunk.aside)
    return found


def conditions(record: CallRecord) -> dict[str, str | None]:
    """Return the same sentences and the approved answers to what the caller asks, with their gaps,
    and the fact that each waits for: for a guard."""
    said = [line for chunk, line in _allowed(record) if chunk.section in ("ask", "say")]
    answers = record.analysis.answers if record.analysis is not None else ()
    return {line.text: line.only_after for line in (*answers, *said)}


def next_questions(record: CallRecord) -> dict[str, int]:
    """Return the ids of the questions that may be asked now, and `sop_step` once they were.

    At most AHEAD of them, the one that is due first.
    """
    said = [
        entry.text
        for entry in record.conversation_thread
        if entry.role != "caller" and entry.turn <= record.answered
    ]
    due = _due(record, known(record), _forbidden(record), said)
    return {line.id: step for line, _, step in islice(due, AHEAD)}


def _due(
    record: CallRecord, facts: Mapping[str, Any], forbidden: set[str], said: Sequence[str]
) -> Iterator[tuple[Sentence, str, int]]:
    """The questions that may be asked now, in order, as they are spoken, and the step after each.

    None whose answer is known. What was asked, in whatever words, is not asked again: whoever did
    not answer had something else on their mind, or has told it in a way that we do not understand.
    """
    agenda = _agenda(record)
    spoken = [(line, *fill(line, facts)) for line in agenda]
    asked = {line.learns for line, text, _ in spoken if any(text in each for each in said)}
    for step, (line, text, missing) in enumerate(spoken, start=1):
        known_by_now = line.learns is not None and (
            line.learns in asked or answered(line.learns, facts)
        )
        if step <= record.sop_step or known_by_now or missing is not None:
            continue
        if _is_allowed(line, forbidden, facts) and not any(text in each for each in said):
            yield line, text, step


def _agenda(record: CallRecord) -> list[Sentence]:
    """The questions of all procedures that the call is about: how the gravest of them begins, then
    what has to be known of any call, then the others."""
    asks = [
        chunk.sentences
        for chunk in record.retrieved_sop_chunks
        if chunk.section == "ask" and not chunk.aside
    ]
    lines = [line for sentences in asks for line in sentences]
    first = list(asks[0][:BEGINNING]) if asks else []
    return list(
        {
            line.text: line
            for line in (
                *first,
                *(line for line in lines if line.learns in OF_ANY_CALL),
                *lines,
            )
        }.values()
    )


def rules(record: CallRecord) -> tuple[str, ...]:
    """Return what must never be said or suggested, each rule once."""
    lines = (
        line.text
        for chunk in record.retrieved_sop_chunks
        if chunk.section == "never"
        for line in chunk.sentences
    )
    return tuple(dict.fromkeys(lines))


def silent(record: CallRecord) -> bool:
    """Return whether a machine has called, and nothing is spoken."""
    own = [chunk for chunk in record.retrieved_sop_chunks if not chunk.aside]
    return bool(own) and all(chunk.silent for chunk in own)


def asks_back(record: CallRecord) -> bool:
    """Return whether nothing was made of the words that are owed a reply, and the caller is asked
    to say them again, in words that are fixed."""
    words = record.analysis
    return words is not None and words.turn > record.answered and words.asks_back is not None


class ScriptedResponder:
    """Implements `Responder` from the chunks in the record alone; never fails, never waits."""

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        """Yield the reply to turn `record.answered + 1`, without what its draft holds already.

        A call whose procedure is silent gets one last piece with the text "". So does a draft that
        holds the whole reply: what is left to say is nothing, what is left to tell is the step.
        """
        reply = plan_reply(record)
        draft = record.draft
        sent = draft.text if draft is not None and draft.turn == record.answered + 1 else ""
        pieces = joined(_after_draft(reply, record, sent), sent) or [""]
        for text in pieces[:-1]:
            if stop.is_set():
                return
            yield Piece(text)
        if not stop.is_set():
            yield Piece(pieces[-1], True, reply.sop_step, reply.needs_human)


@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """A whole reply: the greeting, the sentences after it, and where the call stands then."""

    greeting: tuple[str, ...]
    body: tuple[str, ...]
    sop_step: int
    needs_human: str | None


def plan_reply(record: CallRecord) -> ScriptedReply:
    """Return the whole reply to the owed turn, as if nothing of it had been said yet."""
    needs_human = record.fetches_human
    if silent(record):
        return ScriptedReply((), (), record.sop_step, needs_human)
    script = _Script(record)
    if script.words.asks_back is not None:
        asks_back = script.generic[script.words.asks_back]
        return ScriptedReply(script.greeting(), (asks_back,), record.sop_step, needs_human)
    question, step = script.question()
    if script.words.confirm is not None:
        question, step = script.words.confirm.text, record.sop_step
    body = [*script.acknowledgement(), *script.answers()]
    if not record.retrieved_sop_chunks:
        # What is right in any lift when no procedure has been found.
        body += [script.generic["stay_inside"], script.generic["staying"]]
    elif script.ends_with_answer():
        # Who has to ask twice hears no question before the answer has reached them.
        step = record.sop_step
    elif question:
        body += [question] if script.words.confirm else [*script.say(), question]
    else:
        body += script.closing()
    return ScriptedReply(script.greeting(), tuple(dict.fromkeys(body)), step, needs_human)


def answers(record: CallRecord) -> list[str]:
    """Return the approved answers to what the caller has asked in the owed turn."""
    return _Script(record).answers()


class _Script:
    """What may be said in one turn, read off the record."""

    def __init__(self, record: CallRecord) -> None:
        self.record = record
        self.turn = record.answered + 1
        self.generic = generic(record.language)
        self.facts = known(record)
        self.forbidden = _forbidden(record)
        self.words = record.analysis or TurnAnalysis(turn=0)
        if self.words.turn != self.turn:
            self.words = TurnAnalysis(turn=self.turn)
        # A reply that is being repeated after a takeover must not see itself in the thread. What a
        # person has had said need not be said again either.
        self.said = [
            (entry.turn, entry.text)
            for entry in record.conversation_thread
            if entry.role != "caller" and entry.turn < self.turn
        ]
        self.asked = bool(self.answers())

    def greeting(self) -> tuple[str, ...]:
        """Who is speaking: in the first turn, unless something of ours has opened the call."""
        if self.turn > 1 or self.said:
            return ()
        alerting = bool(self.facts.get("human.alert_started"))
        person = alerting and "person_alerted" not in self.forbidden
        disclosure = self.generic["disclosure_alerting" if person else "disclosure"]
        return self.generic["line"], disclosure

    def acknowledgement(self) -> list[str]:
        """Return one sentence of what these words told anew, so that a caller can put it right."""
        said = acknowledge(self.words.learned, self.facts, self.record.language)
        return [said] if said else []

    def answers(self) -> list[str]:
        """Return the approved answer to each question that the caller has asked.

        What is only near to the words forbids an answer where there is another, and only then.
        """
        found: dict[str, str] = {}
        own = _forbidden(self.record, aside=False)
        for forbidden in (self.forbidden, own):
            for line in self.words.answers:
                if line.answers is not None and line.answers not in found:
                    if line.id.endswith(AGAIN):
                        continue
                    again = line.answers == "say_again"
                    if text := line.text if again else self._sayable(line, forbidden):
                        found[line.answers] = text
                elif line.answers in VARIED and self._is_worn(found[line.answers]):
                    found[line.answers] = self._sayable(line, forbidden) or found[line.answers]
        answered = (found.get(name) or found.get(UNLISTED) for name in self.words.questions)
        return [text for text in answered if text]

    def ends_with_answer(self) -> bool:
        """True when nothing is asked after the answer: it was asked for again, it is what was said
        before, or it is a goodbye that nothing speaks against."""
        asked = self.words.questions
        goodbye = "goodbye" in asked and self.record.urgency in ("P4", "P5")
        return self.asked and (self.words.asked_again or "say_again" in asked or goodbye)

    def question(self) -> tuple[str, int]:
        """Return the next question and the step after it; "" when all have been asked."""
        due = _due(self.record, self.facts, self.forbidden, [text for _, text in self.said])
        for _, text, step in due:
            return text, step
        return "", max(len(_agenda(self.record)), self.record.sop_step)

    def say(self) -> list[str]:
        """Return one sentence, if there is one: news first, then what was not said before.

        Beside an answer only news is said. What was said comes again after SOME_TURNS.
        """
        usable: list[tuple[tuple[bool, int], str]] = []
        for sentence in _section(self.record, "say"):
            if text := self._sayable(sentence):
                turn = self._last_said(text)
                news = turn is None and sentence.only_after is not None
                if news or (not self.asked and self._is_fresh(text)):
                    usable.append(((not news, turn or 0), text))
        return [min(usable, key=lambda entry: entry[0])[1]] if usable else []

    def closing(self) -> list[str]:
        """What is said once the questions are used up: it calms, and promises nothing."""
        calm = self.say()
        if self.asked:
            return calm
        left_out = set(self.forbidden)
        if self.facts.get("dispatch.confirmed_with_eta"):
            left_out.add("eta_unknown")
        if self.record.urgency == "P1":
            left_out.add("check_in")  # Whoever threatens the caller hears it as well.
        ends = [self.generic[name] for name in CLOSINGS if name not in left_out]
        fresh = [text for text in ends if self._is_fresh(text)]
        oldest = sorted(ends, key=lambda text: self._last_said(text) or 0)
        return [*calm, *(fresh[:1] if calm else (fresh or oldest)[:1])]

    def _is_worn(self, text: str) -> bool:
        return sum(text in said for _, said in self.said) >= MOST_SAID

    def _is_fresh(self, text: str) -> bool:
        """True when it was not said lately: nobody is calmed by the same words again and again."""
        turn = self._last_said(text)
        return turn is None or self.turn - turn > SOME_TURNS

    def _sayable(self, line: Sentence, forbidden: set[str] | None = None) -> str:
        """Return the sentence with its gaps filled, or "" when it may not be said now."""
        if not _is_allowed(line, self.forbidden if forbidden is None else forbidden, self.facts):
            return ""
        text, missing = fill(line, self.facts)
        return text if missing is None else ""

    def _last_said(self, text: str) -> int | None:
        return next((turn for turn, said in reversed(self.said) if text in said), None)


def _after_draft(reply: ScriptedReply, record: CallRecord, sent: str) -> list[str]:
    """Return the sentences that are left; a caller who knows what we are is not greeted again."""
    whole = [*reply.greeting, *reply.body]
    greeted = any(sentence in sent for sentence in disclosures(record.language))
    if greeted and heard_prefix(whole, sent) is None:
        return remaining(reply.body, sent)
    return remaining(whole, sent)


def _section(record: CallRecord, name: str) -> list[Sentence]:
    """The lines of one section that the call is about, in order: `sop_step` counts along those of
    "ask"."""
    return [
        line
        for chunk in record.retrieved_sop_chunks
        if chunk.section == name and not chunk.aside
        for line in chunk.sentences
    ]


def _allowed(record: CallRecord) -> Iterator[tuple[SopChunk, Sentence]]:
    forbidden, facts = _forbidden(record), known(record)
    # What the call is about comes first: an id means its sentence, not that of a neighbour.
    for chunk in sorted(record.retrieved_sop_chunks, key=lambda chunk: chunk.aside):
        for line in chunk.sentences:
            if _is_allowed(line, forbidden, facts):
                yield chunk, line


def _is_allowed(line: Sentence, forbidden: set[str], facts: Mapping[str, Any]) -> bool:
    name = line.id.removesuffix(AGAIN)
    return name not in forbidden and not (line.until and facts.get(line.until))


def _forbidden(record: CallRecord, *, aside: bool = True) -> set[str]:
    """The ids of what a rule of any procedure of the call forbids; `aside`: or of one near it.

    What has to be known of any call is asked whatever is only near to the words.
    """
    own, near = (
        {
            name
            for chunk in record.retrieved_sop_chunks
            if chunk.aside == is_near
            for rule in chunk.sentences
            for name in rule.forbids
        }
        for is_near in (False, True)
    )
    needed = {line.id for line in _section(record, "ask") if line.learns in OF_ANY_CALL}
    return own | (near - needed) if aside else own


def fill(line: Sentence, facts: Mapping[str, Any]) -> tuple[str, str | None]:
    """Return the sentence with the gaps filled whose values are known, and what it waits for."""
    values = {name: _value(facts.get(name)) for name in _GAP.findall(line.text)}
    text = _GAP.sub(lambda gap: values[gap[1]] or gap[0], line.text)
    if line.only_after is not None and not facts.get(line.only_after):
        return text, line.only_after
    return text, next((name for name, value in values.items() if not value), None)


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()
