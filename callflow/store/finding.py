"""What an examination finds: each finding is a sentence with a way out, for whoever acts on it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
