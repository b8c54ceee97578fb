"""Follows every call through its journal, and counts: what the journal says, and how long it took.

The journal is written by the scripts that change the records, on the server's clock, so all web
processes count the same. A line that is older than this process is read and not counted: it tells
where a call stands, and was counted by those who were here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from callflow.call.ladder import TAKEN_OVER
from callflow.call.state import CallState
from callflow.heartbeat import DEADLINE, DRAINED
from callflow.metrics.tally import Tally
from callflow.store.journal import JournalEntry
from callflow.store.watching import Look, Sight
from callflow.watchdog import GONE, SILENT

FAILED: Final = "failed"
UNCLAIMED: Final = "unclaimed"

_NAMED: Final = frozenset({GONE, SILENT, DRAINED, DEADLINE})


@dataclass(slots=True)
class Claim:
    """The turn that a worker has, or had last. Times are ms on the server's clock."""

    at: int
    fence: int
    understood_at: int | None = None


@dataclass(slots=True)
class Followed:
    """Where one call stands, as far as the times that are measured need it."""

    owed: dict[int, int] = field(default_factory=dict)
    """since when the turns that are not answered have been owed"""
    answered_at: int = 0
    worded_at: int | None = None
    """when the first words of the reply to it were stored"""
    claim: Claim | None = None
    fallen: tuple[int, str] | None = None
    """since when it is to be taken over, and the cause"""
    wanted_at: int | None = None
    """since when a human is wanted and none has come"""
    with_human: bool = False
    seen_beat: tuple[int, int] = 0, 0
    """the last heartbeat that was seen: with which fence, and when"""
    counted_beat: int = 0
    """the last heartbeat behind which one was missed"""

    def start(self, turn: int) -> int | None:
        """Since when the caller has waited for the reply to `turn`; None: not known."""
        since = self.owed.get(turn)
        # What was said into a reply is owed from the end of that reply.
        return None if since is None else max(since, self.answered_at)

    def answered(self, turn: int, at: int) -> None:
        """Nothing up to `turn` is owed any more."""
        self.owed = {later: since for later, since in self.owed.items() if later > turn}
        self.answered_at = at
        self.worded_at, self.claim, self.fallen = None, None, None


class Calls:
    """Counts in `tally` what happens to calls. `owed_ms` and `overdue_ms` as in `Timing`."""

    def __init__(self, tally: Tally, *, owed_ms: int, overdue_ms: int) -> None:
        self._tally = tally
        self._owed_ms = owed_ms
        self._overdue_ms = overdue_ms
        self._since: int | None = None
        self._calls: dict[str, Followed] = {}

    def look(self, look: Look) -> None:
        """Take note of the heartbeats in sight, and forget the calls that are not. The first look
        is the moment from which on things are counted; lines that came before it are old."""
        if self._since is None:
            self._since = look.now_ms
            self._tally.begin(look.now_ms)
        for sight in look.sights:
            if sight.call_state is CallState.IN_PROGRESS and sight.last_heartbeat is not None:
                self._beat(look.now_ms, sight, sight.last_heartbeat)
        if not look.blind and len(self._calls) > len(look.sights):
            seen = {sight.call_sid for sight in look.sights}
            for gone in self._calls.keys() - seen:
                del self._calls[gone]

    def lines(self, call_sid: str, _sight: Sight, entries: Sequence[JournalEntry]) -> None:
        """New lines of one call's journal, in their order; each is to be given once."""
        call = self._calls.setdefault(call_sid, Followed())
        for entry in entries:
            if follow := _FOLLOWS.get(entry.event):
                follow(self, call, entry)
            self._count("journal_lines", entry, entry.event)

    def awaited_since(self, call_sids: Iterable[str]) -> list[int]:
        """Since when humans have been wanted in those of the calls that have none."""
        found = (self._calls.get(call_sid) for call_sid in call_sids)
        return [one.wanted_at for one in found if one is not None and one.wanted_at is not None]

    def _beat(self, now_ms: int, sight: Sight, beat_at: int) -> None:
        call = self._calls.setdefault(sight.call_sid, Followed())
        call.seen_beat = sight.fence, beat_at
        if now_ms - beat_at > self._overdue_ms and call.counted_beat != beat_at:
            call.counted_beat = beat_at
            self._tally.count("heartbeats_missed", now_ms)

    def _count(
        self, name: str, entry: JournalEntry, label: str | None = None, by: float = 1
    ) -> None:
        if self._new(entry):
            self._tally.count(name, entry.at, label, by)

    def _took(
        self, name: str, entry: JournalEntry, since: int | None, label: str | None = None
    ) -> None:
        if since is not None and self._new(entry):
            self._tally.observe(name, entry.at, entry.at - since, label)

    def _new(self, entry: JournalEntry) -> bool:
        return self._since is not None and entry.at >= self._since

    def _opened(self, _call: Followed, entry: JournalEntry) -> None:
        self._count("calls_opened", entry)

    def _heard(self, call: Followed, entry: JournalEntry) -> None:
        self._count("turns_heard", entry)
        if entry.turn is not None and not call.with_human:
            call.owed[entry.turn] = entry.at

    def _claimed(self, call: Followed, entry: JournalEntry) -> None:
        since = None if entry.turn is None else call.start(entry.turn)
        if call.fallen is not None:
            self._taken_over(call, entry)
        elif since is not None:
            self._took("claim_wait_seconds", entry, since)
            if entry.at - since > self._owed_ms:
                self._took("takeover_seconds", entry, since, UNCLAIMED)
        call.claim = Claim(entry.at, entry.fence or 0)

    def _understood(self, call: Followed, entry: JournalEntry) -> None:
        claim = call.claim
        if claim is not None and claim.fence == entry.fence and claim.understood_at is None:
            claim.understood_at = entry.at
            self._took("turn_stage_seconds", entry, claim.at, "understand")

    def _drafted(self, call: Followed, entry: JournalEntry) -> None:
        claim = call.claim
        if claim is None or claim.fence != entry.fence or call.worded_at is not None:
            return
        call.worded_at = entry.at
        if call.owed:
            self._took("caller_silence_seconds", entry, call.start(min(call.owed)))
        self._took("turn_stage_seconds", entry, claim.understood_at or claim.at, "first_words")

    def _committed(self, call: Followed, entry: JournalEntry) -> None:
        self._drafted(call, entry)  # Of a reply in one piece these are its first words.
        self._count("turns_answered", entry)
        claim = call.claim
        if claim is not None and call.worded_at is not None:
            # What an earlier worker had worded is no work of this one.
            begun = max(call.worded_at, claim.understood_at or claim.at)
            self._took("turn_stage_seconds", entry, begun, "rest")
        if entry.turn is not None:
            self._took("turn_seconds", entry, call.start(entry.turn))
            call.answered(entry.turn, entry.at)

    def _released(self, call: Followed, entry: JournalEntry) -> None:
        cause = entry.reason if entry.reason in _NAMED else FAILED
        since = entry.at
        if cause in (GONE, SILENT) and call.claim is not None:
            fence, beat_at = call.seen_beat
            # Who fell before anybody saw it beat was alive when it claimed.
            since = max(call.claim.at, beat_at if fence == call.claim.fence else 0)
        call.fallen = since, cause

    def _taken_over(self, call: Followed, entry: JournalEntry) -> None:
        if call.fallen is not None:
            since, cause = call.fallen
            self._took("takeover_seconds", entry, since, cause)
            call.fallen = None

    def _lost(self, call: Followed, entry: JournalEntry) -> None:
        self._count("turns_lost", entry, by=entry.count or 1)
        if entry.turn is not None:
            call.answered(entry.turn, entry.at)

    def _interrupted(self, _call: Followed, entry: JournalEntry) -> None:
        self._count("replies_interrupted", entry)

    def _refused(self, _call: Followed, entry: JournalEntry) -> None:
        self._count("refused_writes", entry, entry.reason)

    def _alerted(self, call: Followed, entry: JournalEntry) -> None:
        reason = TAKEN_OVER if entry.event == TAKEN_OVER else entry.reason
        self._count("humans_wanted", entry, reason)
        if call.wanted_at is None:
            call.wanted_at = entry.at

    def _rang(self, _call: Followed, entry: JournalEntry) -> None:
        self._count("rings", entry, entry.event)

    def _transferred(self, call: Followed, entry: JournalEntry) -> None:
        if not call.with_human:
            self._count("transfers", entry, entry.reason)
            self._taken_over(call, entry)
        if entry.event == "accepted" and call.wanted_at is not None:
            self._took("human_answer_seconds", entry, call.wanted_at)
            call.wanted_at = None
        call.with_human = True
        call.answered(max(call.owed, default=0), entry.at)

    def _put_through(self, _call: Followed, entry: JournalEntry) -> None:
        # By the carrier, at once: there is no alert, and no word of who came.
        self._count("transfers", entry, entry.reason)

    def _resumed(self, call: Followed, _entry: JournalEntry) -> None:
        call.with_human, call.wanted_at = False, None

    def _remarked(self, _call: Followed, entry: JournalEntry) -> None:
        who, _, what = (entry.reason or "").partition(":")
        if who == "guard":
            self._count("guard_catches", entry, what)
        elif who == "model":
            if what == "script":
                self._count("model_fallbacks", entry)
            elif what in ("unknown_sentence", "too_early", "unfounded_fact"):
                self._count("model_mistakes", entry, what)
            else:
                self._count("model_failures", entry, what)

    def _ended(self, call: Followed, entry: JournalEntry) -> None:
        self._count("calls_ended", entry, entry.reason)
        call.answered(max(call.owed, default=0), entry.at)
        call.wanted_at = None


_FOLLOWS: Final[dict[str, Callable[[Calls, Followed, JournalEntry], None]]] = {
    "opened": Calls._opened,
    "heard": Calls._heard,
    "claimed": Calls._claimed,
    "understood": Calls._understood,
    "drafted": Calls._drafted,
    "committed": Calls._committed,
    "handed_back": Calls._released,
    "reclaimed": Calls._released,
    "lost": Calls._lost,
    "interrupted": Calls._interrupted,
    "refused": Calls._refused,
    "alerted": Calls._alerted,
    TAKEN_OVER: Calls._alerted,
    "ringing": Calls._rang,
    "ring_confirmed": Calls._rang,
    "not_answered": Calls._rang,
    "ring_failed": Calls._rang,
    "nobody_to_ring": Calls._rang,
    "transferred": Calls._transferred,
    "accepted": Calls._transferred,
    "put_through": Calls._put_through,
    "resumed": Calls._resumed,
    "remarked": Calls._remarked,
    "ended": Calls._ended,
}
