"""The replies of one call as they were heard: whole, once, in order, and each to its utterance.

A sentence that broke off with its line may be said again, and nothing more: see also
`demo/ear.py`, which compares with the record what this compares with the sentences themselves.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from callflow.lab.carrier.report import Turn
from callflow.lab.chaos.faults import Kind
from callflow.lab.chaos.hearing import Event, Sound
from callflow.responder.synthetic import PARTS, Counted, code_of

EARSHOT_S: Final = 0.1
"""Nobody knows better where in a sentence a line broke."""

SILENCE_CODE: Final = code_of("")
"""The code of an utterance without words: callflow hears silence on its own account."""

Complaint = tuple[Kind, Event, str]
"""A kind of fault, where it was heard, and a sentence."""


@dataclass(slots=True)
class Reply:
    """One reply so far. `turn` is the number that it names itself by."""

    turn: int
    code: str
    first: Event
    last: Event
    heard_to: int = 0
    """The last sentence that was heard whole, from 1."""
    begun: int = 0
    """Letters of the sentence after it."""
    mended: bool = False
    """The line broke after the last of it: one sentence may be said again."""
    skipped: dict[int, Event] = field(default_factory=dict)
    """Sentences that were not heard in their place, and what was heard there."""

    @property
    def whole(self) -> bool:
        """True once its end has been heard."""
        return self.heard_to >= PARTS


@dataclass
class Replies:
    """Takes the sounds of one call in order. `turns`: what the caller said."""

    turns: Sequence[Turn]
    slack: float
    """Letters that are said in the tenth of a second by which nobody knows better."""
    heard: dict[int, Reply] = field(default_factory=dict)
    """By the number of the turn."""
    complaints: list[Complaint] = field(default_factory=list)
    _newest: Reply | None = None
    _complained: set[tuple[Kind, int]] = field(default_factory=set)
    _human_came: bool = False
    """From then on a silence may stand in the conversation to which nobody has replied."""
    _claim: int = 0
    """By which claim the worker of the last sentence had the call."""
    _forgiven: int = 0
    _known: int = 0
    """How many turns of the caller the worker of the last sentence had found."""

    def __post_init__(self) -> None:
        self.codes = [code_of(turn.said) for turn in self.turns]

    def take(self, event: Event) -> None:
        """One more sound."""
        if event.sound is Sound.PART and event.said is not None:
            self._part(event, event.said)
        elif event.sound is Sound.BEGUN:
            self._begun(event)
        elif event.sound is Sound.HUMAN:
            self._human_came = True
        elif event.sound in (Sound.STILL_HERE, Sound.ASKED_AGAIN) and self._newest is not None:
            self._newest.mended = True

    def forgive_forgetting(self) -> None:
        """A failover has taken what was said, and the callers were promised nothing else."""
        self._claim = 0
        self._known, self._forgiven = 0, len(self._answered_codes())

    def answered(self, code: str) -> list[Reply]:
        """The replies to what was said with this code, in the order in which they began."""
        found = [reply for reply in self.heard.values() if reply.code == code]
        return sorted(found, key=lambda reply: reply.first.at_s)

    def _part(self, event: Event, said: Counted) -> None:
        if said.code != SILENCE_CODE and not self._was_said(said.code, event):
            self._complain(Kind.MISPLACED, event, f"reply {said.turn} answers something else")
            return
        reply = self.heard.get(said.turn)
        if reply is None:
            reply = Reply(said.turn, said.code, event, event)
            self._in_its_order(event, reply)
            self.heard[said.turn] = reply
            self._newest = reply
        elif reply.code != said.code:
            self._complain(Kind.MISPLACED, event, f"reply {said.turn} answers two utterances")
            return
        elif self._newest is not reply:
            late = "came after a later one"
            self._complain(
                Kind.REPEATED if reply.whole else Kind.OUT_OF_ORDER,
                event,
                f"part {said.part} of reply {said.turn} {late}",
            )
            return
        self._go_on(event, reply, said)
        self._remembers(event, said)
        self._may_speak(event, said)

    def _go_on(self, event: Event, reply: Reply, said: Counted) -> None:
        """The next sentence of a reply must be the one behind the last."""
        step = said.part - reply.heard_to
        just_ended = reply.mended and reply.begun <= self.slack
        if said.part in reply.skipped:
            reply.skipped.pop(said.part)
            detail = f"part {said.part} of reply {said.turn} behind part {reply.heard_to}"
            self._complain(Kind.OUT_OF_ORDER, event, detail)
        elif step <= 0 and not (step == 0 and just_ended):
            # What broke off may come again; the one before it only if it had just ended.
            kind = Kind.REPEATED if reply.whole else Kind.SAID_AGAIN
            detail = f"part {said.part} of reply {said.turn} once more, behind {reply.heard_to}"
            self._complain(kind, event, detail)
        elif not self._nothing_left_out(event, reply, said, step):
            reply.skipped |= dict.fromkeys(range(reply.heard_to + 1, said.part), event)
        reply.heard_to = max(reply.heard_to, said.part)
        reply.begun, reply.mended, reply.last = 0, event.cut, event

    def _nothing_left_out(self, event: Event, reply: Reply, said: Counted, step: int) -> bool:
        if step <= 1:
            return True
        # A new reply's first words may have come while the caller was speaking.
        since = reply.last.after if reply.heard_to or reply.begun else event.after - 1
        spoken_over = any(self.spoke_over(after) for after in range(since, event.after))
        nearly_whole = reply.begun and len(said.text) - reply.begun <= self.slack
        return spoken_over or (step == 2 and bool(nearly_whole))

    def spoke_over(self, after: int) -> bool:
        """True when the caller's next turn began while something was still to be said: what comes
        while they speak is for nobody."""
        return after < len(self.turns) and (
            self.turns[after].interrupted or self.turns[after].repeated
        )

    def missing(self, reply: Reply) -> list[tuple[Event, str]]:
        """What of a reply was never heard although more of it was, and where it should have been.

        Ends that were not heard are for whoever knows why the call went no further.
        """
        return [
            (event, f"part {part} of reply {reply.turn} was not heard")
            for part, event in reply.skipped.items()
        ]

    def _begun(self, event: Event) -> None:
        reply = self._newest
        if event.turn and (reply is None or reply.turn != event.turn):
            self._new_by_its_beginning(event)
        elif reply is not None:
            reply.begun = event.letters if event.part in (0, reply.heard_to + 1) else 0
            reply.mended = True
            reply.last = event

    def _new_by_its_beginning(self, event: Event) -> None:
        """The first sentence of a reply broke off, but it told which reply it is."""
        if event.turn in self.heard:
            detail = f"part {event.part} of reply {event.turn} came after a later one"
            self._complain(Kind.OUT_OF_ORDER, event, detail)
            return
        code = self._code_for(event)
        reply = Reply(event.turn, code, event, event, begun=event.letters, mended=True)
        if event.part > 1:
            reply.skipped |= dict.fromkeys(range(1, event.part), event)
            reply.heard_to = event.part - 1
        self._in_its_order(event, reply)
        self.heard[event.turn] = reply
        self._newest = reply

    def _code_for(self, event: Event) -> str:
        """What a reply is to whose words broke off before they said it: what is unanswered."""
        answered = self._answered_codes()
        said = self.codes[: event.after]
        return next((code for code in said if code not in answered), SILENCE_CODE)

    def _answered_codes(self) -> set[str]:
        return {reply.code for reply in self.heard.values()}

    def _was_said(self, code: str, event: Event) -> bool:
        return code in self.codes[: event.after]

    def _in_its_order(self, event: Event, reply: Reply) -> None:
        said_at = self._said_at(reply.code, event.after)
        for other in self.heard.values():
            answers_later = said_at < self._said_at(other.code, other.first.after)
            if other.turn > reply.turn or (answers_later and reply.code != SILENCE_CODE):
                detail = f"reply {reply.turn} came after reply {other.turn}"
                self._complain(Kind.OUT_OF_ORDER, event, detail)

    def _said_at(self, code: str, after: int) -> int:
        """Which of the caller's turns it was, the last one of several; 0 for none."""
        return max((n for n in range(1, after + 1) if self.codes[n - 1] == code), default=0)

    def _remembers(self, event: Event, said: Counted) -> None:
        """Whoever answers has found at least what the one before has found, and what it answers."""
        needed = max(self._known, len(self._answered_codes()) - self._forgiven)
        if said.seen < needed:
            detail = f"reply {said.turn} knew of {said.seen} turns where {needed} had been answered"
            self._complain(Kind.FORGOTTEN, event, detail)
        self._known = max(self._known, said.seen)
        silences = sum(reply.code == SILENCE_CODE for reply in self.heard.values())
        possible = event.after + silences
        if said.seen > possible and not self._human_came:
            detail = f"reply {said.turn} knew of {said.seen} turns where {possible} had been said"
            self._complain(Kind.DOUBLED, event, detail)

    def _may_speak(self, event: Event, said: Counted) -> None:
        """Once a later claim of the call has been heard, an earlier one may say nothing more."""
        if said.claim < self._claim:
            detail = f"reply {said.turn} by claim {said.claim}, which claim {self._claim} had ended"
            self._complain(Kind.STALE, event, detail)
        self._claim = max(self._claim, said.claim)

    def _complain(self, kind: Kind, event: Event, detail: str) -> None:
        """Of one kind once for each reply: a reply that is said twice is one thing."""
        if (kind, event.turn) not in self._complained:
            self._complained.add((kind, event.turn))
            self.complaints.append((kind, event, detail))
