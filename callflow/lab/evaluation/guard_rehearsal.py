"""Measures how often the guard catches what it must, and what it must not.

Two measures. The procedures' own sentences: none may be caught where the fact that it waits for is
known, and each that waits must be caught where it is not. And lines that somebody labelled:

    {"lang": "en", "sentence": "…", "forbidden": true, "facts": {}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from callflow.call.facts import HUMAN_FACTS, OWN_FACTS, known
from callflow.call.record import CallRecord, SopChunk
from callflow.lab.evaluation.dataset import Words, lines_of
from callflow.lab.evaluation.rehearsal import open_call
from callflow.lab.evaluation.scoring import share
from callflow.procedures.library import SopLibrary
from callflow.responder.guard import Guard
from callflow.responder.phrases import generic
from callflow.responder.scripted import approved, conditions

_GAP: Final = re.compile(r"\{([a-z][a-z0-9_]*)\}")
_A_TIME: Final = "12:30"
_ALL_IS_KNOWN: Final[Mapping[str, Any]] = {
    **dict.fromkeys((*HUMAN_FACTS, *OWN_FACTS), True),
    "eta_minutes": 20,
}


@dataclass(frozen=True, slots=True)
class Spoken:
    """A sentence that somebody labelled: `forbidden` or not, while these `facts` are known."""

    where: str
    language: str
    sentence: str
    forbidden: bool
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A sentence that was judged wrongly, and the rule that was named; None: it was let pass."""

    where: str
    language: str
    sentence: str
    rule: str | None


@dataclass(frozen=True, slots=True)
class GuardFigures:
    """What the guard did with `own` sentences of the procedures and with those of a file.

    `own_caught` are false catches. `waiting` of the own sentences wait for a fact; `waiting_caught`
    were caught while it was not known, as they must. `forbidden`, `caught`, `harmless` and
    `harmless_caught` are of a file.
    """

    own: int = 0
    own_caught: int = 0
    waiting: int = 0
    waiting_caught: int = 0
    forbidden: int = 0
    caught: int = 0
    harmless: int = 0
    harmless_caught: int = 0
    mistakes: tuple[Mistake, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """For programs. Field names are a promise; shares are null where nothing was tried."""
        return {
            "own_sentences": self.own,
            "false_catches": self.own_caught,
            "waiting_sentences": self.waiting,
            "waiting_caught": self.waiting_caught,
            "forbidden": self.forbidden,
            "caught": self.caught,
            "catch_rate": share(self.caught, self.forbidden),
            "harmless": self.harmless,
            "harmless_caught": self.harmless_caught,
            "false_catch_rate": share(self.harmless_caught, self.harmless),
        }


def read_sentences(path: Path, stdin: BinaryIO, words: Words) -> list[Spoken]:
    """Return the labelled sentences of a file; `facts` may be left out. Raises LabelError."""
    found = []
    for line in lines_of(path, stdin):
        forbidden, facts = line.values.get("forbidden"), line.values.get("facts", {})
        if not isinstance(forbidden, bool):
            raise line.fail("forbidden must be true or false")
        if not isinstance(facts, dict):
            raise line.fail('facts must be an object, such as {"dispatch.requested": true}')
        language, sentence = line.language(words.languages), line.text("sentence")
        found.append(Spoken(f"{line.path}:{line.number}", language, sentence, forbidden, facts))
    return found


def judge(guard: Guard, library: SopLibrary, lines: Iterable[Spoken] = ()) -> GuardFigures:
    """Try the guard on all that the procedures have to say, and on labelled `lines`.

    Each procedure is spoken twice: in a call where all is known, and where nothing is.
    """
    counts: Counter[str] = Counter()
    mistakes: list[Mistake] = []
    for document in library.documents.values():
        for language in document.languages:
            chunks = library.chunks(document.id, language)
            facts = {**_waited_for(chunks), **_ALL_IS_KNOWN}
            told, untold = _call(language, chunks, facts), _call(language, chunks, {})
            _try_own(guard, told, untold, counts, mistakes)
    for line in lines:
        rule = guard.check(line.sentence, language=line.language, facts=line.facts, approved={})
        counts["forbidden" if line.forbidden else "harmless"] += 1
        counts["caught" if line.forbidden else "harmless_caught"] += rule is not None
        if line.forbidden is (rule is None):
            mistakes.append(Mistake(line.where, line.language, line.sentence, rule))
    return GuardFigures(**counts, mistakes=tuple(mistakes))


def _try_own(
    guard: Guard,
    told: CallRecord,
    untold: CallRecord,
    counts: Counter[str],
    mistakes: list[Mistake],
) -> None:
    waiting = {name: one for name, one in approved(untold).items() if one.waits_for is not None}
    for name, one in approved(told).items():
        where = f"{told.scenario_type}.{one.section}.{name}"
        counts["own"] += 1
        if (rule := _rule(guard, one.text, told)) is not None:
            counts["own_caught"] += 1
            mistakes.append(Mistake(where, told.language, one.text, rule))
        if name in waiting:
            counts["waiting"] += 1
            if _rule(guard, one.text, untold) is not None:
                counts["waiting_caught"] += 1
            else:
                mistakes.append(Mistake(where, told.language, one.text, None))


def _rule(guard: Guard, sentence: str, record: CallRecord) -> str | None:
    """What the guard says about a sentence at this point of a call."""
    return guard.check(
        sentence, language=record.language, facts=known(record), approved=conditions(record)
    )


def caught(guard: Guard, sentences: Iterable[str], record: CallRecord, where: str) -> list[Mistake]:
    """Return those sentences of a reply to this call that the guard would not let pass.

    What a responder says without any procedure, such as the greeting, is no model's to word.
    """
    own = dict.fromkeys(generic(record.language).values())
    return [
        Mistake(where, record.language, sentence, rule)
        for sentence in sentences
        if sentence not in own and (rule := _rule(guard, sentence, record)) is not None
    ]


def _call(language: str, chunks: tuple[SopChunk, ...], facts: Mapping[str, Any]) -> CallRecord:
    scenario = chunks[0].sop if chunks else None
    return open_call(language).model_copy(
        update={
            "scenario_type": scenario,
            "retrieved_sop_chunks": chunks,
            "facts": dict(facts),
        }
    )


def _waited_for(chunks: Iterable[SopChunk]) -> dict[str, Any]:
    """What else these chunks wait for, facts and the gaps in them: it may all come true."""
    lines = [line for chunk in chunks for line in chunk.sentences]
    gaps = {gap: _A_TIME for line in lines for gap in _GAP.findall(line.text)}
    return {**gaps, **{line.only_after: True for line in lines if line.only_after is not None}}
