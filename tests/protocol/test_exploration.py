"""Every interleaving of a small call is walked through, and every promise holds in each."""

from __future__ import annotations

import pytest

from callflow.call.state import MOVES, CallState, Refusal
from tests.protocol.diagram import mermaid
from tests.protocol.explorer import Exploration, explore
from tests.protocol.liveness import always_settles
from tests.protocol.moves import Size
from tests.protocol.report import story
from tests.protocol.sizes import BIG, RULES, SMALL
from tests.protocol.steps import Protocol
from tests.protocol.world import canonical, fresh

MOST_STEPS = {
    "two turns, one fault": 27,
    "one turn, two faults, no late copies": 18,
    "a turn that kills its workers": 75,
    "a failover": 19,
    "a failover, and replicas are waited for": 19,
}
"""So many steps after the last fault nothing is owed. A change that makes it longer says so."""


TAKEN = {
    "two turns, one fault": (
        "web is told, web hears, web loses the answer, web asks again, web times out, "
        "a takes a message, a goes on, a is done, a asks again, a times out, a loses the answer, "
        "a beats, a dies, a starts, a freezes, a thaws, a fails, a is drained, a is wedged, "
        "a cannot reach the server, watchdog looks, watchdog guesses wrongly, "
        "watchdog asks to reclaim, watchdog is done, sweep asks, broker loses a message, "
        "broker doubles a message, network delivers hear late, network delivers claim late, "
        "network delivers draft late, network delivers commit late, caller hangs up"
    ),
    "one turn, two faults, no late copies": "watchdog dies, watchdog loses the answer",
    "a turn that kills its workers": "watchdog asks to transfer, human picks up",
    "a failover": "replica catches up, replica becomes primary",
    "a failover, and replicas are waited for": "replica becomes primary, web finds it gone",
}
"""Steps that must have been taken: about one that never is, a search says nothing."""


def kept(protocol: Protocol) -> tuple[Exploration, int]:
    """What was found, and the bound; fails with the story of a broken promise."""
    found = explore(protocol)
    assert found.counterexample is None, story(found.counterexample)
    live = always_settles(found)
    assert live.counterexample is None, story(live.counterexample)
    return found, live.most_steps


@pytest.mark.slow
@pytest.mark.timeout(300)  # A second or three alone; beside other tests it takes its time.
@pytest.mark.parametrize("name", SMALL)
def test_every_promise_holds_in_every_world(name: str) -> None:
    found, most_steps = kept(SMALL[name])
    assert len(found.worlds) > 5_000, "so few worlds: somebody can no longer take a step"
    assert most_steps == MOST_STEPS[name]
    assert {*TAKEN[name].split(", ")} <= {f"{move.who} {move.what}" for move in found.met}


@pytest.mark.chaos
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", BIG)
def test_every_promise_holds_in_every_larger_world(name: str) -> None:
    kept(BIG[name])


def test_without_any_fault_the_shortest_way_leads_to_the_reply() -> None:
    found = explore(Protocol(RULES, Size(utterances=1, faults=0)))
    assert found.counterexample is None
    answered = [world for world in found.worlds if world.record.answered == 1]
    assert answered
    assert all(world.record.attempts == 0 for world in found.worlds)
    assert max(map(len, (world.record.thread for world in found.worlds))) == 2


def test_names_of_numbers_make_no_new_worlds() -> None:
    world = fresh(faults=1)
    assert canonical(canonical(world)) == canonical(world)
    a, b = world.workers
    frozen = world._replace(workers=(a._replace(health="frozen"), b))
    other = world._replace(workers=(a, b._replace(health="frozen")))
    assert canonical(frozen) == canonical(other) != canonical(world)


def test_the_diagram_is_drawn_from_the_table() -> None:
    drawn = mermaid()
    assert "    in_progress --> pending: hear_after_loss, commit, transfer" in drawn.splitlines()
    assert not any(
        "complete -->" in line and "incomplete" not in line for line in drawn.splitlines()
    )
    assert all(isinstance(row[CallState.COMPLETE], Refusal) for row in MOVES.values())
