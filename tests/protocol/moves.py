"""The parts that every step is made of: who did what, the world after it, what the caller heard.

A request to the server is two steps: it is executed, and its answer arrives. Between the two
anything may happen; the answer may be lost (the client asks again), and a copy that the client has
given up may be executed at any later time: the network holds data of a closed connection for long.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from tests.protocol.record import Answer, Record, Request, Rules, Text
from tests.protocol.server import execute
from tests.protocol.world import Caller, Worker, World

MOST_MESSAGES = 2
"""More messages for one call than workers change nothing. While one is there, no sweep sends
another: it could as well be a doubled one, which counts as a fault."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is explored. `faults` in one run, all kinds together; `late` copies at once;
    `poison`: each turn may kill or fail its worker as often as it likes, at no cost."""

    utterances: int = 2
    pieces: int = 2
    faults: int = 2
    late: int = 1
    workers: int = 2
    replicated: bool = False
    min_replicas: int = 0
    poison: bool = False


class Move(NamedTuple):
    """Who did what: enough to find the step again in the same world under other names."""

    who: str
    what: str


class Step(NamedTuple):
    """One step and the world after it. `asked` and `answer`: the script that was executed.

    `fair`: it happens by itself sooner or later, whatever else goes wrong no more."""

    move: Move
    after: World
    fair: bool = False
    asked: Request | None = None
    answer: Answer | None = None
    broken: str | None = None
    """The promise that the caller has seen broken."""


SAID_AGAIN = "what the caller has heard is not said again"
ONCE = "each utterance is answered once and in order"


@dataclass(frozen=True, slots=True)
class Asking:
    """Asks the server under some rules, up to some size."""

    rules: Rules = field(default_factory=Rules)
    size: Size = field(default_factory=Size)

    def ask(
        self, world: World, move: Move, asked: Request, *, fair: bool = False
    ) -> tuple[Answer, World, Step]:
        """Execute one request: the answer, the world with the new record, and the step so far."""
        tick = world.tick + 1
        answer, record = execute(world.record, asked, tick, self.rules)
        caller, broken = overheard(world.caller, asked, world.record, record)
        after = world._replace(record=record, caller=caller, tick=tick)
        return answer, after, Step(move, after, fair, asked, answer, broken)

    def may_be_late(self, world: World) -> bool:
        return world.faults > 0 and len(world.late) < self.size.late


def overheard(
    caller: Caller, asked: Request, before: Record, after: Record
) -> tuple[Caller, str | None]:
    """What the caller hears of a write, and the promise that it breaks."""
    match asked.script:
        case "draft" if after.draft != before.draft and asked.turn == caller.listens_to:
            if begins(caller.heard, asked.text):
                return caller, None
            broken = None if begins(asked.text, caller.heard) else SAID_AGAIN
            return caller._replace(heard=asked.text), broken
        case "commit" if len(after.thread) > len(before.thread):
            if asked.turn != caller.listens_to:
                return caller, ONCE if asked.turn > caller.listens_to else None
            broken = None if begins(asked.text, caller.heard) else SAID_AGAIN
            return caller._replace(listens_to=asked.turn + 1, heard=()), broken
        case "hear" if after.lost > before.lost:
            return caller._replace(listens_to=asked.turn, heard=()), None
    if after.human and after.heard >= caller.listens_to:
        # A human has heard it, and answers.
        return caller._replace(listens_to=after.heard + 1, heard=()), None
    return caller, None


def begins(text: Text, with_text: Text) -> bool:
    return text[: len(with_text)] == with_text


def woken(world: World, wakes: bool) -> World:
    """A message more, where the step before wakes somebody."""
    if not wakes or world.messages >= MOST_MESSAGES:
        return world
    return world._replace(messages=world.messages + 1)


def replaced(world: World, slot: int, worker: Worker) -> World:
    workers = world.workers
    return world._replace(workers=(*workers[:slot], worker, *workers[slot + 1 :]))


def less(world: World) -> World:
    return world._replace(faults=world.faults - 1)


def fault(
    world: World,
    who: str,
    what: str,
    *,
    worker: tuple[int, Worker] | None = None,
    **changes: object,
) -> Step:
    after = world if worker is None else replaced(world, *worker)
    changed = after._replace(faults=world.faults - 1, **changes)  # type: ignore[arg-type]
    return Step(Move(who, what), changed)
