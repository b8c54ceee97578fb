"""The protocol of one call in plain Python: what the scripts must do, without Redis.

Written from the design and not from the Lua, so that the two can disagree.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from callflow.call.state import OPENED, CallState, Event, Refusal, after


@dataclass
class ModelCall:
    """One call. Every method answers the word that the store must answer."""

    owed_ms: int
    rewake_ms: int
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
    understood: int = 0
    lost: int = 0
    since: int = 0
    due: int | None = None
    """When the message for the owed turn counts as lost; None where none is on its way."""

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

    def hear(self, turn: int, text: str, now: int, after_loss: bool = False) -> str:
        if turn <= self.heard:
            return "repeated"
        then = after(Event.HEAR, self.state)
        if isinstance(then, Refusal):
            return str(then)
        lost = turn - self.heard - 1
        if lost and not after_loss:
            return "ahead"
        if lost:
            self._lose(turn, lost)
        owed_before = self.owed
        self.heard = turn
        self.thread.append(("caller", turn, text))
        if self.human:
            self.answered = turn
        elif self.holder is None and not owed_before:
            self._owe(now)
        return "heard"

    def _lose(self, turn: int, count: int) -> None:
        """A failover took turns: whoever is at an older one has lost it, and nobody answers it."""
        self._move(Event.HEAR_AFTER_LOSS)
        self.answered, self.attempts, self.holder, self.draft = turn - 1, 0, None, None
        self.heard = turn - 1
        self.fence += 1
        self.lost += count

    def _owe(self, now: int) -> None:
        self.since, self.due = now, now + self.owed_ms

    def rewake(self, now: int) -> bool:
        """True when the owed turn's message counts as lost, and another one is sent."""
        if self.holder is not None or not self.owed or self.state is CallState.COMPLETE:
            self.due = None
            return False
        if self.due is not None and self.due > now:
            return False
        first = self.due == self.since + self.owed_ms
        self.due = now + self.owed_ms
        if not first:
            self.due = now + max(self.owed_ms, min(now - self.since, self.rewake_ms))
        return True

    def claim(self, worker: str, claim_id: str, now: int) -> str:
        if self.holder is not None and self.claim_id == claim_id:
            return "claimed"
        then = after(Event.CLAIM, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if not self.owed:
            return "idle"
        self.state, self.holder, self.claim_id, self.due = then, worker, claim_id, None
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
        known = self.draft[1] if self.draft and self.draft[0] == turn else ""
        # A shorter one is a copy that the network delivers late; letters count by their bytes.
        if len(text.encode()) >= len(known.encode()):
            self.draft = (turn, text)
        return "noted"

    def understand(self, fence: int, turn: int) -> str:
        if refusal := self._not_mine(Event.DRAFT, fence):
            self.refused += 1
            return refusal
        self.understood = turn
        return "noted"

    def commit(self, fence: int, turn: int, text: str, now: int) -> str:
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
        if not self.owed:
            return "ok"
        self._owe(now)
        return "moved"

    def release(self, event: Event, fence: int, costs: bool, seen: int | None, now: int) -> str:
        if refusal := self._not_mine(event, fence):
            return refusal
        if seen is not None and (self.last_beat or 0) > seen:
            return "alive"
        self._move(event)
        self.holder = None
        self.attempts += costs
        self._owe(now)
        return "released"

    def transfer(self, fence: int | None, accepts: bool = False) -> str:
        """`accepts`: a human has picked up, whoever had the call."""
        then = after(Event.TRANSFER, self.state)
        if isinstance(then, Refusal):
            return str(then)
        if fence is not None and fence != self.fence:
            return "fenced"
        again = self.human
        if again and not accepts:
            return "again"
        self.state, self.holder, self.human, self.draft = then, None, True, None
        self.answered, self.attempts, self.fence = self.heard, 0, self.fence + (not again)
        self.due = None
        return "again" if again else "passed"

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
        self.state, self.holder, self.due = then, None, None
        return "finished"
