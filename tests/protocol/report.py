"""Says in words what was explored, and how a promise is broken."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.explorer import Counterexample, Exploration
from tests.protocol.liveness import Liveness
from tests.protocol.record import Answer, Record, Request


def story(found: Counterexample) -> str:
    """The way to a broken promise: one line for each step, and what the record says after it."""
    lines = [f"broken: {found.promise}"]
    for number, step in enumerate(found.steps, 1):
        told = f"{number:3}. {step.move.who} {step.move.what}"
        if step.asked is not None and step.answer is not None:
            told += f": {_asked(step.asked)} → {_answered(step.answer)}"
        lines.append(f"{told:78} | {_record(step.after.record)}")
    return "\n".join(lines)


def _asked(asked: Request) -> str:
    words = [asked.script.replace("_", " ")]
    if asked.turn:
        words.append(f"turn {asked.turn}")
    if asked.text:
        words.append(f"“{' '.join(asked.text)}”")
    if asked.fence:
        words.append(f"(fence {asked.fence})")
    return " ".join(words)


def _answered(answer: Answer) -> str:
    more = ", ".join(_facts(answer))
    return f"{answer.word} ({more})" if more else answer.word


def _facts(answer: Answer) -> Iterator[str]:
    if answer.fence:
        yield f"fence {answer.fence}"
    if answer.text:
        yield f"said already “{' '.join(answer.text)}”"
    if answer.attempts:
        yield f"attempts {answer.attempts}"


def _record(record: Record) -> str:
    words = [record.state, f"{record.answered} of {record.heard} answered", f"fence {record.fence}"]
    words += [f"w{record.holder} has it"] if record.holder else []
    words += [f"draft “{' '.join(record.draft)}”"] if record.draft else []
    words += ["to be woken"] if record.due else []
    words += ["with a human"] if record.human else []
    return ", ".join(words)


def summary(name: str, found: Exploration, live: Liveness | None) -> str:
    """One line about one exploration."""
    bound = "" if live is None else f"settled within {live.most_steps:2} steps"
    return (
        f"{name:42} {len(found.worlds):8,} worlds {found.edges:9,} steps  depth {found.depth:2}  "
        f"{found.seconds:6.1f} s  {bound}"
    )
