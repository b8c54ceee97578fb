"""What an examination finds: each finding is a sentence with a way out, for whoever acts on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

_REFUSALS = {
    "NOREPLICAS": (
        "the Redis server takes no writes: it has fewer good replicas than its own "
        "min-replicas-to-write wants; see to the replicas, or lower that setting"
    ),
    "MISCONF": (
        "the Redis server takes no writes: it cannot write to its disk; make room there, and see "
        "its log"
    ),
}


def refusal(error: BaseException) -> str | None:
    """Why the server that answered takes no writes, in words; None where the error is another."""
    text = f"{error} {error.__cause__}"
    return next((told for word, told in _REFUSALS.items() if word in text), None)


class Grade(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    FAILURE = "failure"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: what was looked at, how bad it is, a sentence, and what can be done."""

    name: str
    grade: Grade
    sentence: str
    way_out: str = ""
