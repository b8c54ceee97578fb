"""The model's server is the real one: every word it says, and every record it leaves, are those of
the Lua scripts. Without that, the searches of `test_exploration.py` would be about nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from tests.protocol.explorer import explore
from tests.protocol.moves import Move, Size, Step
from tests.protocol.real import RealCall
from tests.protocol.record import Answer, Record, Request, Rules
from tests.protocol.server import execute
from tests.protocol.steps import Protocol
from tests.protocol.world import World, fresh

NOW = 50
"""A tick later than any in a canonical record."""

Pair = tuple[Record, Request]


@dataclass(frozen=True, slots=True)
class Recording(Protocol):
    """Remembers which request met which record."""

    pairs: set[Pair] = field(default_factory=set)

    def ask(
        self, world: World, move: Move, asked: Request, *, fair: bool = False
    ) -> tuple[Answer, World, Step]:
        self.pairs.add((world.record, asked))
        return Protocol.ask(self, world, move, asked, fair=fair)


@pytest.fixture
def real(embedded: EmbeddedServer) -> Iterator[RealCall]:
    with connect(embedded.url) as client:
        yield RealCall(client)
        client.flushall()


def pairs_of(size: Size) -> list[Pair]:
    """What can meet in a call of this size, broken promises or not."""
    protocol = Recording(size=size)
    explore(protocol, only="")
    return sorted(protocol.pairs)


def check(real: RealCall, pairs: list[Pair]) -> None:
    stands: Record | None = None
    for record, asked in pairs:
        if stands != record:
            real.put(record)
        answer, stands = execute(record, asked, NOW, Rules())
        assert real.ask(asked, NOW) == answer, (record, asked)
        assert real.read() == stands, (record, asked)


@pytest.mark.slow
@pytest.mark.timeout(300)  # Four seconds alone; beside other tests it takes its time.
def test_every_request_in_every_reachable_record_ends_as_the_scripts_end_it(real: RealCall) -> None:
    pairs = pairs_of(Size(utterances=2, faults=1))
    assert len(pairs) > 1000
    check(real, pairs)


@pytest.mark.night
@pytest.mark.timeout(600)
def test_so_it_is_where_more_goes_wrong(real: RealCall) -> None:
    check(real, pairs_of(Size(utterances=1, faults=2)))


def walk(real: RealCall, protocol: Protocol, chance: random.Random) -> set[tuple[str, str]]:
    """One way through the protocol, at random, on both sides; what was asked and answered."""
    world = fresh(faults=protocol.size.faults, replicated=True)
    met = set()
    real.open()
    for _ in range(100):
        steps = list(protocol.steps(world))
        if not steps:
            break
        # What goes on by itself is likelier than a fault, and hanging up than neither.
        likely = [step for step in steps if step.fair]
        unlikely = [step for step in steps if step.move.what != "hangs up" or chance.random() < 0.1]
        step = chance.choice(likely if likely and chance.random() < 0.6 else unlikely or steps)
        lost, world = world.record.lost, step.after
        if step.move.what == "becomes primary":
            real.put(world.record)
        if step.asked is None or step.answer is None:
            continue
        assert real.ask(step.asked, world.tick) == step.answer, step
        assert real.read() == world.record, step
        met.add((step.asked.script, step.answer.word))
        if step.asked.script == "hear" and world.record.lost > lost:
            met.add(("hear", "after a loss"))
    return met


@pytest.mark.timeout(300)
def test_long_walks_agree_step_by_step(real: RealCall) -> None:
    size = Size(utterances=9, pieces=3, faults=60, late=2, poison=True, replicated=True)
    chance, met = random.Random(5), set()
    for _ in range(60):
        met |= walk(real, Protocol(size=size), chance)
    assert met >= MET, sorted(MET - met)


MET = {
    *(("accept", word) for word in ("ok", "again")),
    *(("beat", word) for word in ("ok", "fenced")),
    *(("claim", word) for word in ("ok", "held", "idle")),
    *(("commit", word) for word in ("ok", "moved")),
    *(("draft", word) for word in ("ok", "fenced")),
    *(("hand_back", word) for word in ("ok", "fenced")),
    *(("hear", word) for word in ("ok", "again", "after a loss")),
    *(("reclaim", word) for word in ("ok", "alive", "fenced")),
    *(("transfer", word) for word in ("ok", "again", "fenced")),
    *(("understand", word) for word in ("ok", "fenced")),
    ("end", "ok"),
    ("resume", "ok"),
    ("rewake", "ok"),
}
"""What the walks must at least have met, so that none of it goes untested."""
