"""Runs health checks: each looks at one thing, and says how it is and what can be done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from callflow.errors import StoreError

T = TypeVar("T")


class Severity(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"

    @property
    def badness(self) -> int:
        """Greater for what is worse."""
        return (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.FAILURE).index(self)


@dataclass(frozen=True, slots=True)
class Check:
    """What one check found: how bad it is, a sentence, and what can be done. `subject`: the worker
    or the queue that it is about; empty where it is about all together."""

    name: str
    severity: Severity
    sentence: str
    way_out: str = ""
    subject: str = ""

    @property
    def blamed(self) -> str:
        """What is wrong with the same one twice is no chance, even where it is not the same."""
        return self.subject or self.name

    def as_dict(self) -> dict[str, str]:
        """For `callflow doctor --json`."""
        return {
            "name": self.name,
            "grade": str(self.severity),
            "sentence": self.sentence,
            "way_out": self.way_out,
        }


class Audience(StrEnum):
    """Who has checks run."""

    DOCTOR = "doctor"
    """`callflow doctor`: a person, who has seconds"""
    ALARM = "alarm"
    """`/health`, several times a second"""
    NODE = "node"
    """`callflow doctor --node`, for a worker's container: would a restart help?"""


@dataclass(frozen=True, slots=True)
class HealthCheck(Generic[T]):
    """One check of a T. `examine` says what it finds; of workers, only what is wrong."""

    name: str
    examine: Callable[[T], Iterable[Check]]
    audiences: frozenset[Audience] = frozenset({Audience.DOCTOR})


def run_checks(
    checks: Sequence[HealthCheck[T]], examined: T, audience: Audience = Audience.DOCTOR
) -> Iterator[Check]:
    """What the checks for this audience find, as they find it. One that breaks on what it finds is
    `unknown`, and the others go on.

    Raises StoreError: a server is cut off, and the checks that are left could say nothing else.
    """
    for check in checks:
        if audience not in check.audiences:
            continue
        try:
            yield from check.examine(examined)
        except StoreError:
            raise
        except Exception as error:
            # Its name alone: what it says may show what people said.
            sentence = f"cannot be judged: {type(error).__name__}"
            yield Check(check.name, Severity.UNKNOWN, sentence, "tell the developers of callflow")


def join_findings(name: str, well: str, found: Iterable[Check]) -> Check:
    """All that was found under `name` as one; `well` is what it says where nothing was."""
    mine = [one for one in found if one.name == name]
    if not mine:
        return Check(name, Severity.OK, well)
    worst = max((one.severity for one in mine), key=lambda severity: severity.badness)
    failed = [one for one in mine if one.severity is Severity.FAILURE]
    return Check(
        name,
        worst,
        "; ".join(one.sentence for one in mine),
        "; ".join(dict.fromkeys(one.way_out for one in failed or mine)),
    )
