"""What a run came to, and the one JSON object that tells it to programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from callflow.lab.chaos.faults import PROMISES, Fault, Kind
from callflow.lab.chaos.witness import shown

MOST_FAULTS_TOLD = 20
"""In the JSON object; the report has all."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Nearest rank, of `count` measured numbers; None where there were none."""

    count: int = 0
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, numbers: Iterable[float], digits: int = 3) -> Percentiles:
        """Each of them is a number that was measured."""
        ranked = sorted(numbers)
        if not ranked:
            return cls()

        def rank(hundredths: int) -> float:
            return round(ranked[-(-hundredths * len(ranked) // 100) - 1], digits)

        return cls(len(ranked), rank(50), rank(95), rank(99), rank(100))


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of strike."""

    strikes: int
    takeover_s: Percentiles
    """From the signal to the next claim of each turn that it hit."""
    bound_s: float
    """What the design allows for that."""
    silence_s: Percentiles
    """What callers heard nothing for while it lasted or its consequences could."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One promise: how often it was put to the test, and how often it was broken."""

    tried: int
    failed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was found. `faults` are in the order in which they happened."""

    seed: int
    replay: str
    """The command line that makes the same run again; empty where what was kept names another."""
    seconds: float
    calls: int
    turns: int
    """What callers said, acknowledged or not."""
    strikes: int
    per_kind: dict[str, Row]
    promises: dict[int, Tried]
    detected: int
    """Utterances that a failover was allowed to take, and for which the caller was asked again."""
    reply_s: Percentiles
    silence_s: Percentiles
    takeover_s: Percentiles
    faults: tuple[Fault, ...]
    unmade: tuple[str, ...] = ()
    """Kinds of strikes that were asked for and for which the time was too short."""

    @property
    def good(self) -> bool:
        """True when every promise was kept, which nobody can say where nobody spoke."""
        return not self.faults and not self.untried

    @property
    def untried(self) -> bool:
        """True when no promise was put to the test, nor broken by itself: nobody said a word."""
        return not self.faults and not self.turns

    @property
    def unstruck(self) -> bool:
        """True when nothing was struck, and nothing broke by itself: it shows nothing."""
        return not self.faults and not self.strikes

    def count(self, *kinds: Kind) -> int:
        """How many faults are of these kinds."""
        found = Counter(fault.kind for fault in self.faults)
        return sum(found[kind] for kind in kinds)

    @property
    def broken(self) -> tuple[int, ...]:
        """The numbers of the promises that were broken."""
        return tuple(sorted({fault.promise for fault in self.faults}))

    @property
    def harmed(self) -> tuple[str, ...]:
        """The calls in which something went wrong, in the order in which it did."""
        return tuple(dict.fromkeys(f.call_sid for f in self.faults if f.call_sid is not None))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the last line of `callflow chaos --json`."""
        return {
            "good": self.good and not self.unstruck,
            "seed": self.seed,
            "replay": self.replay,
            "seconds": self.seconds,
            "calls": self.calls,
            "turns": self.turns,
            "strikes": self.strikes,
            "not_made": list(self.unmade),
            "per_kind": {kind: asdict(row) for kind, row in self.per_kind.items()},
            "lost": self.count(Kind.LOST, Kind.LEFT_OUT),
            "repeated": self.count(Kind.REPEATED, Kind.SAID_AGAIN, Kind.DOUBLED),
            "out_of_order": self.count(Kind.OUT_OF_ORDER, Kind.MISPLACED),
            "detected": self.detected,
            "reply_s": asdict(self.reply_s),
            "silence_s": asdict(self.silence_s),
            "takeover_s": asdict(self.takeover_s),
            "promises": {
                str(number): {"promise": PROMISES[number], **asdict(tried)}
                for number, tried in self.promises.items()
            },
            "faults": [shown(str(fault)) for fault in self.faults[:MOST_FAULTS_TOLD]],
        }

    def as_json(self) -> str:
        """The same, on one line."""
        return json.dumps(self.as_dict(), ensure_ascii=False)
