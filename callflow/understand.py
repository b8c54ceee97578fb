"""Analyses what the caller has just said: language, facts, scenarios, and their procedures.

Everything that it finds is kept in the record, so that a worker which takes the turn over need not
read the words again, and answers from the same procedures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from callflow.call.facts import merged
from callflow.call.language_tag import primary_language, same_language
from callflow.call.record import CallRecord, Sentence, SopChunk, TurnAnalysis
from callflow.call.urgency import Urgency
from callflow.call.utterance import LOW_CONFIDENCE, SURE_CONFIDENCE
from callflow.language.artefacts import made_of_silence, without_echo
from callflow.language.caller_facts import learn, plain_answer
from callflow.language.danger import all_clear, dangers, denies_danger, foreign_dangers
from callflow.language.detect import asked_for, detect
from callflow.language.lexicon import load_lexicon
from callflow.language.numbers import begun_number, is_whole_number
from callflow.language.question_topics import UNLISTED
from callflow.language.questions import questions
from callflow.language.requests import asks_for_human
from callflow.language.text import MARKS, is_han, tokenize
from callflow.procedures.document import DEFAULT_SCENARIO, SILENT_SCENARIO
from callflow.procedures.triage import (
    ASKED_ABOUT,
    BY_MACHINES,
    EVERYBODY_OUT,
    LIKELY,
    RELEASED,
    Signs,
    Triage,
    cleared,
    grounds,
    procedures,
    speaks_of_people_inside,
    suspects,
    triage,
)
from callflow.responder.phrases import generic
from callflow.responder.scripted import OF_ANY_CALL
from callflow.retrieval.engine import Engine, Hit

NEAR: Final = 3
"""So many procedures are looked for that are near to the words, beside what the call is about."""


HURT: Final = "ask_injury"
"""Who says yes to this has told a danger, in however few words."""

BELIEVED: Final = 0.6
"""Below it the likeliest procedure is a guess, where the words tell nothing else."""

MOST_ASKED_BACK: Final = 2
"""So many times in a row a caller is asked to say it again."""

LEAST_DIGITS, MOST_DIGITS, _LONG = 7, 15, 10
"""Of a telephone number; of _LONG digits it is one by itself."""

_ASKING_BACK: Final = ("say_again", "say_slower", "go_on")
_ASKING_NUMBER: Final = frozenset(("ask_callback", "ask_reporter"))
_CALMING: Final[tuple[tuple[str, Any], ...]] = (
    ("injured", False),
    ("danger", []),
    ("trapped", False),
)
_AGAIN: Final = {"injured": "hurt_again", "danger": "danger_again"}

FIRE: Final = "fire_smoke"
REPORTER: Final = "third_party_reporter"
THEY_ANSWER: Final = "ask_talk"
"""Who stands outside and says no to this has told that somebody in there may be unconscious."""

DEVICE_DIGITS: Final = 4
"""A lift's device names itself by so many digits or more; people press one."""

_OF_RELEASE: Final = frozenset(("trapped", "inside"))
"""The facts that a release changes, once it is confirmed."""

_PLAIN: Final = frozenset(("trapped", "inside", "people", "floor", "lift_id", "name"))
"""The facts that whoever is trapped tells, and that make no call another one."""

_OF_OTHERS: Final = frozenset(("tell_somebody", "may_call"))
"""Questions that name people who are elsewhere."""

_OF_FORCE: Final = frozenset(("may_open", "may_use_key", "may_climb"))
"""Who asks for leave in mid-call is told no, and forces nothing yet."""

FOREIGN: Final = "language_barrier"
"""What a call is not about that goes on in the language which the caller wanted."""


@dataclass(frozen=True, slots=True)
class Analysis:
    """What one utterance changes in the record of its call."""

    turn: int
    language: str
    triage: Triage
    grounds: Mapping[str, Urgency]
    facts: Mapping[str, Any]
    chunks: tuple[SopChunk, ...]
    words: TurnAnalysis

    def applied_to(self, record: CallRecord) -> CallRecord:
        """Return the record with it."""
        moved = {*self.triage.open} != {*record.open_scenarios}
        return record.model_copy(
            update={
                "understood": self.turn,
                "language": self.language,
                "scenario_type": self.triage.scenario,
                "open_scenarios": self.triage.open,
                "urgency": self.triage.urgency,
                "grounds": dict(self.grounds),
                "facts": dict(self.facts),
                "retrieved_sop_chunks": self.chunks,
                "analysis": self.words,
                "sop_step": 0 if moved else record.sop_step,
            }
        )


@dataclass(frozen=True, slots=True)
class Understanding:
    """Understands utterances. `engine`: gives the newest procedures and what finds them."""

    engine: Callable[[], Engine]

    def __post_init__(self) -> None:
        """Read the lexicons now (0.4 s, 4 MB), so that the first caller does not wait for them.

        In a process that forks later, the children share what was read.
        """
        asked_for("help")
        detect("help", "es")
        for question in ("ask_callback", HURT):
            learn("if we are here", "en", question)
        questions("help")

    def analyse(self, record: CallRecord) -> Analysis:
        """Return what the oldest utterance changes that is not answered yet.

        Pure: the same record gives the same, for the same documents.
        """
        engine = self.engine()
        turn = record.answered + 1
        question = asked(record)
        heard = _hear(record, turn)
        said = heard.said
        language = asked_for(said) or detect(said, primary_language(record.language))
        language = record.language if same_language(language, record.language) else language
        learned = learn(said, primary_language(language), question)
        asks, listed = _asked_for(said, turn, learned, record)
        learned = _of_this_lift(learned, asks)
        number = _continue_number(record, said, question, learned)
        taken_back = _take_back(learned) if heard.unsure else ()
        alone = signs(engine, said, language)
        found_signs = _in_context(alone, said, question, asks, learned, record)
        if alone.released and not found_signs.released:
            learned = _without_release(learned)
        doubt = _judge_doubt(record, heard, found_signs, bool(listed or learned or number))
        if doubt.doubtful and record.scenario_type in (None, SILENT_SCENARIO):
            light = (name for name, each in engine.urgencies.items() if each == "P5")
            found_signs = _without(found_signs, *light)
        confirm = _ask_once_more(record, question, taken_back, language)
        if found_signs.released and (
            heard.unsure or not _is_confirmed(found_signs, question, record)
        ):
            found_signs = replace(found_signs, released=False, in_reply=True)
            confirm = self._release_question(engine, language)
            learned = _without_release(learned)
        if language != record.language:
            found_signs = _without(found_signs, FOREIGN)
        before = Triage.of(record).without(cleared(record, learned), engine.urgencies)
        found = triage(found_signs, before, engine.urgencies)
        facts = _known(record, learned)
        suspected = suspects(found, record, found_signs, facts)
        words = TurnAnalysis(
            turn=turn,
            questions=asks,
            answers=self._answers(engine, asks, procedures(found), language, record),
            learned=_news(learned, facts, record),
            asked_again=_asks_again(asks, record),
            confirm=confirm or self._question_about(engine, suspected, record, language),
            suspected=suspected,
            doubtful=doubt.doubtful,
            unclear=doubt.unclear,
            asks_back="go_on" if number and "callback_number" not in learned else doubt.asks_back,
            number_begun=number,
        )
        return Analysis(
            turn,
            language,
            found,
            grounds(found, facts.get("danger", ()), engine.urgencies),
            facts,
            _chunks(engine, said, language, found, record),
            words,
        )

    def _release_question(self, engine: Engine, language: str) -> Sentence | None:
        return _question(engine, RELEASED, EVERYBODY_OUT, language)

    def _question_about(
        self, engine: Engine, suspected: Sequence[str], record: CallRecord, language: str
    ) -> Sentence | None:
        """What settles whether the gravest that was guessed in this turn is meant."""
        name = next((each for each in suspected if each not in record.open_scenarios), None)
        if name is None:
            return None
        return _question(engine, DEFAULT_SCENARIO, ASKED_ABOUT[name][0], language)

    def _answers(
        self,
        engine: Engine,
        asks: Sequence[str],
        wanted: Sequence[str],
        language: str,
        record: CallRecord,
    ) -> tuple[Sentence, ...]:
        if "say_again" not in asks:
            # What may not be answered as the call stands is answered as what is in no list.
            return engine.answers((*asks, UNLISTED) if asks else (), wanted, language)
        replies = [e for e in record.conversation_thread if e.role == "agent"]
        last = replies[-1].text if replies else ""
        phrases = generic(record.language)
        for opening in ("line", "disclosure", "disclosure_alerting"):
            last = last.removeprefix(phrases[opening]).strip() or last
        return (Sentence(id="said_before", text=last, answers="say_again"),) if last else ()


@dataclass(frozen=True, slots=True)
class _Heard:
    """The words of a turn that are the caller's own: `said`, "" for none.

    `nobody`: there were words, and all of them were an echo of ours or made of silence. `silent`:
    nothing came at all, no key either. `confidence`: the recogniser's, None where it gave none.
    """

    said: str
    nobody: bool
    silent: bool
    confidence: float | None

    @property
    def unsure(self) -> bool:
        """True when the recogniser doubts what it has heard."""
        return self.confidence is not None and self.confidence < SURE_CONFIDENCE


def _hear(record: CallRecord, turn: int) -> _Heard:
    entry = record.entry(turn, "caller")
    if entry is None:
        return _Heard("", False, True, None)
    ours = [e.reached for e in record.conversation_thread if e.role == "agent" and e.turn < turn]
    said = without_echo(entry.text, ours[-1]) if ours else entry.text
    if said != entry.text and plain_answer(tokenize(said), "trapped", set()):
        said = entry.text  # "Yes, there is smoke or fire."
    heard = _Heard(said, False, not entry.text and entry.digits is None, entry.confidence)
    fresh = record.scenario_type in (None, SILENT_SCENARIO)
    nobody = bool(entry.text) and (
        not said or (made_of_silence(said, heard.unsure or fresh) and not dangers(said, ""))
    )
    return replace(heard, said="", nobody=True) if nobody else heard


@dataclass(frozen=True, slots=True)
class _Doubt:
    """What of `TurnAnalysis` tells how far the words of a turn are believed."""

    doubtful: bool
    unclear: int
    asks_back: str | None


def _judge_doubt(record: CallRecord, heard: _Heard, found: Signs, told: bool) -> _Doubt:
    """How far the words are believed. `told`: they held a fact, a question or a number."""
    best = found.scored.likely[0][1] if found.scored.likely else 0.0
    placed = (
        told
        or found.in_reply
        or found.released
        or bool(found.dangers | found.answered)
        or found.for_person
        or bool(heard.said and asked_for(heard.said))
    )
    fresh = record.scenario_type in (None, SILENT_SCENARIO)
    misheard = heard.unsure and not placed and best < BELIEVED
    guess = heard.confidence is not None and heard.confidence < LOW_CONFIDENCE
    nothing = heard.confidence is None and fresh and not placed and best < LIKELY
    before = record.analysis
    unclear = 0
    if heard.nobody or heard.silent or misheard or guess or nothing:
        unclear = 1 + (before.unclear if before is not None else 0)
    asks_back = None
    if unclear <= MOST_ASKED_BACK and (misheard or (heard.nobody and not fresh)):
        asks_back = _ASKING_BACK[unclear - 1]
    return _Doubt(heard.unsure or (not placed and best < BELIEVED), unclear, asks_back)


def _take_back(learned: dict[str, Any]) -> tuple[str, ...]:
    """Take what calms down out of what was learned, and name it: a "no" to danger or to hurt."""
    calming = tuple(name for name in learned if (name, learned[name]) in _CALMING)
    for name in calming:
        del learned[name]
    return calming


def _ask_once_more(
    record: CallRecord, question: str | None, taken_back: Sequence[str], language: str
) -> Sentence | None:
    """The question in other words whose answer was not believed; None where it was put twice."""
    before = record.analysis.confirm if record.analysis is not None else None
    name = next((_AGAIN[fact] for fact in taken_back if fact in _AGAIN), None)
    if name is None or question is None or (before is not None and before.id == question):
        return None
    return Sentence(id=question, text=generic(language)[name])


def _continue_number(
    record: CallRecord, said: str, question: str | None, learned: dict[str, Any]
) -> str:
    """The digits so far of a telephone number that is not whole yet; what is whole is learned.

    People say it in parts, and none of them is a count of people or a floor.
    """
    before = record.analysis.number_begun if record.analysis is not None else ""
    if question not in _ASKING_NUMBER and not before:
        return ""
    digits = begun_number(tokenize(said))
    whole = learned.get("callback_number")
    if whole is None or (before and len(whole) < _LONG):
        whole = before + digits
    if not whole or len(whole) > MOST_DIGITS:
        return ""
    if not digits and len(whole) < LEAST_DIGITS:
        return ""
    if digits:
        for name in ("people", "floor", "lift_id"):
            learned.pop(name, None)
        if not is_whole_number(whole, in_parts=bool(before)):
            learned.pop("callback_number", None)
            return str(whole)
    learned["callback_number"] = whole
    return ""


def _asked_for(
    said: str, turn: int, learned: Mapping[str, Any], record: CallRecord
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is asked, and what of it is in the list. First words ask for help, and for nothing that
    is not in it."""
    asks = questions(said)
    if learned.get("doors_open") and FIRE in record.open_scenarios:
        asks = tuple(dict.fromkeys((*asks, "should_leave")))  # Whoever may leave is told at once.
    listed = tuple(name for name in asks if name != UNLISTED)
    return (listed if turn == 1 else asks), listed


def _news(
    learned: Mapping[str, Any], facts: Mapping[str, Any], record: CallRecord
) -> tuple[str, ...]:
    """The names of the facts that are others than before."""
    return tuple(sorted(name for name in learned if facts[name] != record.facts.get(name)))


def _asks_again(asks: Sequence[str], record: CallRecord) -> bool:
    """True when the turn before asked the same: whoever is not answered hears no question."""
    before = record.analysis
    return before is not None and not ({*asks} - {UNLISTED}).isdisjoint(before.questions)


def _in_context(
    heard: Signs,
    said: str,
    question: str | None,
    asks: Sequence[str],
    learned: Mapping[str, Any],
    record: CallRecord,
) -> Signs:
    """What the words say when it is known what was asked, and who speaks."""
    facts = {**record.facts, **learned}
    if "callback_number" in learned:
        heard = _without(heard, *BY_MACHINES)  # Machines are not rung back.
    if record.open_scenarios and not _OF_FORCE.isdisjoint(asks):
        heard = replace(heard, dangers=heard.dangers - {"forcing_doors"})
    spoken = tokenize(said)
    yes_or_no = plain_answer(spoken, "trapped", set()) if question else None
    told = heard.answered | foreign_dangers(said)
    if question == HURT and learned.get("injured") is True:
        told |= {"medical"}
    if question == THEY_ANSWER and yes_or_no is False and "inside" not in learned:
        told |= {"medical"}
    likeliest = heard.scored.likely[0][0] if heard.scored.likely else None
    reporting = REPORTER in (*record.open_scenarios, likeliest)
    if reporting and "no_answer" in load_lexicon("states").sections(spoken):
        told |= {"medical"}
    released = heard.released or (question == EVERYBODY_OUT and yes_or_no is True)
    if learned.get("trapped") is True or speaks_of_people_inside(heard.scored):
        released = False  # The second witness speaks against it.
    return replace(
        heard,
        answered=told,
        released=released,
        in_reply=bool(asks) or yes_or_no is not None or (bool(learned) and question is not None),
        trapped=facts.get("trapped") is True
        or facts.get("inside") is True
        or "in_earnest" in load_lexicon("states").sections(spoken),
        standstill="standstill" in load_lexicon("states").sections(spoken),
        machine=_called_by_machine(record),
        for_person=asks_for_human(said),
        plain=learned.get("trapped") is True and _PLAIN.issuperset(learned),
        words=_count_words(spoken.tokens),
    )


def _count_words(tokens: Sequence[str]) -> int:
    """Count words: two Chinese letters are one."""
    letters = sum(is_han(token) for token in tokens)
    return sum(token not in MARKS for token in tokens) - letters + (letters + 1) // 2


def _called_by_machine(record: CallRecord) -> bool:
    """True when the line has sent the digits by which a lift's device names itself."""
    return any(
        entry.role == "caller" and entry.digits is not None and len(entry.digits) >= DEVICE_DIGITS
        for entry in record.conversation_thread
    )


def _known(record: CallRecord, learned: Mapping[str, Any]) -> dict[str, Any]:
    """All facts, with the new ones. Whoever is alone in there and speaks is awake."""
    facts = merged(record.facts, learned)
    alone = facts.get("people") == 1 and facts.get("inside") is True
    return {"awake": True, **facts} if alone else facts


def _question(engine: Engine, scenario: str, name: str, language: str) -> Sentence | None:
    asked_of = [each for each in engine.chunks(scenario, language) if each.section == "ask"]
    lines = [line for chunk in asked_of for line in chunk.sentences]
    return next((line for line in lines if line.id == name), None)


def _of_this_lift(learned: dict[str, Any], asks: Sequence[str]) -> dict[str, Any]:
    """Who is to be told something is not in the lift."""
    if _OF_OTHERS.isdisjoint(asks):
        return learned
    return {name: value for name, value in learned.items() if name not in ("people", "vulnerable")}


def _without_release(learned: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in learned.items() if name not in _OF_RELEASE}


def _is_confirmed(heard: Signs, question: str | None, record: CallRecord) -> bool:
    """True when a release counts: nobody is known to be inside, or we asked, and it is yes."""
    return question == EVERYBODY_OUT or not record.open_scenarios or record.urgency == "P5"


def signs(engine: Engine, said: str, language: str) -> Signs:
    """What the words say of themselves, whatever the call was about before."""
    return Signs(
        scored=engine.score(said),
        dangers=dangers(said, primary_language(language)),
        released=all_clear(said),
        denied=denies_danger(tokenize(said)),
        silent=not any(letter.isalnum() for letter in said),
    )


def _without(heard: Signs, *scenarios: str) -> Signs:
    likely = tuple(each for each in heard.scored.likely if each[0] not in scenarios)
    return replace(heard, scored=replace(heard.scored, likely=likely))


def _chunks(
    engine: Engine, said: str, language: str, found: Triage, record: CallRecord
) -> tuple[SopChunk, ...]:
    """The whole procedures of what the call is about, then what is near to the words.

    A procedure that the call has begun with stays as it is, sentence for sentence, whatever the
    operator has changed since.
    """
    wanted = procedures(found)
    prior = {name: 1.0 / place for place, name in enumerate(wanted, start=1)}
    hits = engine.search(said, language, NEAR, prior)
    chunks: list[SopChunk] = []
    for name in wanted:
        chunks += _procedure(engine, name, language, record.retrieved_sop_chunks)
    if found.urgency != "P5" and not any(chunk.silent for chunk in chunks):
        chunks += _of_any_call(engine, wanted[0], language, chunks)
    for hit in hits:
        if hit.scenario not in wanted:
            chunks += _aside(engine.chunks(hit.scenario, language))
    return _scored(chunks, hits)


def _of_any_call(
    engine: Engine, scenario: str, language: str, chunks: Sequence[SopChunk]
) -> list[SopChunk]:
    """The questions that any call needs the answer to and none of its procedures asks."""
    asked_of = [chunk for chunk in chunks if chunk.section == "ask"]
    learned = {line.learns for chunk in asked_of for line in chunk.sentences}
    if not asked_of or scenario == SILENT_SCENARIO:
        return []
    plain = [each for each in engine.chunks(DEFAULT_SCENARIO, language) if each.section == "ask"]
    return [
        chunk.model_copy(update={"sop": scenario, "id": f"{chunk.id}.any", "sentences": missing})
        for chunk in plain
        if (
            missing := tuple(
                line
                for line in chunk.sentences
                if line.learns in OF_ANY_CALL - learned and line.learns != "danger"
            )
        )
    ]


def _procedure(
    engine: Engine, scenario: str, language: str, kept: Sequence[SopChunk]
) -> tuple[SopChunk, ...]:
    """The procedure as the call has it, or as it is now: at first, and in a new language."""
    own = tuple(chunk for chunk in kept if chunk.sop == scenario and not chunk.aside)
    fresh = engine.chunks(scenario, language)
    same = {chunk.language for chunk in own} == {chunk.language for chunk in fresh}
    return own if own and same else fresh


def asked(record: CallRecord) -> str | None:
    """The question that the last reply ended with: its id, None when it was none of a procedure."""
    replies = [e for e in record.conversation_thread if e.role == "agent" and e.turn > 0]
    phrases = generic(record.language)
    # Who is asked to say it again answers what was asked before.
    while replies and replies[-1].reached.endswith(tuple(phrases[name] for name in _ASKING_BACK)):
        replies.pop()
    if not replies:
        return "ask_inside"  # The greeting asks it.
    said = replies[-1].reached
    confirm = record.analysis.confirm if record.analysis is not None else None
    if confirm is not None and confirm.text in said:
        return confirm.id
    found = [
        (said.rfind(question.text), question.id)
        for chunk in record.retrieved_sop_chunks
        if chunk.section == "ask"
        for question in chunk.sentences
        if question.text in said
    ]
    return max(found)[1] if found else None


def _aside(chunks: Sequence[SopChunk]) -> list[SopChunk]:
    """What a procedure says that the call is not about: to know, and what it forbids to say."""
    return [
        chunk.model_copy(update={"aside": True})
        for chunk in chunks
        if chunk.section in ("say", "never") and not chunk.silent
    ]


def _scored(chunks: Sequence[SopChunk], hits: Sequence[Hit]) -> tuple[SopChunk, ...]:
    scores = {hit.scenario: hit.score for hit in hits}
    return tuple(
        chunk.model_copy(update={"score": round(scores.get(chunk.sop, chunk.score), 4)})
        for chunk in chunks
    )
