"""The whole of the model: the record, whoever works on it, and what is under way between them.

A world is a value. Two worlds that differ only in the names of numbers (which process it is, which
fence exactly) are the same world, so `canonical` renames them, and the search ends although fences
grow for ever.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from callflow.call.limits import HUMAN_AT_ATTEMPTS
from tests.protocol.record import COMPLETE, Answer, Entry, Record, Request, Text

STALE, CURRENT = 1, 2
"""Canonical fences: every one that is smaller than the record's, and the record's own; 0, none."""

OTHER = 9
"""The canonical name of every process that is gone, and of every claim that nobody waits for."""

UP, FROZEN, DEAD = "up", "frozen", "dead"


class Worker(NamedTuple):
    """A worker process, idle or with the one request that it is at. `answer`: the request was
    executed, and this is under way. What a turn knows stands in its request."""

    name: int
    health: str = UP
    request: Request | None = None
    answer: Answer | None = None


class Watchdog(NamedTuple):
    """The sweep that is running: what it is about to do with a lease that it has looked at."""

    request: Request | None = None
    answer: Answer | None = None


class Web(NamedTuple):
    """Whoever hears the caller. `turn` is in flight until it is acknowledged."""

    turn: int = 0
    answer: Answer | None = None


class Caller(NamedTuple):
    """What the outside world knows: how many utterances were acknowledged, which reply the caller
    listens to, and how much of it they have heard."""

    acknowledged: int = 0
    listens_to: int = 1
    heard: tuple[str, ...] = ()


class World(NamedTuple):
    """Everything at one moment. `replica` is None where nothing is replicated; `late` are copies of
    requests that the network still holds; `faults` is how many may still happen."""

    record: Record
    workers: tuple[Worker, ...]
    watchdog: Watchdog = Watchdog()
    web: Web = Web()
    caller: Caller = Caller()
    messages: int = 0
    late: tuple[Request, ...] = ()
    replica: Record | None = None
    faults: int = 0
    tick: int = 0
    names: int = 0
    claims: int = 0


IDLE = Watchdog()
SILENT = Web()


def fresh(*, workers: int = 2, faults: int = 0, replicated: bool = False) -> World:
    """A call that was just opened, and workers that wait."""
    record = Record()
    return World(
        record,
        tuple(Worker(number + 1) for number in range(workers)),
        replica=record if replicated else None,
        faults=faults,
        names=workers,
    )


OVER = World(Record(state=COMPLETE), ())
"""All worlds whose call is complete: nothing happens in them any more."""


def canonical(world: World) -> World:
    """The same world with the smallest names: equal for all that behave alike.

    Which of two workers is the first does not matter either, so the letters of what they have
    worded change with their places.
    """
    record, replica, workers = world.record, world.replica, world.workers
    lowest = record.fence if replica is None else min(record.fence, replica.fence)
    requests = [one.request for one in workers if one.request is not None]
    if world.watchdog.request is not None:
        requests.append(world.watchdog.request)
    requests += world.late
    ranks = [_rank(one, record) for one in workers]
    if len(set(ranks)) < len(ranks):
        ranks = [(*rank, *_traces(world, slot)) for slot, rank in enumerate(ranks)]
    order = sorted(range(len(workers)), key=ranks.__getitem__)
    names = {0: 0}
    claims = {0: 0}
    for number, slot in enumerate(order, 1):
        names[workers[slot].name] = number
        asked = workers[slot].request
        if asked is not None and asked.claim:
            claims.setdefault(asked.claim, len(claims))
    for asked in world.late:
        claims.setdefault(asked.claim, len(claims))
    beats = {one.seen for one in requests if one.script == "reclaim"}
    if beats:
        beats.add(record.beat)
        if replica is not None:
            beats.add(replica.beat)
    ticks = {tick: number for number, tick in enumerate(sorted(beats), 1)}
    letters = (
        None
        if order == sorted(order)
        else {"abcdef"[slot]: "abcdef"[number] for number, slot in enumerate(order)}
    )
    return _Renaming(CURRENT - lowest, names, claims, ticks, letters).world(world, order)


def _rank(worker: Worker, record: Record) -> tuple[Any, ...]:
    """What orders workers, without their names."""
    asked, answer = worker.request, worker.answer
    if asked is None:
        return worker.health, "", worker.name == record.holder
    fence = asked.fence or (0 if answer is None else answer.fence)
    return (
        worker.health,
        asked.script,
        fence == record.fence,
        worker.name == record.holder,
        asked.turn,
        len(asked.text),
        "" if answer is None else answer.word,
        asked.claim == record.claim,
        asked.costs,
    )


def _traces(world: World, slot: int) -> tuple[Any, ...]:
    """What of a worker stands elsewhere in the world: it orders those that are at the same."""
    name, mine = world.workers[slot].name, "abcdef"[slot]
    record, replica = world.record, world.replica or world.record
    own = world.workers[slot].request
    texts = [world.caller.heard, record.draft, replica.draft, *(one.text for one in world.late)]
    texts += [own.text] if own is not None else []
    return (
        replica.holder == name,
        own is not None and own.claim == replica.claim,
        tuple(one.name == name for one in world.late),
        tuple(own is not None and one.claim == own.claim for one in world.late),
        tuple(tuple(piece[1] == mine for piece in text) for text in texts),
    )


@lru_cache(maxsize=4096)
def _bare(thread: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Who said something in which turn: all of a thread that can still matter."""
    return tuple(sorted([Entry(one.role, one.turn) for one in thread]))


class _Renaming(NamedTuple):
    """The new names of fences, processes, claims, ticks and letters."""

    shift: int
    names: dict[int, int]
    claims: dict[int, int]
    ticks: dict[int, int]
    letters: dict[str, str] | None

    def world(self, world: World, order: list[int]) -> World:
        caller, watchdog = world.caller, world.watchdog
        if watchdog.request is not None:
            answer = watchdog.answer
            if answer is not None and answer.attempts > HUMAN_AT_ATTEMPTS:
                answer = answer._replace(attempts=HUMAN_AT_ATTEMPTS)
            watchdog = Watchdog(self.request(watchdog.request), answer)
        if self.letters is not None and caller.heard:
            caller = caller._replace(heard=self.text(caller.heard))
        workers = world.workers
        return World(
            self.record(world.record),
            tuple(self.worker(number, workers[slot]) for number, slot in enumerate(order, 1)),
            watchdog,
            world.web,
            caller,
            world.messages,
            tuple(sorted(self.request(one) for one in world.late)) if world.late else (),
            None if world.replica is None else self.record(world.replica),
            world.faults,
            len(self.ticks),
            OTHER,
            OTHER,
        )

    def worker(self, number: int, one: Worker) -> Worker:
        asked, answer = one.request, one.answer
        if asked is None:
            return Worker(number, one.health)
        if answer is not None and (answer.fence or answer.attempts):
            answer = answer._replace(
                fence=self.fence(answer.fence),
                text=self.text(answer.text),
                attempts=min(answer.attempts, HUMAN_AT_ATTEMPTS),
            )
        return Worker(number, one.health, self.request(asked), answer)

    def request(self, asked: Request) -> Request:
        return Request(
            asked.script,
            self.names.get(asked.name, OTHER),
            self.fence(asked.fence),
            asked.turn,
            self.text(asked.text),
            self.claims.get(asked.claim, 0),
            self.ticks[asked.seen] if asked.script == "reclaim" else 0,
            asked.costs,
        )

    def record(self, record: Record) -> Record:
        return Record(
            record.state,
            record.fence + self.shift,
            record.heard,
            record.answered,
            min(record.attempts, HUMAN_AT_ATTEMPTS),
            self.names.get(record.holder, OTHER),
            self.claims.get(record.claim, 0),
            self.ticks.get(record.beat, 0),
            record.understood,
            record.draft_turn,
            self.text(record.draft),
            _bare(record.thread),
            record.human,
            record.alert,
            record.lost,
            record.leased,
            record.due,
        )

    def fence(self, fence: int) -> int:
        return max(STALE, fence + self.shift) if fence else 0

    def text(self, text: Text) -> Text:
        if self.letters is None or not text:
            return text
        return tuple(piece[0] + self.letters[piece[1]] for piece in text)
