"""Prepares what the page of one call shows, from its record and its journal. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from callflow.board.cells import RowCells, age, row_cells, short_worker, time_of_day
from callflow.board.rows import BoardRow
from callflow.board.timeline import Lane, LaneSpan, build_timeline
from callflow.call import edits
from callflow.call.facts import HUMAN_FACTS, known
from callflow.call.history import CallHistory, JournalEntry
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.urgency import MEANINGS
from callflow.i18n import Catalogue
from callflow.responder.scripted import approved
from callflow.sites.site import Site
from callflow.store.reader import CallSummary


@dataclass(frozen=True, slots=True)
class TranscriptEntry:
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
class JournalLine:
    """One line of the journal, in words."""

    at: int
    event: str
    who: str
    more: str


@dataclass(frozen=True, slots=True)
class CallPage:
    """A call at one moment, and whatever its page says of it in one language."""

    record: CallRecord
    journal: Sequence[JournalEntry]
    site: Site | None
    now_ms: int
    w: Catalogue

    def row(self) -> BoardRow:
        """The same row as on the board."""
        fields = {**self.record.model_dump(), "journal_length": len(self.journal)}
        summary = CallSummary.model_validate(fields)
        return BoardRow.of(summary, CallHistory.of(self.journal), self.site)

    def values(self) -> dict[str, Any]:
        """All that the template wants to know."""
        row = self.row()
        cells = row_cells(row.to_dict(), self.w, self.now_ms)
        timeline = build_timeline(self.record, self.journal, self.now_ms)
        return {
            "sid": self.record.call_sid,
            "revision": row.revision,
            "seen": edits.version_token(self.record.acts),
            "notes": self.record.notes,
            "urgency": row.urgency,
            "row_actions": row.actions,
            "cells": cells,
            "thread": transcript(self.record),
            "summary_rows": self._summary(cells),
            "facts": self._facts(),
            "chunks": self.record.retrieved_sop_chunks,
            "journal": [journal_line(entry, self.w) for entry in reversed(self.journal)],
            "timeline": timeline,
            "in_words": partial(describe, w=self.w),
            "lane_name": partial(lane_name, w=self.w),
            "summary": self._timeline_summary(timeline.lanes),
            "clock": time_of_day,
            "iso": rfc3339,
            "phrases": [one for one in approved(self.record).values() if not one.aside],
            "fact_names": tuple(HUMAN_FACTS),
            "urgencies": tuple(MEANINGS),
        }

    def _summary(self, cells: RowCells) -> list[tuple[str, str]]:
        record, w = self.record, self.w
        none = w("page.none")
        return [
            ("began", time_of_day(record.created_at)),
            ("site", record.site or none),
            ("state", f"{record.call_state}"),
            ("turns", f"{record.answered} / {record.heard}"),
            ("worker", short_worker(record.assigned_worker) or none),
            ("fence", str(record.fence)),
            ("human", self._human(cells) or none),
            ("outcome", w(f"outcome.{record.outcome}") if record.outcome else none),
        ]

    def _human(self, cells: RowCells) -> str:
        """Who is on the line or rung, and why a human is wanted."""
        who = cells.parts["ladder"]
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

    def _timeline_summary(self, lanes: Sequence[Lane]) -> str:
        claims = [span for lane in lanes for span in lane.spans if span.look == "claim"]
        lost = sum(span.lost for span in claims)
        return self.w("lane.summary", lanes=len(lanes), claims=len(claims), lost=lost)


def transcript(record: CallRecord) -> list[TranscriptEntry]:
    """The conversation, and behind it what is being said at this moment."""
    entries = [_transcript_entry(entry) for entry in record.conversation_thread]
    draft = record.draft
    if draft is not None and draft.turn > record.answered:
        at = record.updated_at
        entries.append(
            TranscriptEntry("agent", draft.turn, at, draft.text, lang=draft.lang, now=True)
        )
    return entries + [
        TranscriptEntry("human", None, one.at, one.text, by=one.by, waits=True)
        for one in record.sayings
    ]


def _transcript_entry(entry: ThreadEntry) -> TranscriptEntry:
    """What was heard of an entry is its beginning, as a rule; where it is not, both are shown."""
    heard, cut = entry.text, ""
    if entry.heard is not None:
        heard = entry.heard
        cut = entry.text[len(heard) :] if entry.text.startswith(heard) else entry.text
    return TranscriptEntry(
        entry.role,
        entry.turn,
        entry.at,
        heard.strip(),
        cut.strip(),
        entry.digits,
        entry.lang,
        entry.by,
    )


def journal_line(entry: JournalEntry, w: Catalogue) -> JournalLine:
    """One line of the journal in words."""
    more = [
        f"{w('journal.' + name)} {value}"
        for name, value in (("turn", entry.turn), ("fence", entry.fence))
        if value is not None
    ]
    more += [word for word in (entry.write, entry.reason) if word]
    if entry.fact:
        more.append(w(f"fact.{entry.fact}"))
    return JournalLine(
        entry.at, entry.event, entry.by or short_worker(entry.worker), ", ".join(more)
    )


def rfc3339(at_ms: int) -> str:
    """A moment for `<time datetime>`."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")


def lane_name(lane: Lane, w: Catalogue) -> str:
    """Whose lane it is."""
    if lane.kind != "worker":
        return w(f"lane.{lane.kind}")
    return short_worker(lane.name) if "/" in lane.name else lane.name


def describe(lane: Lane, item: LaneSpan | JournalEntry, w: Catalogue) -> str:
    """A span or mark of the timeline in one sentence, for whoever does not see the picture."""
    if isinstance(item, JournalEntry):
        line = journal_line(item, w)
        at_ms, words = item.at, [w(f"journal.{item.event}"), line.who, line.more]
    else:
        at_ms, words = item.from_ms, _span_words(item, w)
    said = ", ".join(one for one in words if one)
    return f"{time_of_day(at_ms)} {lane_name(lane, w)}: {said}"


def _span_words(span: LaneSpan, w: Catalogue) -> list[str]:
    length = age(span.to_ms - span.from_ms)
    words = [length]
    if span.look == "claim":
        words = [w("lane.claim", fence=span.fence, turn=span.turn, length=length)]
    elif span.look == "ringing":
        words = [w("journal.ringing"), length]
    elif span.look == "human":
        words = [w("journal.accepted"), length]
    words.append(w(f"journal.{span.end}") if span.end else w("lane.goes_on"))
    if span.silent_ms is not None:
        words.append(w("lane.silent", length=age(span.to_ms - span.silent_ms)))
    if span.reason and span.end in ("reclaimed", "handed_back"):
        words.append(span.reason)
    return words
