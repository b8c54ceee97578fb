"""Scores how callers are understood through a speech recogniser, by how much of it was misheard.

A line is what a recogniser wrote, and what was said to it:

    {"id": "a", "lang": "en", "said": "there's smoke in here", "text": "there's smoke in hear",
     "scenario": "fire_smoke", "urgency": "P1", "confidence": 0.71, "wer": 0.25}

Labels are as in dataset.py (with `gold` the scenario is a group). `wer`, errors by word (by
character in Chinese), is counted where it is left out, and `confidence` may be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from callflow.call.utterance import parse_confidence
from callflow.lab.evaluation.dataset import Labelled, Words, label, lines_of
from callflow.lab.evaluation.rehearsal import Parts, open_call, take_turn
from callflow.lab.evaluation.scoring import share
from callflow.language.text import tokenize

BANDS: Final = {"up_to_25": 0.25, "up_to_50": 0.5, "all": float("inf")}
"""By name, up to which share of the words was misheard. Each holds the one before."""


@dataclass(frozen=True, slots=True)
class HeardLine:
    """One transcript: `labelled.utterance` was written, `errors` of the words were wrong."""

    labelled: Labelled
    errors: float
    confidence: float | None


@dataclass(frozen=True, slots=True)
class HeardAnswer:
    """What was made of it; `asked_back`: the reply asks for it again, or about danger."""

    line: HeardLine
    scenario_right: bool
    danger: bool
    asked_back: bool


def read_heard(path: Path, stdin: BinaryIO, words: Words) -> list[HeardLine]:
    """Return the transcripts of a file, in its order; `-` is read from `stdin`. Raises LabelError
    as dataset.read does, and for a line without what was said."""
    found = []
    for line in lines_of(path, stdin):
        said = line.filled("said")
        labelled = label(line, words, group_first="gold" in line.values)
        errors = line.values.get("wer")
        if errors is None:
            errors = word_errors(said, labelled.utterance)
        elif isinstance(errors, bool) or not isinstance(errors, int | float) or errors < 0:
            raise line.fail(
                "wer must be a share of the words such as 0.25; leave it out to have it counted"
            )
        sure = line.values.get("confidence")
        found.append(HeardLine(labelled, float(errors), parse_confidence(str(sure))))
    return found


def word_errors(said: str, heard: str) -> float:
    """Return the least number of words put in, left out or replaced, as a share of those said."""
    wanted, found = tokenize(said).tokens, tokenize(heard).tokens
    row = list(range(len(found) + 1))
    for at, word in enumerate(wanted, start=1):
        above, row[0] = row[0], at
        for place, other in enumerate(found, start=1):
            best = min(row[place] + 1, row[place - 1] + 1, above + (word != other))
            above, row[place] = row[place], best
    return row[-1] / max(1, len(wanted))


def try_heard(lines: Iterable[HeardLine], parts: Parts) -> list[HeardAnswer]:
    """Open a call with each transcript."""
    return [_try(line, parts) for line in lines]


def _try(line: HeardLine, parts: Parts) -> HeardAnswer:
    labelled = line.labelled
    turn = take_turn(
        open_call(labelled.language),
        labelled.utterance,
        parts.understanding,
        parts.responder,
        line.confidence,
    )
    record = turn.record
    worked_on = {record.scenario_type, *record.open_scenarios} - {None}
    right = {labelled.scenario, *labelled.also} - {None}
    groups = {parts.own.corpus.groups.get(name or "") for name in worked_on}
    fits = bool(worked_on & right) or (labelled.scenario is None and labelled.group in groups)
    analysis = record.analysis
    asks = analysis is not None and (analysis.asks_back is not None or analysis.confirm is not None)
    return HeardAnswer(line, fits, record.urgency == "P1", asks)


def report_heard(answers: Sequence[HeardAnswer], *, wrong: bool = False) -> dict[str, Any]:
    """Return the figures by band. Field names are a promise; null is a number without a basis."""
    report: dict[str, Any] = {
        name: _figures([each for each in answers if each.line.errors <= most])
        for name, most in BANDS.items()
    }
    if wrong:
        report["wrong"] = [
            {
                "id": each.line.labelled.id,
                "label": each.line.labelled.label,
                "wer": each.line.errors,
                "danger_missed": each.line.labelled.danger is True and not each.danger,
                "asked_back": each.asked_back,
                "utterance": each.line.labelled.utterance,
            }
            for each in answers
            if not each.scenario_right or (each.line.labelled.danger is True and not each.danger)
        ]
    return report


def _figures(answers: Sequence[HeardAnswer]) -> dict[str, Any]:
    grave = [each for each in answers if each.line.labelled.danger is True]
    missed = [each for each in grave if not each.danger]
    safe = [each for each in answers if each.line.labelled.danger is False]
    return {
        "n": len(answers),
        "scenario_accuracy": share(sum(each.scenario_right for each in answers), len(answers)),
        "danger_recall": share(len(grave) - len(missed), len(grave)),
        "missed_asked_back": share(sum(each.asked_back for each in missed), len(missed)),
        "danger_false_alarms": share(sum(each.danger for each in safe), len(safe)),
    }
