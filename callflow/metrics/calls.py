"""Counts what the journals of calls say, and how long it took.

The journal is written by the scripts that change the records, on the server's clock, so all web
processes count the same. A line that is older than this process is read and not counted: it tells
where a call stands, and was counted by those who were here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from callflow.call.history import CallHistory, JournalEntry, Measure, Measured
from callflow.call.ladder import TAKEN_OVER
from callflow.call.state import CallState
from callflow.metrics.catalogue import CAUSES, MISTAKES, RINGS
from callflow.metrics.tally import Tally
from callflow.store.reader import CallsOverview, CallSummary

FAILED: Final = "failed"
UNCLAIMED: Final = "unclaimed"

_COUNTED: Final = {
    "opened": "calls_opened",
    "heard": "turns_heard",
    "committed": "turns_answered",
    "interrupted": "replies_interrupted",
}
"""Events that are counted by themselves."""

_COUNTED_BY_REASON: Final = {
    "refused": "refused_writes",
    "alerted": "humans_wanted",
    # By the carrier, at once: there is no alert, and no word of who came.
    "put_through": "transfers",
    "ended": "calls_ended",
}

_TIMES: Final[dict[Measure, tuple[str, str | None]]] = {
    Measure.CLAIM_WAIT: ("claim_wait_seconds", None),
    Measure.UNDERSTAND: ("turn_stage_seconds", "understand"),
    Measure.FIRST_WORDS: ("turn_stage_seconds", "first_words"),
    Measure.REST: ("turn_stage_seconds", "rest"),
    Measure.REPLY_WAIT: ("caller_silence_seconds", None),
    Measure.TURN: ("turn_seconds", None),
    Measure.HUMAN_WAIT: ("human_answer_seconds", None),
}
"""What is measured → the histogram, and its label."""


class CallMetrics:
    """Counts in `tally` what happens to calls. `owed_ms` and `overdue_ms` as in `Timing`."""

    def __init__(self, tally: Tally, *, owed_ms: int, overdue_ms: int) -> None:
        self._tally = tally
        self._owed_ms = owed_ms
        self._overdue_ms = overdue_ms
        self._since: int | None = None
        self._calls: dict[str, CallHistory] = {}
        self._missed: dict[str, int] = {}
        """the last heartbeat of a call behind which one was missed"""

    def look(self, look: CallsOverview) -> None:
        """Take note of the heartbeats in sight, and forget the calls that are not. The first look
        is the moment from which on things are counted; lines that came before it are old."""
        if self._since is None:
            self._since = look.now_ms
            self._tally.begin(look.now_ms)
        for sight in look.calls:
            if sight.call_state is CallState.IN_PROGRESS and sight.last_heartbeat is not None:
                self._see_beat(look.now_ms, sight, sight.last_heartbeat)
        if not look.blind and len(self._calls) > len(look.calls):
            seen = {sight.call_sid for sight in look.calls}
            for gone in self._calls.keys() - seen:
                del self._calls[gone]
                self._missed.pop(gone, None)

    def lines(self, call_sid: str, _sight: CallSummary, entries: Sequence[JournalEntry]) -> None:
        """New lines of one call's journal, in their order; each is to be given once."""
        history = self._history(call_sid)
        for entry in entries:
            with_human = history.with_human
            ended = history.add(entry)
            if self._since is not None and entry.at >= self._since:
                self._count(entry, with_human)
                for measured in ended:
                    self._observe(measured)

    def awaited_since(self, call_sids: Iterable[str]) -> list[int]:
        """Since when humans have been wanted in those of the calls that have none."""
        found = (self._calls.get(call_sid) for call_sid in call_sids)
        return [one.wanted_at for one in found if one is not None and one.wanted_at is not None]

    def _history(self, call_sid: str) -> CallHistory:
        return self._calls.setdefault(call_sid, CallHistory(keep=1))

    def _see_beat(self, now_ms: int, sight: CallSummary, beat_at: int) -> None:
        self._history(sight.call_sid).see_beat(sight.fence, beat_at)
        overdue = now_ms - beat_at > self._overdue_ms
        if overdue and self._missed.get(sight.call_sid) != beat_at:
            self._missed[sight.call_sid] = beat_at
            self._tally.count("heartbeats_missed", now_ms)

    def _count(self, entry: JournalEntry, with_human: bool) -> None:
        """`with_human`: a human had the call already."""
        event, count = entry.event, self._tally.count
        count("journal_lines", entry.at, event)
        if event in _COUNTED:
            count(_COUNTED[event], entry.at)
        elif event in _COUNTED_BY_REASON:
            count(_COUNTED_BY_REASON[event], entry.at, entry.reason)
        elif event == TAKEN_OVER:
            count("humans_wanted", entry.at, TAKEN_OVER)
        elif event in RINGS:
            count("rings", entry.at, event)
        elif event == "lost":
            count("turns_lost", entry.at, by=entry.count or 1)
        elif event in ("transferred", "accepted") and not with_human:
            count("transfers", entry.at, entry.reason)
        elif event == "remarked":
            self._count_remark(entry)

    def _count_remark(self, entry: JournalEntry) -> None:
        who, _, what = (entry.reason or "").partition(":")
        if who == "guard":
            self._tally.count("guard_catches", entry.at, what)
        elif who == "model" and what == "script":
            self._tally.count("model_fallbacks", entry.at)
        elif who == "model":
            name = "model_mistakes" if what in MISTAKES else "model_failures"
            self._tally.count(name, entry.at, what)

    def _observe(self, measured: Measured) -> None:
        if measured.measure in _TIMES:
            name, label = _TIMES[measured.measure]
            self._tally.observe(name, measured.at, measured.ms, label)
        cause = None
        if measured.measure is Measure.TAKEOVER:
            cause = measured.cause if measured.cause in CAUSES else FAILED
        elif measured.measure is Measure.CLAIM_WAIT and measured.ms > self._owed_ms:
            cause = UNCLAIMED
        if cause is not None:
            self._tally.observe("takeover_seconds", measured.at, measured.ms, cause)
