"""Plans runs of chaos and of the demo: what is asked of them, and the order of the strikes.

Imports nothing slow, so that the command line can offer it at once. The fault model, which no
choice of strikes leaves:

- Servers: at any moment the server that holds the calls, or the broker, or the way to one of them
  is struck, never two of these; and nothing else is struck meanwhile. Primary and replica are
  never both gone: a failover waits until the replica is in step, and the next strike until the one
  that was lost has joined again.
- Processes: workers, web processes and the sweep's (beats, watchdog) may be struck at the same
  time, but of each of the first two one stays that is ready, and nothing is struck anew before what
  was struck is back. Both beats, or the watchdog, may be gone at once: workers sweep instead.
- Callers: a call whose turn two strikes have hit already is spared by those at workers. Three in a
  row are the business of `poison`, and end at a human.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Final

WORKERS: Final = "workers"
WEB: Final = "web"
SWEEP: Final = "sweep"
SERVERS: Final = "servers"
"""What a strike is at. One at `servers` has the whole stack to itself."""


class Harm(StrEnum):
    """What a strike does to calls; each has a bound of its own, see `promises`."""

    DEATH = "death"
    """A process that runs turns is gone."""
    FREEZE = "freeze"
    """It stands still, or is cut off."""
    LEAVE = "leave"
    """It is told to end, and hands back what it cannot finish."""
    LINE = "line"
    """What callers talk to is gone: no turn is."""
    TIMER = "timer"
    """Nobody asks for sweeps for a while."""
    MESSAGE = "message"
    """Celery messages are lost."""
    SERVER = "server"
    """The server that holds the calls, or the way to it."""
    POISON = "poison"
    """A turn that kills every worker."""


@dataclass(frozen=True, slots=True)
class StrikeKind:
    """One kind of strike: its harm, and what it does, in words for people."""

    harm: Harm
    sentence: str

    @property
    def at(self) -> str:
        """WORKERS, WEB, SWEEP or SERVERS."""
        return _AT.get(self.harm, WORKERS)


_AT: Final = {
    Harm.LINE: WEB,
    Harm.TIMER: SWEEP,
    Harm.MESSAGE: SERVERS,
    Harm.SERVER: SERVERS,
}

KINDS: Final[Mapping[str, StrikeKind]] = {
    "worker-kill": StrikeKind(Harm.DEATH, "SIGKILL for a worker and all its children"),
    "worker-freeze": StrikeKind(Harm.FREEZE, "SIGSTOP for a worker, and SIGCONT some time later"),
    "worker-cut": StrikeKind(Harm.FREEZE, "nothing passes between a worker and the calls"),
    "worker-term": StrikeKind(Harm.LEAVE, "SIGTERM for a worker, as in a rolling deploy"),
    "child-kill": StrikeKind(Harm.DEATH, "SIGKILL for the one pool process that runs a turn"),
    "clock-step": StrikeKind(Harm.DEATH, "a worker's clock jumps, and jumps back"),
    "poison": StrikeKind(Harm.POISON, "an utterance that kills every process which takes it up"),
    "web-kill": StrikeKind(Harm.LINE, "SIGKILL for a process that callers are talking to"),
    "web-term": StrikeKind(Harm.LINE, "SIGTERM for a process that callers are talking to"),
    "beat-kill": StrikeKind(Harm.TIMER, "SIGKILL for one beat scheduler, or both"),
    "watchdog-kill": StrikeKind(Harm.TIMER, "SIGKILL for the watchdog's worker"),
    "server-kill": StrikeKind(Harm.SERVER, "SIGKILL for the server with the calls, and a restart"),
    "server-freeze": StrikeKind(Harm.SERVER, "SIGSTOP for the server with the calls, and SIGCONT"),
    "server-restarts": StrikeKind(Harm.SERVER, "three restarts of it within three seconds"),
    "client-kill": StrikeKind(Harm.SERVER, "it ends every connection, ten times in a row"),
    "failover": StrikeKind(Harm.SERVER, "it dies, and the replica takes over with every write"),
    "failover-lossy": StrikeKind(
        Harm.SERVER, "it dies, and the replica takes over without the last writes"
    ),
    "demote": StrikeKind(Harm.SERVER, "roles change, and the old primary stays up, read-only"),
    "disk-full": StrikeKind(Harm.SERVER, "its append-only file can grow no more for a while"),
    "slow-net": StrikeKind(Harm.SERVER, "the way to a server takes longer"),
    "drop-replies": StrikeKind(Harm.SERVER, "what was asked is done, and the answers are lost"),
    "reset-net": StrikeKind(Harm.SERVER, "every connection to both servers breaks"),
    "mute-net": StrikeKind(Harm.SERVER, "nothing passes to a server, and nothing is refused"),
    "broker-empty": StrikeKind(Harm.MESSAGE, "the broker forgets everything"),
    "broker-kill": StrikeKind(Harm.MESSAGE, "SIGKILL for the broker, and a restart, empty or not"),
    "broker-freeze": StrikeKind(Harm.MESSAGE, "SIGSTOP for the broker, and SIGCONT"),
}
"""Every kind by its name, which stays the same: it stands in reports and after `--strikes`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A run of chaos. Times are seconds.

    `every_s`: from one strike to the next, on average, where the one before is over by then;
    `pace_s`: before each sentence of a reply; `speed`: how many times faster than life everybody
    speaks; `relay_share`: of the callers, the rest of whom are on lines of webhooks; `logs`: where
    the processes' logs stay, and None lets them go with the run.
    """

    seed: int = 1
    seconds: float = 60.0
    calls: int = 30
    strikes: tuple[str, ...] = tuple(KINDS)
    every_s: float = 1.5
    min_replicas: int = 0
    relay_share: float = 0.5
    workers: int = 3
    slots: int = 4
    beats: int = 2
    pace_s: float = 0.3
    speed: float = 4.0
    stale_after_s: float = 4.0
    logs: Path | None = None

    @property
    def worker_names(self) -> tuple[str, ...]:
        return _numbered("w", self.workers)

    @property
    def beat_names(self) -> tuple[str, ...]:
        return _numbered("beat", self.beats)

    @property
    def command(self) -> str:
        words = [f"callflow chaos --seed {self.seed} --seconds {self.seconds:g}"]
        words.append(f"--calls {self.calls} --every {self.every_s:g}")
        if self.strikes != tuple(KINDS):
            words.append(f"--strikes {','.join(self.strikes)}")
        if self.min_replicas:
            words.append(f"--min-replicas {self.min_replicas}")
        return " ".join(words)


class Kill(StrEnum):
    """What the demo does to which process."""

    WORKER = "worker"
    CHILD = "child"
    FREEZE = "freeze"
    """SIGSTOP, and SIGCONT when its calls have been taken over: it goes on where it stood."""
    WEB = "web"
    NONE = "none"

    @property
    def kind(self) -> str:
        """The same among `KINDS`."""
        return "worker-freeze" if self is Kill.FREEZE else f"{self}-kill"


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """A run of the demo. `every_s`: seconds between kills; `pace_s`, `speed` and `logs`: see
    `Plan`; `backlog`: turns of further calls kept waiting, so that takeovers must pass them."""

    calls: int = 12
    turns: int = 4
    kill: Kill = Kill.WORKER
    every_s: float = 1.0
    seed: int = 1
    workers: int = 3
    slots: int = 4
    pace_s: float = 0.3
    speed: float = 4.0
    backlog: int = 0
    logs: Path | None = None

    @property
    def worker_names(self) -> tuple[str, ...]:
        return _numbered("w", self.workers)

    @property
    def beat_names(self) -> tuple[str, ...]:
        return ("beat",)


def _numbered(name: str, count: int) -> tuple[str, ...]:
    return tuple(f"{name}{number}" for number in range(1, count + 1))


@dataclass(frozen=True, slots=True)
class PlannedStrike:
    """The next strike: its number from 1, its kind, and how long after the one before it comes."""

    number: int
    kind: str
    pause_s: float
    seed: int

    def dice(self) -> Random:
        """Chance for this strike alone: it makes the same choices whatever has happened before."""
        return Random(f"{self.seed}/{self.number}/{self.kind}")


def unknown_kinds(names: Sequence[str]) -> list[str]:
    """Those of `names` that are no kinds of strikes."""
    return [name for name in names if name not in KINDS]


def plan_strikes(plan: Plan) -> list[PlannedStrike]:
    """More strikes than fit into the run: kinds in a random order, each as often as any other."""
    dice = Random(plan.seed)
    planned: list[PlannedStrike] = []
    while plan.strikes and len(planned) * plan.every_s / 2 <= plan.seconds:
        bag = list(plan.strikes)
        dice.shuffle(bag)
        for kind in bag:
            pause_s = plan.every_s * dice.uniform(0.5, 1.5)
            planned.append(PlannedStrike(len(planned) + 1, kind, pause_s, plan.seed))
    return planned
