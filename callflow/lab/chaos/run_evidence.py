"""Holds what was seen and heard of one run from outside: all that the judge is given.

The callers tell what they said, what was taken from them and what they heard; the run tells what
it struck and which keys were left. The journals are callflow's own opinion: they serve to time
takeovers and to explain, and nobody is acquitted by them. It can be kept in a file, which users
know as the testimony, and be judged again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal, Self

from pydantic import TypeAdapter, ValidationError

from callflow.call.history import JournalEntry
from callflow.errors import CallflowError
from callflow.lab.carrier.call_report import CallReport
from callflow.lab.chaos.chaos_plan import unknown_kinds

MOST: Final = 1e15
"""More than any number of a run: the largest ones are Unix times in ms."""

MOST_S: Final = 1e5
"""More than any time since a run began: it lasts a day, and some minutes."""


class EvidenceRefused(CallflowError):
    """What was read is nothing that a run has told; nothing was judged."""

    def __init__(self, source: str, reason: str) -> None:
        self.source = source
        self.reason = reason
        super().__init__(f"{source} is no testimony of callflow chaos: {reason}")


@dataclass(frozen=True, slots=True)
class RunConditions:
    """Under which the run was made: what the judge must know to be just, and how to run it again.

    `command`: the command line that makes the same run again; `speed`: how many times faster than
    life everybody spoke; `letters_per_s`: at speed 1; `kinds`: strikes that were asked for. The
    other times are the stack's own settings, from which the bounds of its promises follow.
    """

    seed: int
    seconds: float
    command: str
    min_replicas: int = 0
    speed: float = 1.0
    letters_per_s: float = 15.0
    reply_wait_s: float = 2.5
    stale_after_s: float = 10.0
    turn_deadline_s: float = 8.0
    sweep_interval_s: float = 0.2
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Strike:
    """One thing that was done to the stack. Times in s count from the beginning of the run.

    `kind` is a word of `--strikes`; `name` says it in words, for people.
    """

    kind: str
    name: str
    victims: tuple[str, ...]
    """As the journals name them: a node (`w1@host`) or one process of it (`w1@host/pid-nonce`); or
    `web1`, `beat2`, `server`, `broker`, `endpoint`."""
    at_s: float
    until_s: float
    """When the harm was undone; `at_s` where there was nothing to undo."""
    at_ms: int
    """Server clock just before the signal; the host's where no server answered."""
    call_sid: str | None = None
    """The one call that is meant, such as by a poison utterance."""
    loses_writes: bool = False
    """A failover that takes writes with it which no replica had."""

    def hit(self, worker: str | None) -> bool:
        """True when a process of this name was among the victims."""
        if worker is None:
            return False
        return any(worker == one or worker.startswith(f"{one}/") for one in self.victims)


@dataclass(frozen=True, slots=True)
class CallEvidence:
    """One call. `line`: how it was carried; `poison`: one utterance kills every worker."""

    report: CallReport
    line: Literal["gather", "relay"]
    poison: bool = False

    @property
    def call_sid(self) -> str:
        return self.report.call_sid


@dataclass(frozen=True, slots=True)
class RunEvidence:
    """All of one run. `began_at`: Unix time, s, on the clock of the reports' `began_at`."""

    conditions: RunConditions
    began_at: float
    callers: tuple[CallEvidence, ...]
    strikes: tuple[Strike, ...] = ()
    leaked: tuple[str, ...] = ()
    """Keys without a lifetime, once every call had ended and been swept."""
    fallen: tuple[str, ...] = ()
    """Processes that ended although nobody had struck them, with the end of their logs."""
    journals: Mapping[str, tuple[JournalEntry, ...]] = field(default_factory=dict)

    def offset_s(self, report: CallReport) -> float:
        """How long after the run began the call began: add it to a time of its report."""
        return report.began_at - self.began_at

    def to_json(self) -> str:
        """For a file; `from_json` gives an equal one."""
        return _adapter().dump_json(self).decode()

    @classmethod
    def from_json(cls, text: str | bytes, source: str = "this") -> Self:
        """What `to_json` wrote. Raises EvidenceRefused, which names `source`, for anything else."""
        try:
            found = _adapter().validate_json(text, strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = _path(first["loc"])
            wrong = "no number" if first["type"] in ("float_type", "int_type") else first["msg"]
            reason = f"{where}: {wrong}" if where else wrong
            raise EvidenceRefused(source, reason) from error
        assert isinstance(found, cls)
        if flaw := _flaw(found):
            raise EvidenceRefused(source, flaw)
        return found


@cache
def _adapter() -> TypeAdapter[RunEvidence]:
    return TypeAdapter(RunEvidence)


def _flaw(found: RunEvidence) -> str | None:
    """The first thing with which the judge or the report could not go on, as a sentence."""
    for at, number in _numbers(_adapter().dump_python(found)):
        most = MOST_S if str(at[-1]).endswith(("_s", "seconds")) else MOST
        # Any whole number is a seed. The comparison is false for NaN as well.
        if at != ("conditions", "seed") and not 0 <= number <= most:
            return f"{_path(at)}: no number from 0 to {most:.0e}"
    for name in ("seconds", "speed", "letters_per_s"):
        if getattr(found.conditions, name) == 0:
            return f"conditions.{name}: with 0 nobody can have spoken"
    if found.conditions.min_replicas > 1:
        return "conditions.min_replicas: no run has more than 1"
    if unknown_kinds(found.conditions.kinds):
        return "conditions.kinds: there is no such strike"
    for index, strike in enumerate(found.strikes):
        if unknown_kinds((strike.kind,)):
            return f"strikes.{index}.kind: there is no strike called {strike.kind[:40]!r}"
        if strike.until_s < strike.at_s:
            return f"strikes.{index}.until_s: over before it began"
    sids = [caller.call_sid for caller in found.callers]
    for index, caller in enumerate(found.callers):
        if caller.call_sid in sids[:index]:
            return f"callers.{index}.report.call_sid: the same call twice"
        if abs(found.offset_s(caller.report)) > MOST_S:
            return f"callers.{index}.report.began_at: in another run than this one"
    return None


def _numbers(found: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[Any, ...], float]]:
    if isinstance(found, (int, float)):
        yield at, found
    elif isinstance(found, Mapping):
        for key, value in found.items():
            yield from _numbers(value, (*at, key))
    elif isinstance(found, (list, tuple)):
        for index, value in enumerate(found):
            yield from _numbers(value, (*at, index))


def escape_controls(text: str) -> str:
    """`text` from a file without what moves a reader's cursor: signs that are none to be seen, line
    breaks too, in their escaped form."""
    return "".join(
        sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text
    )


def _path(at: tuple[str | int, ...]) -> str:
    return ".".join(escape_controls(str(part)[:64]) for part in at)
