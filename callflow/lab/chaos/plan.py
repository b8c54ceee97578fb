"""What is asked of a run, and the order of its strikes. Imports nothing that takes time.

The fault model, which no choice of strikes leaves:

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
from pathlib import Path
from random import Random
from typing import Final

WORKERS: Final = "workers"
WEB: Final = "web"
SWEEP: Final = "sweep"
SERVERS: Final = "servers"
"""What a strike is at. One at `servers` has the whole stack to itself."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of strike: what it is at, and what it does, as a people's sentence has it."""

    at: str
    sentence: str


KINDS: Final[Mapping[str, Kind]] = {
    "worker-kill": Kind(WORKERS, "SIGKILL for a worker and all its children"),
    "worker-freeze": Kind(WORKERS, "SIGSTOP for a worker, and SIGCONT some time later"),
    "worker-cut": Kind(WORKERS, "nothing passes between a worker and the calls"),
    "worker-term": Kind(WORKERS, "SIGTERM for a worker, as in a rolling deploy"),
    "child-kill": Kind(WORKERS, "SIGKILL for the one pool process that runs a turn"),
    "clock-step": Kind(WORKERS, "a worker's clock jumps, and jumps back"),
    "poison": Kind(WORKERS, "an utterance that kills every process which takes it up"),
    "web-kill": Kind(WEB, "SIGKILL for a process that callers are talking to"),
    "web-term": Kind(WEB, "SIGTERM for a process that callers are talking to"),
    "beat-kill": Kind(SWEEP, "SIGKILL for one beat scheduler, or both"),
    "watchdog-kill": Kind(SWEEP, "SIGKILL for the watchdog's worker"),
    "server-kill": Kind(SERVERS, "SIGKILL for the server with the calls, and a restart"),
    "server-freeze": Kind(SERVERS, "SIGSTOP for the server with the calls, and SIGCONT"),
    "server-restarts": Kind(SERVERS, "three restarts of it within three seconds"),
    "client-kill": Kind(SERVERS, "it ends every connection, ten times in a row"),
    "failover": Kind(SERVERS, "it dies, and the replica takes over with every write"),
    "failover-lossy": Kind(SERVERS, "it dies, and the replica takes over without the last writes"),
    "demote": Kind(SERVERS, "roles change, and the old primary stays up, read-only"),
    "disk-full": Kind(SERVERS, "its append-only file can grow no more for a while"),
    "slow-net": Kind(SERVERS, "the way to a server takes longer"),
    "drop-replies": Kind(SERVERS, "what was asked is done, and the answers are lost"),
    "reset-net": Kind(SERVERS, "every connection to both servers breaks"),
    "mute-net": Kind(SERVERS, "nothing passes to a server, and nothing is refused"),
    "broker-empty": Kind(SERVERS, "the broker forgets everything"),
    "broker-kill": Kind(SERVERS, "SIGKILL for the broker, and a restart, empty or not"),
    "broker-freeze": Kind(SERVERS, "SIGSTOP for the broker, and SIGCONT"),
}
"""Every kind by its name, which stays the same: it stands in reports and after `--strikes`."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is done. Times are seconds.

    `every_s`: from one strike to the next, on average, where the one before is over by then;
    `pace_s`: before each sentence of a reply; `speed`: how many times faster than life everybody
    speaks; `relay_share`: of the callers, the rest of whom are on lines of webhooks.
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
    web: int = 2
    beats: int = 2
    pace_s: float = 0.3
    speed: float = 4.0
    stale_after_s: float = 4.0
    logs: Path | None = None
    """Where the processes' logs stay; None: they go with the run."""

    @property
    def worker_names(self) -> tuple[str, ...]:
        """What the workers are called."""
        return tuple(f"w{number}" for number in range(1, self.workers + 1))

    @property
    def command(self) -> str:
        """The command line that makes the same run again."""
        words = [f"callflow chaos --seed {self.seed} --seconds {self.seconds:g}"]
        words.append(f"--calls {self.calls} --every {self.every_s:g}")
        if self.strikes != tuple(KINDS):
            words.append(f"--strikes {','.join(self.strikes)}")
        if self.min_replicas:
            words.append(f"--min-replicas {self.min_replicas}")
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Planned:
    """The next strike: its number from 1, its kind, and how long after the one before it comes.

    Everything else about it is drawn from `dice`, so that the same strike of the same seed makes
    the same choices, whatever has happened before.
    """

    number: int
    kind: str
    pause_s: float
    seed: int

    def dice(self) -> Random:
        """Chance for this strike alone."""
        return Random(f"{self.seed}/{self.number}/{self.kind}")


def unknown(names: Sequence[str]) -> list[str]:
    """Those of `names` that are no kinds of strikes."""
    return [name for name in names if name not in KINDS]


def strikes(plan: Plan) -> list[Planned]:
    """More strikes than fit into the run: kinds in a random order, each as often as any other."""
    dice = Random(plan.seed)
    planned: list[Planned] = []
    while plan.strikes and len(planned) * plan.every_s / 2 <= plan.seconds:
        bag = list(plan.strikes)
        dice.shuffle(bag)
        for kind in bag:
            pause_s = plan.every_s * dice.uniform(0.5, 1.5)
            planned.append(Planned(len(planned) + 1, kind, pause_s, plan.seed))
    return planned
