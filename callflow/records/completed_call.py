"""Writes a complete call as it is kept for good: its entries, and what it is found by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from callflow.records.hashes import canonical

VERSIONS: Final = "versions"
"""Which callflow, which model and which procedures answered."""
FIELDS: Final = "fields"
"""All of the record but its thread: state, outcome, facts, procedures, what was recorded."""
SAID: Final = "said"
"""One thing that was said, and what was heard of it."""
LINE: Final = "line"
"""One line of the journal, with its id."""
VIEW: Final = "view"
"""Who read it, or did something in it, with an id."""
TIMINGS: Final = "timings"
"""What the thread and the journal tell about waiting, in ms."""
ERASED: Final = "erased"
"""Whose content was erased, by whom and why."""

TEST_SCENARIOS: Final = frozenset(("test_call_automatic", "test_call_engineer"))
"""The procedures of calls that only try the line."""


class RecordEntry(NamedTuple):
    """One link of a record's own chain; `body` is JSON in the one way to write it."""

    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that is over. `fields` is the record without its thread; `lines` are those of its
    journal and `views` those of its audit, each with its id; `versions`: see VERSIONS. `through`
    names the last lines, for whoever has to know whether there are later ones."""

    call_sid: str
    fields: Mapping[str, Any]
    thread: Sequence[Mapping[str, Any]]
    lines: Sequence[tuple[str, Mapping[str, str]]]
    views: Sequence[tuple[str, Mapping[str, str]]] = ()
    versions: Mapping[str, Any] = field(default_factory=dict)
    through: str = ""

    def entries(self) -> list[RecordEntry]:
        """All of it, in the order in which it is chained."""
        return [
            RecordEntry(VERSIONS, canonical(self.versions)),
            RecordEntry(FIELDS, canonical(self.fields)),
            *self.said(),
            *_written(LINE, self.lines),
            *_written(VIEW, self.views),
            RecordEntry(TIMINGS, canonical(self.timings())),
        ]

    def said(self) -> Iterator[RecordEntry]:
        """What was said."""
        return (RecordEntry(SAID, canonical(one)) for one in self.thread)

    def since(self, stored: Sequence[RecordEntry]) -> list[RecordEntry]:
        """What is not among the entries that are stored of it: told by what they hold, since a
        failover may take words back, and others are said in their place."""
        last = {entry.kind: entry for entry in stored}
        fields, timings = (
            [one] if last.get(one.kind) != one else []
            for one in (
                RecordEntry(FIELDS, canonical(self.fields)),
                RecordEntry(TIMINGS, canonical(self.timings())),
            )
        )
        known = set(stored)
        grows = [*self.said(), *_written(LINE, self.lines), *_written(VIEW, self.views)]
        return [*fields, *(one for one in grows if one not in known), *timings]

    def timings(self) -> dict[str, int | None]:
        """How long it took, and how long people waited."""
        began, ended = self._began, self._ended
        accepted = [int(said["at"]) for _, said in self.lines if said.get("event") == "accepted"]
        lost = [said for _, said in self.lines if said.get("event") == "reclaimed"]
        return {
            "duration_ms": ended - began,
            "longest_reply_ms": max(self._waits(), default=None),
            "human_after_ms": min(accepted) - began if accepted else None,
            "takeovers": len(lost),
        }

    def _waits(self) -> Iterator[int]:
        spoken = {one["turn"]: int(one["at"]) for one in self.thread if one["role"] == "caller"}
        for one in self.thread:
            if one["role"] == "agent" and one["turn"] in spoken:
                yield int(one["at"]) - spoken[one["turn"]]

    def header(self) -> dict[str, Any]:
        """What it is found by; see `schema.HEADER`."""
        return {
            "began_at": self._began,
            "ended_at": self._ended,
            "site": self.fields.get("site"),
            "scenario": self.fields.get("scenario_type"),
            "urgency": self.fields.get("urgency"),
            "outcome": self.fields.get("outcome"),
            "language": self.fields.get("language"),
            "test": self.is_good_test(),
        }

    @property
    def _began(self) -> int:
        return int(self.fields["created_at"])

    @property
    def _ended(self) -> int:
        """When the line was closed; later lines and facts do not move it."""
        ends = [int(said["at"]) for _, said in self.lines if said.get("event") == "ended"]
        return ends[-1] if ends else int(self.fields["updated_at"])

    def is_good_test(self) -> bool:
        """True for a test call of a lift that went as a real one should: it was understood to be a
        test, all that came over the line was answered, nothing was lost, and the line was closed
        by its end and not for having been silent for hours."""
        known = self.fields
        return (
            known.get("scenario_type") in TEST_SCENARIOS
            and known.get("site") is not None
            and 0 < int(known.get("heard") or 0) <= int(known.get("answered") or 0)
            and not known.get("lost")
            and known.get("outcome") != "abandoned"
        )


def _written(kind: str, lines: Sequence[tuple[str, Mapping[str, str]]]) -> Iterator[RecordEntry]:
    return (RecordEntry(kind, canonical({"id": line, **said})) for line, said in lines)
