"""Judges whole calls: what went wrong in which turn, and whether a call is passed as a whole.

A call is passed when what it needs is known or was asked for, a person was fetched in time, every
direct question was answered in its reply, nothing told was asked again, nothing forbidden was said,
no reply was empty, the urgency never fell wrongly, and it ended as it must. All else is counted and
fails no call. Each call is tried several times, the first time as it stands and then with a
recogniser's errors in the caller's words: what counts is that it is passed every time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from callflow.call.facts import answered, known
from callflow.call.record import CallRecord, Sentence
from callflow.lab.evaluation.evaluate import caught
from callflow.lab.evaluation.rehearsal import Parts
from callflow.lab.evaluation.scoring import share
from callflow.lab.evaluation.whole_calls import (
    NEEDS,
    CallTurn,
    WholeCall,
    confidence,
    mishear,
    rehearse_call,
    word_error,
)
from callflow.procedures.triage import Triage, procedures
from callflow.responder.scripted import fill, silent

CAREFUL: Final = ("unanswered", "asked_again", "empty_replies", "false_down", "forbidden_spoken")
FAILING: Final = frozenset((*CAREFUL, "late_human", "never_asked", "ended_wrongly"))
"""The faults of which one is enough to fail a call."""
FAULTS: Final = (
    *CAREFUL,
    *("late_human", "never_asked", "ended_wrongly", "false_up", "moved", "wrong_procedure"),
    *("repeated", "mixed_address", "long_replies"),
)
"""All faults, as reports name them."""

NEAR_TURNS: Final = 5
"""A sentence that comes again within so many turns, unasked, is repeated."""
MOST_TIMES: Final = 2
"""One that comes oftener in a call is repeated, even if it answers."""
MOST_WORDS: Final = 45
MOST_HAN: Final = 90
"""A reply of more takes longer to hear than people listen."""

_CHILD: Final = "child_alone"
"""The procedure that speaks to children as one does."""
_HAN: Final = re.compile(r"[\u4e00-\u9fff]")
_FAMILIAR: Final = {
    "es": re.compile(
        r"\b(?:tú|te|ti|tu|tus|contigo|puedes|estás|tienes|eres|quieres|sabes|oyes|ves|dime|"
        r"quédate|siéntate|no toques|no te)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("你"),
}
_POLITE: Final = {
    "es": re.compile(
        r"\b(?:usted|ustedes|dígame|díganme|quédese|quédense|siéntese|siéntense|espere|respire|"
        r"no cuelgue|no toque|aléjese|sujétese|su|sus|le oigo)\b",
        re.IGNORECASE,
    ),
    "zh": re.compile("您"),
}


@dataclass(frozen=True, slots=True)
class CallFault:
    """One thing that went wrong in a `run` (from 1) of a call: in `turn`, 0 for the whole call."""

    run: int
    turn: int
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class TriedCall:
    """A call after its runs; `turns` are those of each run, in order."""

    call: WholeCall
    runs: tuple[tuple[CallTurn, ...], ...]
    faults: tuple[CallFault, ...]

    def passed(self, run: int) -> bool:
        """True when nothing in that run fails the call."""
        return not any(each.run == run and each.kind in FAILING for each in self.faults)


def try_calls(calls: Iterable[WholeCall], parts: Parts, runs: int) -> list[TriedCall]:
    """Rehearse each call `runs` times, and judge every run."""
    tried = []
    for call in calls:
        rehearsed = [
            tuple(rehearse_call(heard_in_run(call, run), parts)) for run in range(1, runs + 1)
        ]
        faults = [
            fault
            for run, turns in enumerate(rehearsed, start=1)
            for fault in judge_call(call, turns, parts, run)
        ]
        tried.append(TriedCall(call, tuple(rehearsed), tuple(faults)))
    return tried


def heard_in_run(call: WholeCall, run: int) -> WholeCall:
    """Return the call as a recogniser hears it in this run: the first time, rightly."""
    lines = []
    for turn, line in enumerate(call.lines, start=1):
        seed = f"{call.id}/{run}/{turn}"
        says = mishear(line.says, call.language, word_error(run), seed)
        if says != line.says:
            line = replace(line, says=says, misheard=True, confidence=confidence(line.says, says))
        lines.append(line)
    return replace(call, lines=tuple(lines))


def judge_call(
    call: WholeCall, turns: Sequence[CallTurn], parts: Parts, run: int = 1
) -> list[CallFault]:
    """Return all that went wrong in one run of a call."""
    found: list[CallFault] = []
    told: dict[str, Any] = {}
    spoken: list[list[str]] = []
    for number, each in enumerate(turns, start=1):
        if not each.line.misheard:
            told.update(each.line.tells)
        kinds = (
            *_answering(each, told, parts),
            *_moving(each),
            *_speaking(call, each, spoken, parts),
        )
        found += [CallFault(run, number, kind, detail) for kind, detail in kinds]
        spoken.append(each.turn.sentences)
    found += [CallFault(run, number, "mixed_address", text) for number, text in _mixed(call, turns)]
    return found + [CallFault(run, 0, kind, detail) for kind, detail in _ending(call, turns)]


Found = Iterator[tuple[str, str]]


def _answering(each: CallTurn, told: Mapping[str, Any], parts: Parts) -> Found:
    """Questions without an answer, and questions of ours whose answer has been given."""
    record, reply = each.turn.record, each.turn.reply
    if not reply and each.line.says and not (silent(record) and each.turn.signs.machine):
        yield "empty_replies", each.line.says
    for names in each.line.asks:
        if not any(text in reply for text in _answers(names, record, parts)):
            yield "unanswered", f"{'|'.join(names)} in {each.line.says!r}"
    facts = {**known(record), **told}
    asked = {each.text: each.learns for each in _questions(record) if each.text in reply}
    again = any("say_again" in names for names in each.line.asks)
    for text, learns in asked.items():
        if learns and not again and answered(learns, facts):
            yield "asked_again", f"{learns} by {text!r}"


def _answers(names: Sequence[str], record: CallRecord, parts: Parts) -> list[str]:
    """The sentences any of which answers: those that were found, and those that are approved."""
    facts = known(record)
    found = record.analysis.answers if record.analysis is not None else ()
    wanted = procedures(Triage.of(record))
    approved = parts.engine.answers(names, wanted, record.language)
    lines = [line for line in (*found, *approved) if line.answers in names or "say_again" in names]
    filled = (fill(line, facts) for line in lines)
    return [text for text, missing in filled if text and missing is None]


def _questions(record: CallRecord) -> Iterator[Sentence]:
    for chunk in record.retrieved_sop_chunks:
        if chunk.section == "ask":
            yield from chunk.sentences


def _moving(each: CallTurn) -> Found:
    """What the words did to the procedure and to the urgency, and should not have done."""
    line, before, after = each.line, each.before, each.turn.record
    if line.scenario:
        if (after.scenario_type or "") not in line.scenario:
            yield "wrong_procedure", f"{after.scenario_type}, not {'|'.join(line.scenario)}"
    elif line.danger is False and before.scenario_type not in (None, after.scenario_type):
        yield "moved", f"from {before.scenario_type} to {after.scenario_type} by {line.says!r}"
    urgency = after.urgency
    if line.danger is False and urgency == "P1" != before.urgency:
        yield "false_up", f"P1 by {line.says!r}"
    allowed = line.urgency or (("P1",) if line.danger else ())
    if allowed and urgency not in allowed:
        up = urgency is not None and urgency < min(allowed)
        yield ("false_up" if up else "false_down"), f"{urgency}, not {'|'.join(allowed)}"


def _speaking(
    call: WholeCall, each: CallTurn, before: Sequence[Sequence[str]], parts: Parts
) -> Found:
    """What is wrong about the words of a reply, whatever they answer."""
    record, reply = each.turn.record, each.turn.reply
    asked = {name for names in each.line.asks for name in names}
    asked.update(record.analysis.questions if record.analysis is not None else ())
    answering = set(_answers(sorted(asked), record, parts)) if asked else set()
    lately = {text for sentences in before[-(NEAR_TURNS - 1) :] for text in sentences}
    for text in each.turn.sentences:
        times = sum(text in sentences for sentences in before)
        third = times >= MOST_TIMES and "say_again" not in asked
        if third or (text in lately and text not in answering):
            yield "repeated", text
    if len(reply.split()) > MOST_WORDS or len(_HAN.findall(reply)) > MOST_HAN:
        yield "long_replies", reply
    for mistake in caught(parts.guard, each.turn.sentences, record, call.where):
        if mistake.sentence not in answering:
            yield "forbidden_spoken", f"{mistake.sentence!r} ({mistake.rule})"
    for stretch in call.never:
        if stretch.lower() in reply.lower():
            yield "forbidden_spoken", stretch


def _mixed(call: WholeCall, turns: Sequence[CallTurn]) -> Iterator[tuple[int, str]]:
    """The replies that address the caller in another way than the one before, or in both ways."""
    familiar, polite = _FAMILIAR.get(call.language), _POLITE.get(call.language)
    if familiar is None or polite is None:
        return
    last = None
    for number, each in enumerate(turns, start=1):
        reply = each.turn.reply
        forms = {name for name, form in (("t", familiar), ("v", polite)) if form.search(reply)}
        if _CHILD in each.turn.record.open_scenarios:
            continue  # What all procedures share is worded for grown-ups.
        if len(forms) == 2 or (last is not None and forms and last not in forms):
            yield number, reply
        last = next(iter(forms), last)


def _ending(call: WholeCall, turns: Sequence[CallTurn]) -> Found:
    """What is missing when the call is over."""
    if call.human is not None and not turns[min(call.human, len(turns)) - 1].alerted:
        yield "late_human", f"nobody was fetched by turn {call.human}"
    record = turns[-1].turn.record
    facts = known(record)
    asked = {
        question.learns
        for each in turns
        for question in _questions(each.turn.record)
        if question.text in each.turn.reply
    }
    for need in call.needs:
        if not any(fact in facts or fact in asked for fact in NEEDS[need]):
            yield "never_asked", need
    misheard = any(each.line.misheard for each in turns)
    facts_due: Mapping[str, Any] = {} if misheard else call.ends["facts"]
    for name, value in facts_due.items():
        has = record.facts.get(name)
        if not (set(value) <= set(has or ()) if isinstance(value, list) else has == value):
            yield "ended_wrongly", f"{name} is {has!r}, not {value!r}"
    for key, is_now in (("urgency", record.urgency), ("scenario", record.scenario_type)):
        # What was misheard calms no call down: it may stay as grave as it was, and is not raised.
        kept = misheard and (key == "scenario" or _stays_grave(is_now, call.ends[key]))
        if call.ends[key] and is_now not in call.ends[key] and not kept:
            yield "ended_wrongly", f"{key} is {is_now}, not {'|'.join(call.ends[key])}"


def _stays_grave(urgency: str | None, wanted: Sequence[str]) -> bool:
    return urgency is not None and "P1" < urgency < max(wanted, default="")


@dataclass(frozen=True, slots=True)
class CallFigures:
    """Counts over one run of calls; `answered` is the share of `questions` that were answered."""

    calls: int
    passed: float | None
    turns: int
    questions: int
    answered: float | None
    asked_again: int
    empty_replies: int
    forbidden_spoken: int
    late_human: int
    never_asked: int
    ended_wrongly: int
    harmless: int
    moved: int
    wrong_procedure: int
    false_up: int
    false_down: int
    repeated: int
    mixed_address: int
    long_replies: int


def run_figures(tried: Sequence[TriedCall], run: int) -> CallFigures:
    """Return the numbers of one run."""
    counts = Counter(fault.kind for each in tried for fault in each.faults if fault.run == run)
    lines = [line for each in tried for line in each.call.lines]
    questions = sum(len(line.asks) for line in lines)
    unanswered = counts.pop("unanswered", 0)
    others = {kind: counts[kind] for kind in FAULTS if kind != "unanswered"}
    return CallFigures(
        calls=len(tried),
        passed=share(sum(each.passed(run) for each in tried), len(tried)),
        turns=len(lines),
        questions=questions,
        answered=share(questions - unanswered, questions),
        harmless=sum(line.danger is False for line in lines),
        **others,
    )


def report_calls(tried: Sequence[TriedCall], *, wrong: bool = False) -> dict[str, Any]:
    """Return the whole report. Field names are a promise; null is a number without a basis.

    The figures are those of the first run; `pass_at_1` is the share of calls that it passed,
    `pass_all` of those that every run passed. `wrong`: with the words of turns that went wrong.
    """
    runs = len(tried[0].runs) if tried else 0
    languages = sorted({each.call.language for each in tried})
    return {
        **_figures(tried, runs),
        "runs": runs,
        "per_language": {
            language: _figures([each for each in tried if each.call.language == language], runs)
            for language in languages
        },
        "per_run": [
            {"word_error": word_error(run), **asdict(run_figures(tried, run))}
            for run in range(1, runs + 1)
        ],
        "failed": [_as_failed(each, wrong) for each in tried if _failed_runs(each)],
    }


def _figures(tried: Sequence[TriedCall], runs: int) -> dict[str, Any]:
    found = asdict(run_figures(tried, 1))
    every = sum(not _failed_runs(each) for each in tried)
    return {"pass_at_1": found.pop("passed"), "pass_all": share(every, len(tried)), **found}


def _failed_runs(tried: TriedCall) -> list[int]:
    return [run for run in range(1, len(tried.runs) + 1) if not tried.passed(run)]


def _as_failed(tried: TriedCall, wrong: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "where": tried.call.where,
        "id": tried.call.id,
        "lang": tried.call.language,
        "failed_runs": _failed_runs(tried),
        "why": [
            {"run": each.run, "turn": each.turn, "fault": each.kind, "detail": each.detail}
            for each in tried.faults
            if each.kind in FAILING
        ],
    }
    if wrong:
        row["transcripts"] = {
            str(run): [[each.line.says, each.turn.reply] for each in tried.runs[run - 1]]
            for run in row["failed_runs"]
        }
    return row
