"""What was true of a call at every moment, told by its journal: what a board may show of it.

It is worked out from the lines alone, and not with the code that the board uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord


@dataclass(frozen=True)
class State:
    """Since `at` (server's clock, ms) this was so."""

    at: int
    word: str
    worker: str


def states(journal: Sequence[JournalEntry]) -> list[State]:
    """Each state of a call, in the order in which they came."""
    found: list[State] = []
    heard = answered = 0
    worker, given_up, human = "", False, False
    for entry in journal:
        match entry.event:
            case "heard":
                heard = entry.turn or 0
            case "claimed":
                worker, given_up = short(entry.worker or ""), False
            case "committed":
                answered, worker = entry.turn or 0, ""
            case "reclaimed" | "handed_back":
                worker, given_up = "", True
            case "transferred" | "accepted":
                human, worker, given_up, answered = True, "", False, heard
            case "resumed":
                human = False
            case "ended":
                found.append(State(entry.at, "ended", ""))
                return found
        if human:
            word = "with a human"
        elif worker:
            word = "answering"
        elif given_up:
            word = "recovering"
        else:
            word = "queued" if heard > answered else "listening"
        found.append(State(entry.at, word, worker))
    return found


def between(found: Sequence[State], from_ms: int, to_ms: int) -> set[tuple[str, str]]:
    """The words and workers that were true at any moment of that time."""
    ends = [*(one.at for one in found[1:]), to_ms + 1]
    return {
        (one.word, one.worker)
        for one, end in zip(found, ends, strict=True)
        if one.at <= to_ms and end >= from_ms
    }


def could_be_last(record: CallRecord, words: str, from_ms: int, to_ms: int) -> bool:
    """Whether these were the last words at a moment of that time, or a part of a reply that was
    under way."""
    thread = record.conversation_thread
    for number, entry in enumerate(thread):
        end = thread[number + 1].at if number + 1 < len(thread) else to_ms
        if entry.at <= to_ms and end >= from_ms and entry.text == words:
            return True
        # It grows before it is stored; what was stored last is the whole of it.
        begun = thread[number - 1].at if number else 0
        under_way = entry.role == "agent" and begun <= to_ms and end >= from_ms
        if under_way and entry.text.startswith(words):
            return True
    draft = record.draft
    return draft is not None and draft.text.startswith(words)


def short(worker: str) -> str:
    """As the board names a worker."""
    node, _, process = worker.partition("/")
    return f"{node.partition('@')[0]}/{process.partition('-')[0]}"
