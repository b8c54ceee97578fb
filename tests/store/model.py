"""The protocol of one call in plain Python: what the scripts must do, without Redis.

Written from the design and not from the Lua, so that the two can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from callflow.call.state import OPENED, CallState, Event, Refusal, after


@dataclass
class ModelCall:
    """One call. Every method answers the word that the store must answer."""

    state: CallState = OPENED
    fence: int = 0
    heard: int = 0
    answered: int = 0
    attempts: int = 0
    holder: str | None = None
    claim_id: str | None = None
    last_beat: int | None = None
    draft: tuple[int, str] | None = None
    thread: list[tuple[str, int, str]] = field(default_factory=list)
    committed_by: dict[int, int] = field(default_factory=dict)
    refused: int = 0
    human: bool = False

    def _move(self, event: Event) -> str | None:
        then = after(event, self.state)
        if isinstance(then, Refusal):
            return str(then)
        self.state = then
        return None

    def _not_mine(self, event: Event, fence: int) -> str | None:
        then = after(event, self.state)
        if isinstance(then, Refusal):
            return str(then)
        return "fenced" if fence != self.fence else None

    @property
    def owed(self) -> bool:
        return self.heard > self.answered

    def hear(self, turn: int, text: str) -> str:
        if turn <= self.heard:
            return "repeated"
        then = after(Event.HEAR, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if turn != self.heard + 1:
            return "ahead"
        self.heard = turn
        self.thread.append(("caller", turn, text))
        if self.human:
            self.answered = turn
        return "heard"

    def claim(self, worker: str, claim_id: str, now: int) -> str:
        if self.holder is not None and self.claim_id == claim_id:
            return "claimed"
        then = after(Event.CLAIM, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if not self.owed:
            return "idle"
        self.state, self.holder, self.claim_id = then, worker, claim_id
        self.fence += 1
        self.last_beat = now
        return "claimed"

    def beat(self, fence: int, now: int) -> str:
        if refusal := self._not_mine(Event.BEAT, fence):
            self.refused += fence != self.fence
            return refusal
        self.last_beat = now
        return "beaten"

    def note(self, fence: int, turn: int, text: str) -> str:
        if refusal := self._not_mine(Event.DRAFT, fence):
            self.refused += 1
            return refusal
        self.draft = (turn, text)
        return "noted"

    def commit(self, fence: int, turn: int, text: str) -> str:
        if fence == self.fence and turn <= self.answered:
            return "moved" if self.owed else "ok"
        refusal = self._not_mine(Event.COMMIT, fence)
        if refusal or turn != self.answered + 1:
            self.refused += 1
            return refusal or "fenced"
        self._move(Event.COMMIT)
        self.thread.append(("agent", turn, text))
        self.committed_by[turn] = fence
        self.answered, self.attempts, self.holder, self.draft = turn, 0, None, None
        return "moved" if self.owed else "ok"

    def release(self, event: Event, fence: int, costs: bool, seen: int | None) -> str:
        if refusal := self._not_mine(event, fence):
            return refusal
        if seen is not None and (self.last_beat or 0) > seen:
            return "alive"
        self._move(event)
        self.holder = None
        self.attempts += costs
        return "released"

    def transfer(self, fence: int | None) -> str:
        then = after(Event.TRANSFER, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if fence is not None and fence != self.fence:
            return "fenced"
        if self.human:
            return "again"
        self.state, self.holder, self.human, self.draft = then, None, True, None
        self.answered, self.attempts, self.fence = self.heard, 0, self.fence + 1
        return "passed"

    def resume(self) -> str:
        then = after(Event.RESUME, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if not self.human:
            return "again"
        self.state, self.human = then, False
        return "resumed"

    def end(self) -> str:
        then = after(Event.END, self.state)
        if isinstance(then, Refusal):
            return str(then)
        self.state, self.holder = then, None
        return "finished"
