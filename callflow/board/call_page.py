"""What the page of one call shows: read off its record and its journal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from callflow.board.cells import Cells, age, cells, short_worker
from callflow.board.drawing import Drawing
from callflow.board.sight import Row
from callflow.board.timeline import Lane, Mark, Span, timeline
from callflow.call import acts
from callflow.call.facts import HUMAN_FACTS, known
from callflow.call.history import CallHistory, JournalEntry
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.urgency import MEANINGS
from callflow.i18n import Catalogue
from callflow.responder.approved import approved
from callflow.sites.site import Site
from callflow.store.reader import CallSummary


@dataclass(frozen=True, slots=True)
class Said:
    """One entry of the conversation, and what of it was not heard."""

    role: str
    turn: int | None
    at: int
    heard_text: str
    cut_text: str = ""
    digits: str | None = None
    lang: str | None = None
    by: str | None = None
    now: bool = False
    waits: bool = False
    """A person wants it said, and it was not said yet."""

    @property
    def silence(self) -> bool:
        """Nothing was said: that is something heard, too."""
        return not self.heard_text and not self.cut_text and not self.digits


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the journal."""

    at: int
    event: str
    who: str
    more: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A call at one moment, and whatever its page says of it in one language."""

    record: CallRecord
    journal: Sequence[JournalEntry]
    site: Site | None
    now_ms: int
    w: Catalogue

    def row(self) -> Row:
        """The same row as on the board."""
        fields = self.record.model_dump()
        sight = CallSummary.model_validate({**fields, "journal_length": len(self.journal)})
        return Row.of(sight, CallHistory.of(self.journal), self.site)

    def values(self) -> dict[str, Any]:
        """All that the template wants to know."""
        row = self.row()
        picture = timeline(self.record, self.journal, self.now_ms)
        told = Told(self.w)
        return {
            "sid": self.record.call_sid,
            "revision": row.revision,
            "seen": acts.seen(self.record.acts),
            "notes": self.record.notes,
            "urgency": row.urgency,
            "row_actions": row.actions,
            "cells": self.cells(row),
            "thread": thread(self.record),
            "summary_rows": self._summary(row),
            "facts": self._facts(),
            "chunks": self.record.retrieved_sop_chunks,
            "journal": [line(entry, self.w) for entry in reversed(self.journal)],
            "d": Drawing(picture),
            "told": told,
            "lane_name": told.lane,
            "summary": self._picture_in_short(picture.lanes),
            "clock": clock,
            "iso": iso,
            "phrases": [one for one in approved(self.record).values() if not one.aside],
            "fact_names": tuple(HUMAN_FACTS),
            "urgencies": tuple(MEANINGS),
        }

    def cells(self, row: Row) -> Cells:
        """What its row says."""
        return cells(row.as_dict(), self.w, self.now_ms)

    def _summary(self, row: Row) -> list[tuple[str, str]]:
        record, w = self.record, self.w
        none = w("page.none")
        return [
            ("began", clock(record.created_at)),
            ("site", record.site or none),
            ("state", f"{record.call_state}"),
            ("turns", f"{record.answered} / {record.heard}"),
            ("worker", short_worker(record.assigned_worker) or none),
            ("fence", str(record.fence)),
            ("human", self._human(row) or none),
            ("outcome", w(f"outcome.{record.outcome}") if record.outcome else none),
        ]

    def _human(self, row: Row) -> str:
        """Who is on the line or rung, and why a human is wanted."""
        who = self.cells(row).parts["ladder"]
        if not who and self.record.outcome is None and self.record.handling == "human":
            who = self.w("state.with_a_human")
        return " · ".join(one for one in (who, self.record.needs_human) if one)

    def _facts(self) -> list[tuple[str, str, bool]]:
        return [
            (name, self._value(value), name in self.record.recorded)
            for name, value in known(self.record).items()
        ]

    def _value(self, value: Any) -> str:
        if isinstance(value, bool):
            return self.w("page.yes" if value else "page.no")
        if isinstance(value, list | tuple):
            return ", ".join(self.w(f"flag.{one}") for one in value)
        return str(value)

    def _picture_in_short(self, lanes: Sequence[Lane]) -> str:
        claims = [span for lane in lanes for span in lane.spans if span.look == "claim"]
        lost = sum(span.lost for span in claims)
        return self.w("lane.summary", lanes=len(lanes), claims=len(claims), lost=lost)


def thread(record: CallRecord) -> list[Said]:
    """The conversation, and behind it what is being said at this moment."""
    said = [_said(entry) for entry in record.conversation_thread]
    draft = record.draft
    if draft is not None and draft.turn > record.answered:
        at = record.updated_at
        said.append(Said("agent", draft.turn, at, draft.text, lang=draft.lang, now=True))
    return said + [
        Said("human", None, one.at, one.text, by=one.by, waits=True) for one in record.sayings
    ]


def _said(entry: ThreadEntry) -> Said:
    """What was heard of an entry is its beginning, as a rule; where it is not, both are shown."""
    heard, cut = entry.text, ""
    if entry.heard is not None:
        heard = entry.heard
        cut = entry.text[len(heard) :] if entry.text.startswith(heard) else entry.text
    return Said(
        entry.role,
        entry.turn,
        entry.at,
        heard.strip(),
        cut.strip(),
        entry.digits,
        entry.lang,
        entry.by,
    )


def line(entry: JournalEntry, w: Catalogue) -> Line:
    """One line of the journal in words."""
    more = [
        f"{w('journal.' + name)} {value}"
        for name, value in (("turn", entry.turn), ("fence", entry.fence))
        if value is not None
    ]
    more += [word for word in (entry.write, entry.reason) if word]
    if entry.fact:
        more.append(w(f"fact.{entry.fact}"))
    return Line(entry.at, entry.event, entry.by or short_worker(entry.worker), ", ".join(more))


def clock(at_ms: int) -> str:
    """The time of day by UTC; the browser shows its own."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def iso(at_ms: int) -> str:
    """The same for `<time datetime>`: RFC 3339."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


class Told:
    """Says the spans and marks of a timeline, for whoever does not see the picture."""

    def __init__(self, w: Catalogue) -> None:
        self._w = w

    def lane(self, lane: Lane) -> str:
        """Whose lane it is."""
        return lane.short if lane.kind == "worker" else self._w(f"lane.{lane.kind}")

    def __call__(self, lane: Lane, what: Span | Mark) -> str:
        """One sentence."""
        w = self._w
        if isinstance(what, Mark):
            told = line(what.entry, w)
            said = [w(f"journal.{what.event}"), told.who, told.more]
            return f"{clock(what.at_ms)} {self.lane(lane)}: {', '.join(one for one in said if one)}"
        length = age(what.to_ms - what.from_ms)
        said = [length]
        if what.look == "claim":
            said = [w("lane.claim", fence=what.fence, turn=what.turn, length=length)]
        elif what.look == "ringing":
            said = [w("journal.ringing"), length]
        elif what.look == "human":
            said = [w("journal.accepted"), length]
        said.append(w(f"journal.{what.end}") if what.end else w("lane.goes_on"))
        if what.silent_ms is not None:
            said.append(w("lane.silent", length=age(what.to_ms - what.silent_ms)))
        if what.reason and what.end in ("reclaimed", "handed_back"):
            said.append(what.reason)
        return f"{clock(what.from_ms)} {self.lane(lane)}: {', '.join(said)}"
