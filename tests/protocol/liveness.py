"""What must come in the end: from every world, by its fair steps alone, to one that is settled.

A fair step happens by itself sooner or later once no further fault happens: a worker that is up
goes on, an answer arrives, a sweep looks. Timeouts are taken at their word: the watchdog takes a
lease only from a worker that does not come back to it, a turn is woken again only when no message
for it is under way. If the fair steps between unsettled worlds form no circle and none of these
worlds is a dead end, every such run ends, and the longest one is the bound.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from tests.protocol.explorer import Counterexample, Exploration
from tests.protocol.promises import COMES_BACK, NO_LOOP

_NEW, _OPEN = -1, -2


@dataclass(frozen=True, slots=True)
class Liveness:
    """`most_steps`: after the last fault, so many steps later nothing is owed, whoever is next."""

    most_steps: int
    counterexample: Counterexample | None = None


def always_settles(found: Exploration) -> Liveness:
    """Follow the fair steps from every world that was found."""
    steps_left = array("l", [_NEW]) * len(found.fair)
    for number, settled in enumerate(found.settled):
        if settled:
            steps_left[number] = 0
    for number in range(len(found.fair)):
        if steps_left[number] == _NEW:
            stuck = _measure(found, steps_left, number)
            if stuck is not None:
                return Liveness(max(steps_left), stuck)
    return Liveness(max(steps_left))


def _measure(found: Exploration, steps_left: array[int], start: int) -> Counterexample | None:
    """Fill in `steps_left` for `start` and all that it leads to, depth first."""
    path = [start]
    following = [iter(found.fair[start])]
    steps_left[start] = _OPEN
    if not found.fair[start]:
        return _example(found, COMES_BACK, path)
    while path:
        number = path[-1]
        then = next(following[-1], None)
        if then is None:
            steps_left[number] = 1 + max(steps_left[one] for one in found.fair[number])
            path.pop()
            following.pop()
        elif steps_left[then] == _OPEN:
            return _example(found, NO_LOOP, [*path, then])
        elif steps_left[then] == _NEW:
            path.append(then)
            if not found.fair[then]:
                return _example(found, COMES_BACK, path)
            steps_left[then] = _OPEN
            following.append(iter(found.fair[then]))
    return None


def _example(found: Exploration, promise: str, path: list[int]) -> Counterexample:
    """The way to the first world of the path, and along it."""
    way = found.way_to(path[0])
    way += [found.world(number) for number in path[1:]]
    return Counterexample(promise, found.replayed(way))
