"""Decides what networks and people do to a call: repeated, late, lost and reordered requests.

Every decision is drawn from the seed and from what is decided about, never from the order in which
things happen: the same seed does the same to the third call, however busy the machine is. Names of
calls do not count: two runs with one seed may meet the same application.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal

GIVE_UP_S: Final = 15.0
"""A person who hears nothing for so long hangs up."""


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """How much of it: each is the share, 0 to 1, of that to which it can happen."""

    repeat: float = 0.0
    """Webhooks that arrive twice, at the same time or a little later. The second answer counts for
    nothing."""
    delay: float = 0.0
    """Webhooks that are under way for up to `longest_delay_s`."""
    reorder: float = 0.0
    """Status callbacks that the next one overtakes."""
    drop: float = 0.0
    """Webhooks whose first attempt is lost: it never arrives, or its answer does not."""
    throttle: float = 0.0
    """REST requests that are refused with 429."""
    hang_up: float = 0.0
    """Calls whose caller hangs up in the middle of a turn."""
    interrupt: float = 0.0
    """Turns for which the caller does not wait until the agent has finished."""
    give_up: float = 0.0
    """Calls whose caller hangs up after 15 s of silence."""
    longest_delay_s: float = 0.8


@dataclass(frozen=True, slots=True)
class RequestFault:
    delay_s: float = 0.0
    lost: Literal["request", "answer"] | None = None
    repeat_after_s: float | None = None
    """From the sending of the first; None: it is sent once."""
    overtaken: bool = False


@dataclass(frozen=True, slots=True)
class CallerFaults:
    """What one caller does that their plan does not say."""

    hangs_up_in: tuple[int, float] | None = None
    """The turn, and how long after the caller's words, s."""
    interrupts: tuple[tuple[int, float], ...] = ()
    """Turns that begin after such a share of the words before them."""
    patience_s: float | None = None


class FaultDice:
    """Draws from one seed."""

    def __init__(self, seed: int, plan: NetworkFaults) -> None:
        self.plan = plan
        self._seed = seed

    def of(self, *what: object) -> random.Random:
        """The dice for one decision: the same for the same `what`."""
        return random.Random(f"{self._seed}/{'/'.join(map(str, what))}")

    def throttled(self, request: int) -> bool:
        """True when this REST request is refused as one too many."""
        share = self.plan.throttle
        return bool(share) and self.of("rest", request).random() < share


class CallFaults:
    """What happens to one call. `line` names it in the plan: the third caller, say."""

    def __init__(self, fault_dice: FaultDice, line: str) -> None:
        self._plan = fault_dice.plan
        self._fault_dice = fault_dice
        self._line = line
        self._sent: Counter[str] = Counter()

    def dice(self, *what: object) -> random.Random:
        """Chance for anything else about this call."""
        return self._fault_dice.of(self._line, *what)

    def next(self, path: str, status: str, *, final: bool = False) -> RequestFault:
        """What happens to the next request for `path` while the call has this status.

        A `final` status is never lost: nothing would tell the application that the call is over.
        """
        plan, request = self._plan, f"{path.partition('?')[0]} {status}"
        self._sent[request] += 1
        if not (plan.repeat or plan.delay or plan.drop or plan.reorder):
            return RequestFault()
        dice = self._fault_dice.of("webhook", self._line, request, self._sent[request])
        # All are drawn, so that one kind of fault does not move the dice of another.
        delayed, delay_s = dice.random(), dice.uniform(0.02, plan.longest_delay_s)
        dropped, which = dice.random(), dice.choice(("request", "answer"))
        repeated, overlapping, late_s = dice.random(), dice.random(), dice.uniform(0.05, 1.5)
        lost: Literal["request", "answer"] = "request" if which == "request" else "answer"
        repeat_after_s = 0.0 if overlapping < 0.5 else late_s
        return RequestFault(
            delay_s=delay_s if delayed < plan.delay else 0.0,
            lost=lost if dropped < plan.drop and not final else None,
            repeat_after_s=repeat_after_s if repeated < plan.repeat else None,
            overtaken=dice.random() < plan.reorder,
        )

    def of_caller(self, turns: int) -> CallerFaults:
        """What the caller does of their own."""
        plan, dice = self._plan, self._fault_dice.of("caller", self._line)
        leaves, turn, after_s = dice.random(), dice.randint(1, max(1, turns)), dice.uniform(0, 2)
        impatient = dice.random() < plan.give_up
        drawn = [(n, dice.random(), dice.uniform(0.1, 0.9)) for n in range(1, turns + 1)]
        return CallerFaults(
            hangs_up_in=(turn, after_s) if leaves < plan.hang_up else None,
            interrupts=tuple((n, share) for n, hit, share in drawn if hit < plan.interrupt),
            patience_s=GIVE_UP_S if impatient else None,
        )
