"""Prepares what the page of one call shows, from its record and its journal. Pure.

Its timeline has a lane each for the caller, for every worker process that ever held the call, for
the person who was rung, and for people at the board. All of it is read off the journal, which the
scripts that change the record write, so the picture cannot tell another story than the record. The
template draws; here is where everything stands.

The journal has no line for a beat that was accepted (there are five a second). Signs of life are
what a worker wrote in its turn, and of whoever holds the call now the last beat in the record.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, Final, Literal

from callflow.board.rows import BoardRow, RowCells, age, row_cells, short_worker, time_of_day
from callflow.call import edits
from callflow.call.facts import HUMAN_FACTS, known
from callflow.call.history import CallHistory, Claim, JournalEntry
from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.state import CallState
from callflow.call.urgency import MEANINGS
from callflow.call.utterance import SURE_CONFIDENCE
from callflow.i18n import Catalogue
from callflow.responder.scripted import approved
from callflow.sites.site import Site
from callflow.store.reader import CallSummary

Kind = Literal["caller", "worker", "human", "desk"]

SIGNS_OF_LIFE: Final = frozenset({"understood", "drafted"})

CALLERS: Final = frozenset({"opened", "heard", "interrupted", "lost", "ended"})

HUMANS: Final = frozenset(
    (
        *("alerted", "ringing", "ring_confirmed", "not_answered", "ring_failed"),
        *("nobody_to_ring", "transferred", "accepted", "resumed", "fetch_failed"),
    )
)
"""What happened on the way to a person, and back."""


LEFT: Final = 16
"""Before the beginning of the call, px; the names of the lanes stand beside the picture."""
RIGHT: Final = 24
TOP: Final = 8
LANE: Final = 34
BAR: Final = 18
AXIS: Final = 26
PX_PER_S: Final = 14.0
LEAST_WIDTH: Final = 560.0
MOST_WIDTH: Final = 6_000.0
LABEL: Final = 30.0
"""Room that a fence's number needs in its bar, px."""
LEAST_BAR: Final = 3.0
TICK_PX: Final = 70.0


@dataclass(slots=True)
class LaneSpan:
    """For how long one had the call, ms. `end`: the event that ended it, '' while it goes on.

    `silent_ms`: from when on nothing more was heard of a worker that was lost.
    """

    from_ms: int
    to_ms: int
    end: str = ""
    fence: int | None = None
    turn: int | None = None
    reason: str | None = None
    silent_ms: int | None = None
    look: str = "claim"

    @property
    def lost(self) -> bool:
        """True where a worker fell silent in it."""
        return self.end == "reclaimed"


@dataclass(slots=True)
class Lane:
    """One row of the picture. `name`: the worker's, in full; '' where the kind says it all."""

    kind: Kind
    name: str = ""
    spans: list[LaneSpan] = field(default_factory=list)
    marks: list[JournalEntry] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class LaneLink:
    """The call passes from one lane to another: `takeover` or `transfer`."""

    look: Literal["takeover", "transfer"]
    from_lane: int
    from_ms: int
    to_lane: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The picture. Times are ms on the server's clock, places px: it is as wide as the call is
    long, within bounds, and scrolls in a frame of its own."""

    from_ms: int
    to_ms: int
    lanes: tuple[Lane, ...]
    links: tuple[LaneLink, ...]

    def in_order(self) -> list[tuple[Lane, LaneSpan | JournalEntry]]:
        """Everything in the order in which it happened: read out instead of the picture."""
        found: list[tuple[int, Lane, LaneSpan | JournalEntry]] = []
        for lane in self.lanes:
            found += [(span.from_ms, lane, span) for span in lane.spans]
            marks = [mark for mark in lane.marks if mark.event not in SIGNS_OF_LIFE]
            found += [(mark.at, lane, mark) for mark in marks]
        return [(lane, item) for _, lane, item in sorted(found, key=lambda one: one[0])]

    @property
    def inner(self) -> float:
        """Width of that part which shows time."""
        wanted = (self.to_ms - self.from_ms) / 1000 * PX_PER_S
        return min(MOST_WIDTH, max(LEAST_WIDTH, wanted))

    @property
    def width(self) -> int:
        """Of the whole picture."""
        return round(LEFT + self.inner + RIGHT)

    @property
    def bottom(self) -> int:
        """Where the lanes end and the axis begins."""
        return TOP + LANE * len(self.lanes)

    @property
    def height(self) -> int:
        """Of the whole picture."""
        return self.bottom + AXIS

    def x(self, at_ms: int) -> float:
        """Where a moment is; what lies outside stands at the border."""
        length = max(1, self.to_ms - self.from_ms)
        share = (at_ms - self.from_ms) / length
        return round(LEFT + min(1.0, max(0.0, share)) * self.inner, 1)

    def wide(self, from_ms: int, to_ms: int) -> float:
        """How wide a bar is: never too thin to be seen."""
        return round(max(LEAST_BAR, self.x(to_ms) - self.x(from_ms)), 1)

    def roomy(self, from_ms: int, to_ms: int) -> bool:
        """True where a label fits into the bar."""
        return self.wide(from_ms, to_ms) >= LABEL

    def y(self, lane: int) -> int:
        """The top of a lane's bars."""
        return TOP + LANE * lane + (LANE - BAR) // 2

    def middle(self, lane: int) -> int:
        """The middle of a lane."""
        return TOP + LANE * lane + LANE // 2

    def path(self, link: LaneLink) -> str:
        """The way of the call from one lane to another."""
        begin, end = self.x(link.from_ms), self.x(link.to_ms)
        return f"M{begin} {self.middle(link.from_lane)} L{end} {self.middle(link.to_lane)}"

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Places on the axis, and how long after the call's beginning each is."""
        length_s = max(0.001, (self.to_ms - self.from_ms) / 1000)
        px_per_s = self.inner / length_s
        steps = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 21_600)
        step = next((one for one in steps if one * px_per_s >= TICK_PX), 86_400)
        for at_s in range(0, int(length_s) + 1, step):
            minutes, seconds = divmod(at_s, 60)
            yield self.x(self.from_ms + at_s * 1000), f"{minutes}:{seconds:02d}"


def build_timeline(record: CallRecord, journal: Sequence[JournalEntry], now_ms: int) -> Timeline:
    """The picture of a call. `now_ms`, the server's clock, is where what goes on still ends."""
    over = record.call_state is CallState.COMPLETE
    end_ms = max([record.created_at, *(entry.at for entry in journal)])
    to_ms = end_ms if over else max(now_ms, end_ms)
    lanes = _Lanes(to_ms)
    for entry in journal:
        lanes.mark(entry)
    lanes.add_claims(record)
    return lanes.timeline(record.created_at)


class _Lanes:
    """Sorts the lines of a journal into lanes. What goes on still goes on to `to_ms`."""

    def __init__(self, to_ms: int) -> None:
        self._to_ms = to_ms
        self._history = CallHistory()
        self._caller, self._human, self._desk = Lane("caller"), Lane("human"), Lane("desk")
        self._workers: dict[str, Lane] = {}
        self._open: dict[str, LaneSpan] = {}
        """what goes on in the lane of the human: ringing, or talking"""

    def mark(self, entry: JournalEntry) -> None:
        """One more line, to be marked in the lanes that it belongs to."""
        self._history.add(entry)
        claim = self._history.claim
        if entry.event == "claimed":
            self._worker(claim)
        elif entry.event in SIGNS_OF_LIFE and claim is not None:
            self._worker(claim).marks.append(entry)
        elif entry.event == "refused":
            # A write that came too late: it belongs to whoever once had that fence.
            late = [one for one in self._history.claims if one.fence == entry.fence]
            for lane in {id(found): found for found in map(self._worker, late)}.values():
                lane.marks.append(entry)
        if entry.event in CALLERS:
            self._caller.marks.append(entry)
        if entry.event in HUMANS:
            self._human.marks.append(entry)
        if entry.by is not None:
            self._desk.marks.append(entry)
        self._follow_human(entry)

    def _worker(self, claim: Claim | None) -> Lane:
        name = claim.worker if claim is not None and claim.worker else "?"
        return self._workers.setdefault(name, Lane("worker", name))

    def _follow_human(self, entry: JournalEntry) -> None:
        if entry.event in ("ringing", "not_answered", "ring_failed", "accepted", "ended"):
            self._end("ringing", entry)
        if entry.event == "ringing":
            self._begin("ringing", entry, entry.reason)
        elif entry.event == "accepted" and "human" not in self._open:
            self._begin("human", entry)
        elif entry.event in ("resumed", "ended"):
            self._end("human", entry)

    def _begin(self, look: str, entry: JournalEntry, reason: str | None = None) -> None:
        self._open[look] = LaneSpan(entry.at, self._to_ms, look=look, reason=reason)
        self._human.spans.append(self._open[look])

    def _end(self, look: str, entry: JournalEntry) -> None:
        span = self._open.pop(look, None)
        if span is not None:
            span.to_ms, span.end = entry.at, entry.event

    def add_claims(self, record: CallRecord) -> None:
        """Draw who had the call, and when, and the last beat of whoever has it now."""
        for claim in self._history.claims:
            span = LaneSpan(claim.at, claim.ended_at or self._to_ms, claim.ended_by or "")
            span.fence, span.turn, span.reason = claim.fence, claim.turn, claim.reason
            span.silent_ms = claim.last_sign_at if span.lost else None
            self._worker(claim).spans.append(span)
        held = self._history.claim
        if held is not None and record.last_heartbeat is not None:
            beat = JournalEntry(event="beat", at=record.last_heartbeat, fence=record.fence)
            self._worker(held).marks.append(beat)

    def timeline(self, from_ms: int) -> Timeline:
        """The picture."""
        lanes = [self._caller, *self._workers.values()]
        lanes += [lane for lane in (self._human, self._desk) if lane.spans or lane.marks]
        rows = {id(lane): row for row, lane in enumerate(lanes)}
        links = []
        for claim, later in pairwise([*self._history.claims, None]):
            row, end_ms = rows[id(self._worker(claim))], claim.ended_at if claim else None
            if claim is None or end_ms is None:
                continue
            if claim.ended_by == "transferred":
                links.append(LaneLink("transfer", row, end_ms, rows[id(self._human)], end_ms))
            elif later is not None and claim.taken_up_by == "claimed":
                next_row = rows[id(self._worker(later))]
                links.append(LaneLink("takeover", row, end_ms, next_row, later.at))
        return Timeline(from_ms, self._to_ms, tuple(lanes), tuple(links))


Mark = Literal["", "now", "waits"]
"""Of an entry: it is being said, or a person wants it said, and it was not said yet."""


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
            "journal": [(one, *journal_words(one, self.w)) for one in reversed(self.journal)],
            "split_heard": split_heard,
            "is_unsure": is_unsure,
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


def transcript(record: CallRecord) -> list[tuple[ThreadEntry, Mark]]:
    """The conversation, and behind it what is being said at this moment."""
    draft = record.draft
    entries: list[tuple[ThreadEntry, Mark]] = [(one, "") for one in record.conversation_thread]
    if draft is not None and draft.turn > record.answered:
        given = draft.model_dump(include={"turn", "text", "lang"})
        entries.append((ThreadEntry(role="agent", at=record.updated_at, **given), "now"))
    for one in record.sayings:
        said = ThreadEntry(role="human", turn=0, text=one.text, at=one.at, by=one.by)
        entries.append((said, "waits"))
    return entries


def split_heard(entry: ThreadEntry) -> tuple[str, str]:
    """What of an entry was heard, and what was not. What was heard of it is its beginning, as a
    rule; where it is not, both are shown."""
    heard = entry.reached
    whole = heard if entry.heard is None else entry.text
    return heard.strip(), whole.removeprefix(heard).strip()


def is_unsure(entry: ThreadEntry) -> bool:
    """True where the recogniser doubts what it has heard."""
    return entry.confidence is not None and entry.confidence < SURE_CONFIDENCE


def journal_words(entry: JournalEntry, w: Catalogue) -> tuple[str, str]:
    """Who stands in one line of the journal, and what more is told."""
    more = [
        f"{w('journal.' + name)} {value}"
        for name, value in (("turn", entry.turn), ("fence", entry.fence))
        if value is not None
    ]
    more += [word for word in (entry.write, entry.reason) if word]
    if entry.fact:
        more.append(w(f"fact.{entry.fact}"))
    return entry.by or short_worker(entry.worker), ", ".join(more)


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
        at_ms, words = item.at, [w(f"journal.{item.event}"), *journal_words(item, w)]
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
