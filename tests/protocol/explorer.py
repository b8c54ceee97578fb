"""Walks through every world that can be reached, the near ones first, and keeps the way to each."""

from __future__ import annotations

import gc
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.protocol import promises
from tests.protocol.moves import Move, Step
from tests.protocol.record import COMPLETE
from tests.protocol.steps import Protocol
from tests.protocol.world import OVER, World, canonical, fresh


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The shortest way to a broken promise, step by step under real names and numbers."""

    promise: str
    steps: tuple[Step, ...]

    @property
    def moves(self) -> tuple[Move, ...]:
        return tuple(step.move for step in self.steps)


@dataclass(slots=True)
class Exploration:
    """What was found. `fair` holds, world by world, where its fair steps lead."""

    protocol: Protocol
    start: World
    worlds: dict[World, int] = field(default_factory=dict)
    parents: array[int] = field(default_factory=lambda: array("l"))
    fair: list[tuple[int, ...]] = field(default_factory=list)
    settled: bytearray = field(default_factory=bytearray)
    met: set[Move] = field(default_factory=set)
    edges: int = 0
    depth: int = 0
    seconds: float = 0.0
    counterexample: Counterexample | None = None
    _order: list[World] = field(default_factory=list)

    def way_to(self, number: int) -> list[World]:
        """The worlds from the start to this one, without the start."""
        way: list[World] = []
        while number:
            way.append(self.world(number))
            number = self.parents[number]
        return way[::-1]

    def enter(self, world: World, parent: int) -> World:
        """Number a world that was not met before."""
        self.worlds[world] = len(self.worlds)
        self.parents.append(parent)
        self.settled.append(promises.settled(world))
        return world

    def world(self, number: int) -> World:
        """The world with this number: they are numbered in the order in which they were found."""
        if len(self._order) < len(self.worlds):
            self._order = list(self.worlds)
        return self._order[number]

    def replayed(self, way: list[World]) -> tuple[Step, ...]:
        """The same way with the fences, names and times that really come out."""
        return tuple(replay(self.protocol, self.start, way))


def replay(protocol: Protocol, start: World, way: list[World]) -> Iterator[Step]:
    """The steps that lead through these worlds."""
    world = start
    for then in way:
        step = next(one for one in protocol.steps(world) if reduced(protocol, one.after) == then)
        yield step
        world = step.after


def reduced(protocol: Protocol, world: World) -> World:
    """The world that stands for all that behave as this one."""
    if world.record.state == COMPLETE and protocol.rules.complete_refuses:
        return OVER
    return canonical(world)


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Values hold no circles: looking for them among a million worlds is a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def explore(protocol: Protocol, *, only: str | None = None) -> Exploration:
    """Visit every world. Stops at the first broken promise, or at the first break of `only`."""
    size = protocol.size
    start = fresh(workers=size.workers, faults=size.faults, replicated=size.replicated)
    found = Exploration(protocol, start)
    began = time.perf_counter()
    with _without_collecting():
        _search(found, only)
    found.seconds = time.perf_counter() - began
    return found


def _search(found: Exploration, only: str | None) -> None:
    protocol, worlds = found.protocol, found.worlds
    layer = [found.enter(reduced(protocol, found.start), 0)]
    while layer:
        following: list[World] = []
        for world in layer:
            number = worlds[world]
            fair: list[int] = []
            for step in protocol.steps(world):
                found.edges += 1
                found.met.add(step.move)
                after = reduced(protocol, step.after)
                seen = worlds.get(after)
                broken = promises.broken_by(world, step, protocol.rules)
                if seen is None:
                    broken = broken or promises.broken_in(step.after, protocol.rules, protocol.size)
                if broken is not None and only in (None, broken):
                    way = [*found.way_to(number), after]
                    found.counterexample = Counterexample(broken, found.replayed(way))
                    found.depth += 1
                    return
                if seen is None:
                    following.append(found.enter(after, number))
                    seen = worlds[after]
                if step.fair and seen != number:
                    fair.append(seen)
            found.fair.append(tuple(fair))
        layer = following
        found.depth += bool(following)
