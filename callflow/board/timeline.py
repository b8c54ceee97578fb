"""One call as lanes over time: what the caller said, who worked on it, which person had it. Pure.

A lane each for the caller, for every worker process that ever held the call, for the person who was
rung, and for people at the board. All of it is read off the journal, which the scripts that change
the record write, so the picture cannot tell another story than the record.

The journal has no line for a beat that was accepted (there are five a second). Signs of life are
what a worker wrote in its turn, and of whoever holds the call now the last beat in the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.store.journal import JournalEntry

Kind = Literal["caller", "worker", "human", "desk"]

ENDINGS: Final = frozenset({"committed", "handed_back", "reclaimed"})
"""What takes the call off a worker and is told with its fence."""

FOR_ALL: Final = frozenset({"transferred", "accepted", "ended"})
"""What takes it off whoever has it."""

SIGNS_OF_LIFE: Final = frozenset({"understood", "drafted"})

CALLERS: Final = frozenset({"opened", "heard", "interrupted", "lost", "ended"})

HUMANS: Final = frozenset(
    (
        *("alerted", "ringing", "ring_confirmed", "not_answered", "ring_failed"),
        *("nobody_to_ring", "transferred", "accepted", "resumed", "fetch_failed"),
    )
)
"""What happened on the way to a person, and back."""


@dataclass(slots=True)
class Span:
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


@dataclass(frozen=True, slots=True)
class Mark:
    """One moment in a lane: the event of the journal, and what is known of it."""

    at_ms: int
    event: str
    entry: JournalEntry


@dataclass(slots=True)
class Lane:
    """One row of the picture. `name`: the worker's, in full; '' where the kind says it all."""

    kind: Kind
    name: str = ""
    spans: list[Span] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)

    @property
    def short(self) -> str:
        """`worker1/4711` for `worker1@host/4711-ab12`: which process, for people."""
        node, _, process = self.name.partition("/")
        return f"{node.partition('@')[0]}/{process.partition('-')[0]}" if process else self.name


@dataclass(frozen=True, slots=True)
class Link:
    """The call passes from one lane to another: `takeover` or `transfer`."""

    look: Literal["takeover", "transfer"]
    from_lane: int
    from_ms: int
    to_lane: int
    to_ms: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The whole picture; all times ms on the server's clock."""

    from_ms: int
    to_ms: int
    lanes: tuple[Lane, ...]
    links: tuple[Link, ...]

    def told(self) -> list[tuple[Lane, Span | Mark]]:
        """The same in the order in which it happened: what is read out instead of the picture."""
        found: list[tuple[int, Lane, Span | Mark]] = []
        for lane in self.lanes:
            found += [(span.from_ms, lane, span) for span in lane.spans]
            found += [
                (mark.at_ms, lane, mark) for mark in lane.marks if mark.event not in SIGNS_OF_LIFE
            ]
        return [(lane, what) for _, lane, what in sorted(found, key=lambda one: one[0])]


def timeline(record: CallRecord, journal: Sequence[JournalEntry], now_ms: int) -> Timeline:
    """The picture of a call. `now_ms`, the server's clock, is where what goes on still ends."""
    drawing = _Drawing()
    for entry in journal:
        drawing.add(entry)
    over = record.call_state is CallState.COMPLETE
    end_ms = max([record.created_at, *(entry.at for entry in journal)])
    to_ms = end_ms if over else max(now_ms, end_ms)
    return drawing.finished(record, to_ms)


class _Drawing:
    """Takes the journal line by line."""

    def __init__(self) -> None:
        self._caller = Lane("caller")
        self._human = Lane("human")
        self._desk = Lane("desk")
        self._workers: dict[str, Lane] = {}
        self._held: tuple[Lane, Span] | None = None
        self._rung: Span | None = None
        self._talks: Span | None = None
        self._lost: tuple[Lane, int] | None = None
        self._links: list[tuple[Literal["takeover", "transfer"], Lane, int, Lane, int]] = []

    def add(self, entry: JournalEntry) -> None:
        """One more line."""
        mark = Mark(entry.at, entry.event, entry)
        if entry.event == "claimed":
            self._claimed(entry)
        elif entry.event in SIGNS_OF_LIFE:
            self._alive(mark)
        elif entry.event == "refused":
            self._refused(mark)
        elif entry.event in ENDINGS:
            self._let_go(entry)
        if entry.event in FOR_ALL:
            self._let_go(entry)
        if entry.event in CALLERS:
            self._caller.marks.append(mark)
        if entry.event in HUMANS:
            self._human.marks.append(mark)
        if entry.by is not None:
            self._desk.marks.append(mark)
        self._people(entry)

    def _claimed(self, entry: JournalEntry) -> None:
        if self._held is not None:  # Its end was lost in a failover.
            self._let_go(entry)
        name = entry.worker or "?"
        lane = self._workers.setdefault(name, Lane("worker", name))
        span = Span(entry.at, entry.at, fence=entry.fence, turn=entry.turn)
        lane.spans.append(span)
        self._held = lane, span
        if self._lost is not None:
            before, at_ms = self._lost
            self._links.append(("takeover", before, at_ms, lane, entry.at))
            self._lost = None

    def _alive(self, mark: Mark) -> None:
        if self._held is not None:
            self._held[0].marks.append(mark)

    def _refused(self, mark: Mark) -> None:
        """A write that came too late: it belongs to whoever once had that fence."""
        for lane in self._workers.values():
            if any(span.fence == mark.entry.fence for span in lane.spans):
                lane.marks.append(mark)

    def _let_go(self, entry: JournalEntry) -> None:
        if self._held is None:
            return
        lane, span = self._held
        span.to_ms, span.end, span.reason = entry.at, entry.event, entry.reason
        if span.lost:
            alive = [mark.at_ms for mark in lane.marks if mark.at_ms >= span.from_ms]
            span.silent_ms = max([span.from_ms, *alive])
        if entry.event in ("reclaimed", "handed_back"):
            self._lost = lane, entry.at
        if entry.event == "transferred":
            self._links.append(("transfer", lane, entry.at, self._human, entry.at))
        self._held = None

    def _people(self, entry: JournalEntry) -> None:
        if entry.event == "ringing":
            self._end_ring(entry)
            self._rung = Span(entry.at, entry.at, look="ringing", reason=entry.reason)
            self._human.spans.append(self._rung)
        elif entry.event in ("not_answered", "ring_failed", "accepted", "ended"):
            self._end_ring(entry)
        if entry.event == "accepted" and self._talks is None:
            self._talks = Span(entry.at, entry.at, look="human")
            self._human.spans.append(self._talks)
        elif entry.event in ("resumed", "ended") and self._talks is not None:
            self._talks.to_ms, self._talks.end = entry.at, entry.event
            self._talks = None

    def _end_ring(self, entry: JournalEntry) -> None:
        if self._rung is not None:
            self._rung.to_ms, self._rung.end = entry.at, entry.event
            self._rung = None

    def finished(self, record: CallRecord, to_ms: int) -> Timeline:
        """The picture; what goes on still goes on to `to_ms`."""
        for span in (self._rung, self._talks, self._held and self._held[1]):
            if span is not None:
                span.to_ms = to_ms
        if self._held is not None and record.last_heartbeat is not None:
            beat = JournalEntry(event="beat", at=record.last_heartbeat, fence=record.fence)
            self._held[0].marks.append(Mark(beat.at, "beat", beat))
        shown = [self._caller, *self._workers.values()]
        shown += [lane for lane in (self._human, self._desk) if lane.spans or lane.marks]
        number = {id(lane): row for row, lane in enumerate(shown)}
        links = tuple(
            Link(look, number[id(one)], from_ms, number[id(other)], at_ms)
            for look, one, from_ms, other, at_ms in self._links
        )
        return Timeline(record.created_at, to_ms, tuple(shown), links)
