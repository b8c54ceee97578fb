"""Follows one call through its journal: who worked on it, what was waited for, for how long.

The scripts that change a record write its journal, on the server's clock, so all who read it here
tell the same story. Pure. There are two ways to use it:

- line by line, as the metrics and the board do: `add` returns the times that end with a line, and
  the fields say how the call stands. With `keep` only the last claims stay in memory.
- as a whole, as the picture of a call and the judges of a demo or a chaos run do:
  `CallHistory.of(journal)`. Each of its `claims` says which worker had which turn and since when it
  was owed; when, by which event and why that ended; and where the worker lost the call, who took it
  up and when. `sum(claim.lost for claim in claims)` are the takeovers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from pydantic import BaseModel, ConfigDict

TAKEN_FROM_WORKER: Final = frozenset({"reclaimed", "handed_back"})
"""A worker loses a call to the next one: it died or was silent, or gave the call up itself."""

PASSED_TO_HUMAN: Final = frozenset({"transferred", "accepted"})

ENDS_CLAIM: Final = TAKEN_FROM_WORKER | PASSED_TO_HUMAN | {"committed", "lost", "ended"}

ENDS_SILENCE: Final = PASSED_TO_HUMAN | {"drafted", "committed", "lost", "ended"}
"""The caller hears somebody again, or nobody can know any more what they waited for."""


class JournalEntry(BaseModel):
    """One line of a journal. `at`: server clock, ms. What else is known depends on the event."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: str
    at: int
    turn: int | None = None
    fence: int | None = None
    worker: str | None = None
    attempts: int | None = None
    reason: str | None = None
    write: str | None = None
    rung: int | None = None
    count: int | None = None
    fact: str | None = None
    by: str | None = None


class Measure(StrEnum):
    """What a measured time is the time of."""

    CLAIM_WAIT = "claim_wait"
    """From when a reply is owed until a worker claims it; a takeover is measured as one instead."""
    UNDERSTAND = "understand"
    """From the claim until the words are understood."""
    FIRST_WORDS = "first_words"
    """From there until the first words of the reply are stored."""
    REST = "rest"
    """From there until the reply is stored."""
    REPLY_WAIT = "reply_wait"
    """From when a reply is owed until its first words are stored."""
    TURN = "turn"
    """From when a reply is owed until all of it is stored."""
    TAKEOVER = "takeover"
    """From the last sign of life of a worker (from when it gave the call back, where it did) until
    another worker, or a human, has the call."""
    HUMAN_WAIT = "human_wait"
    """From when a human is wanted until one is on the line."""
    SILENCE = "silence"
    """From when the caller spoke until they hear any word of anybody again."""


class Measured(NamedTuple):
    """A time that is over: from `since` to `at`, ms. `cause`: why there was a takeover."""

    measure: Measure
    since: int
    at: int
    cause: str | None = None

    @property
    def ms(self) -> int:
        """How long it was."""
        return self.at - self.since


@dataclass(slots=True)
class Claim:
    """One worker's hold of the call. Times are ms on the server's clock, None until they are known.

    `ended_by` is the event that ended it: one of ENDS_CLAIM, or `claimed` where a failover has lost
    its end; None while it lasts. `taken_up_by`, where the worker lost the call or a human came in
    its place: `claimed` or `accepted`.
    """

    at: int
    turn: int | None = None
    fence: int | None = None
    worker: str | None = None
    owed_since: int | None = None
    """since when the caller had waited for this turn's reply"""
    understood_at: int | None = None
    last_sign_at: int = 0
    """the last thing that this worker wrote"""
    ended_at: int | None = None
    ended_by: str | None = None
    reason: str | None = None
    """why it ended, as the journal says"""
    taken_up_at: int | None = None
    taken_up_by: str | None = None

    @property
    def lost(self) -> bool:
        """True when the worker lost the call to the next one."""
        return self.ended_by in TAKEN_FROM_WORKER

    @property
    def worked_since(self) -> int:
        """Since when it has worked on the words of its reply."""
        return self.understood_at or self.at


@dataclass(slots=True)
class CallHistory:
    """What the journal of one call has told so far; each line is to be added once, in order."""

    keep: int | None = None
    """so many of the last claims are kept; None: all"""
    claims: deque[Claim] = field(init=False)
    owed: dict[int, int] = field(default_factory=dict)
    """since when the turns that are not answered have been owed"""
    answered_at: int = 0
    takeovers: int = 0
    """how often a worker lost the call"""
    wanted_at: int | None = None
    """since when a human is wanted and none has come: whoever was rung since"""
    with_human: bool = False
    """the agent has let go of it: what a human says stands in no journal"""
    resumed_at: int | None = None
    """when the agent got the call back from humans"""
    silent_since: int | None = None
    """when the caller spoke, while nobody has said a word since"""
    _worded_at: int | None = None
    """when the first words of the reply that is owed were stored, by whichever worker"""
    _fallen: tuple[int, str | None] | None = None
    """since when the call is to be taken over, and why"""
    _beat: tuple[int, int] = 0, 0
    """the last heartbeat that was seen: with which fence, and when"""

    def __post_init__(self) -> None:
        self.claims = deque(maxlen=self.keep)

    @classmethod
    def of(cls, journal: Iterable[JournalEntry]) -> CallHistory:
        """The history of a whole journal."""
        history = cls()
        for entry in journal:
            history.add(entry)
        return history

    @property
    def claim(self) -> Claim | None:
        """The hold of the worker that has the call at this moment."""
        last = self.claims[-1] if self.claims else None
        return None if last is None or last.ended_by else last

    def owed_since(self, turn: int | None) -> int | None:
        """Since when the caller has waited for the reply to `turn`; None: not known."""
        since = None if turn is None else self.owed.get(turn)
        # What was said into a reply is owed from the end of that reply.
        return None if since is None else max(since, self.answered_at)

    def see_beat(self, fence: int, at: int) -> None:
        """A heartbeat that was seen in the record: the journal has no line for it."""
        self._beat = fence, at

    def add(self, entry: JournalEntry) -> list[Measured]:
        """One more line. Returns the times that end with it."""
        ended: list[Measured] = []
        match entry.event:
            case "heard":
                self._hear(entry)
            case "claimed":
                self._start_claim(entry, ended)
            case "understood" | "drafted":
                self._add_work(entry, ended)
            case "committed":
                self._commit(entry, ended)
            case "reclaimed" | "handed_back":
                self._lose_worker(entry)
            case "lost":
                self._answer(entry, entry.turn)
            case "alerted":
                self.wanted_at = entry.at
            case "taken_over":
                self.wanted_at = self.wanted_at or entry.at
            case "transferred" | "accepted":
                self._pass_to_human(entry, ended)
            case "resumed":
                self.with_human, self.resumed_at = False, entry.at
            case "ended":
                self.wanted_at = None
                self._answer(entry, max(self.owed, default=0))
        if entry.event in ENDS_SILENCE and self.silent_since is not None:
            ended.append(Measured(Measure.SILENCE, self.silent_since, entry.at))
            self.silent_since = None
        return ended

    def _hear(self, entry: JournalEntry) -> None:
        if not self.with_human:
            if entry.turn is not None:
                self.owed[entry.turn] = entry.at
            if self.silent_since is None:
                self.silent_since = entry.at

    def _start_claim(self, entry: JournalEntry, ended: list[Measured]) -> None:
        since = self.owed_since(entry.turn)
        if self._fallen is not None:
            self._take_over(entry, ended)
        elif since is not None:
            ended.append(Measured(Measure.CLAIM_WAIT, since, entry.at))
        self._end_claim(entry)
        self._take_up(entry)
        self.claims.append(
            Claim(entry.at, entry.turn, entry.fence, entry.worker, since, last_sign_at=entry.at)
        )

    def _add_work(self, entry: JournalEntry, ended: list[Measured]) -> None:
        claim = self.claim
        if claim is None or claim.fence != entry.fence:
            return
        claim.last_sign_at = entry.at
        if entry.event == "understood":
            if claim.understood_at is None:
                claim.understood_at = entry.at
                ended.append(Measured(Measure.UNDERSTAND, claim.at, entry.at))
        else:
            self._add_words(claim, entry, ended)

    def _add_words(self, claim: Claim, entry: JournalEntry, ended: list[Measured]) -> None:
        """Words of the reply are stored: its first ones, where no worker has worded any."""
        if self._worded_at is not None:
            return
        self._worded_at = entry.at
        since = self.owed_since(min(self.owed, default=None))
        if since is not None:
            ended.append(Measured(Measure.REPLY_WAIT, since, entry.at))
        ended.append(Measured(Measure.FIRST_WORDS, claim.worked_since, entry.at))

    def _commit(self, entry: JournalEntry, ended: list[Measured]) -> None:
        claim = self.claim
        if claim is not None:
            if claim.fence == entry.fence:  # Of a reply in one piece these are its first words.
                self._add_words(claim, entry, ended)
            if self._worded_at is not None:
                # What an earlier worker had worded is no work of this one.
                since = max(self._worded_at, claim.worked_since)
                ended.append(Measured(Measure.REST, since, entry.at))
        owed_since = self.owed_since(entry.turn)
        if owed_since is not None:
            ended.append(Measured(Measure.TURN, owed_since, entry.at))
        self._answer(entry, entry.turn)

    def _lose_worker(self, entry: JournalEntry) -> None:
        self.takeovers += 1
        since, claim = entry.at, self.claim
        if entry.event == "reclaimed" and claim is not None:
            fence, beat_at = self._beat
            # Who fell before anybody saw it beat was alive when it claimed.
            since = max(claim.at, beat_at if fence == claim.fence else 0)
        self._fallen = since, entry.reason
        self._end_claim(entry)

    def _pass_to_human(self, entry: JournalEntry, ended: list[Measured]) -> None:
        if not self.with_human:
            self._take_over(entry, ended)
        if entry.event == "accepted" and self.wanted_at is not None:
            ended.append(Measured(Measure.HUMAN_WAIT, self.wanted_at, entry.at))
            self.wanted_at = None
        self.with_human = True
        self._answer(entry, max(self.owed, default=0))
        if entry.event == "accepted":
            self._take_up(entry)

    def _take_over(self, entry: JournalEntry, ended: list[Measured]) -> None:
        if self._fallen is not None:
            since, cause = self._fallen
            ended.append(Measured(Measure.TAKEOVER, since, entry.at, cause))
            self._fallen = None

    def _take_up(self, entry: JournalEntry) -> None:
        last = self.claims[-1] if self.claims else None
        if last is None or last.taken_up_at is not None:
            return
        if last.lost or last.ended_by == entry.event == "accepted":
            last.taken_up_at, last.taken_up_by = entry.at, entry.event

    def _end_claim(self, entry: JournalEntry) -> None:
        claim = self.claim
        if claim is not None:
            claim.ended_at, claim.ended_by, claim.reason = entry.at, entry.event, entry.reason

    def _answer(self, entry: JournalEntry, turn: int | None) -> None:
        """Nothing up to `turn` is owed any more, and nobody works on it."""
        self._end_claim(entry)
        if turn is not None:
            self.owed = {later: since for later, since in self.owed.items() if later > turn}
            self.answered_at = entry.at
            self._worded_at, self._fallen = None, None
