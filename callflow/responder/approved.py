"""The sentences that the procedures of a call bring along, and which of them may be said now.

A model may have any of these spoken letter by letter, by naming its id; a guard knows them from
here as well. Everything follows from the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from callflow.call.facts import answered, known
from callflow.call.record import CallRecord, Sentence, SopChunk

AHEAD: Final = 3
"""So many of the next questions a model may choose from; it cannot run away from the procedure."""

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
    for chunk, line in _lines(record):
        if line.id not in found and chunk.section in ("ask", "say"):
            section: Literal["ask", "say"] = "ask" if chunk.section == "ask" else "say"
            text = _GAP.sub(lambda gap: _value(facts.get(gap[1])) or gap[0], line.text)
            found[line.id] = Approved(
                line.id, section, text, _missing(line, text, facts), chunk.aside
            )
    return found


def conditions(record: CallRecord) -> dict[str, str | None]:
    """Return the same sentences, with their gaps, and the fact that each waits for: for a guard."""
    return {
        line.text: line.only_after
        for chunk, line in _lines(record)
        if chunk.section in ("ask", "say")
    }


def questions(record: CallRecord) -> tuple[Sentence, ...]:
    """Return every question that the call is about, in order: `sop_step` counts along this row."""
    return tuple(
        line
        for chunk in record.retrieved_sop_chunks
        if chunk.section == "ask" and not chunk.aside
        for line in chunk.sentences
    )


def next_questions(record: CallRecord) -> dict[str, int]:
    """Return the ids of the questions that may be asked now, and `sop_step` once they were.

    At most AHEAD of them, the one that is due first; none whose answer is known, and none that was
    asked before in these words.
    """
    facts, sayable = known(record), approved(record)
    asked = [
        entry.text
        for entry in record.conversation_thread
        if entry.role != "caller" and entry.turn <= record.answered
    ]
    due: dict[str, int] = {}
    for index, line in enumerate(questions(record)):
        one = sayable.get(line.id)
        if index < record.sop_step or line.id in due or one is None or one.waits_for is not None:
            continue
        if line.learns is not None and answered(line.learns, facts):
            continue
        if not any(one.text in said for said in asked):
            due[line.id] = index + 1
        if len(due) == AHEAD:
            break
    return due


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


def _lines(record: CallRecord) -> Iterator[tuple[SopChunk, Sentence]]:
    chunks = record.retrieved_sop_chunks
    barred = {name for chunk in chunks for rule in chunk.sentences for name in rule.forbids}
    facts = known(record)
    # What the call is about comes first: an id means its sentence, not that of a neighbour.
    for chunk in sorted(chunks, key=lambda chunk: chunk.aside):
        for line in chunk.sentences:
            if line.id not in barred and not (line.until and facts.get(line.until)):
                yield chunk, line


def _missing(line: Sentence, text: str, facts: Mapping[str, Any]) -> str | None:
    if line.only_after is not None and not facts.get(line.only_after):
        return line.only_after
    gap = _GAP.search(text)
    return gap[1] if gap else None


def _value(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return str(value).strip()
