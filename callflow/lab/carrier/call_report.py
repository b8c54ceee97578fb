"""Reports what one call was like from outside: said, heard, and the silence in between. JSON-able.

All times are real seconds since the call arrived at the carrier, whatever the speed of speech.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from callflow.lab.percentiles import Percentiles

Kind = Literal["say", "gather", "relay", "stock", "ring", "music", "human", "caller"]
"""What was heard: words outside of a Gather, words at which the line listens, words by the relay
socket, the carrier's own error message, a ring-back tone, music in a conference, people."""

Cause = Literal["greeting", "reply", "next", "mid_reply", "session", "human_left"]
"""What a silence stood before: the first words, the first words after the caller's, more words, the
rest of a reply that had begun, a new relay session, the agent's return."""

EndedBy = Literal["caller", "application", "carrier", "nobody"]


@dataclass(slots=True)
class HeardSound:
    """One thing that a person heard. A relay message grows as its tokens arrive."""

    at_s: float
    text: str
    kind: Kind
    until_s: float | None = None
    cut: bool = False
    """It was not heard to its end; `text` is the part that was."""
    filler: bool = False
    """A phrase after which the caller goes on waiting."""


@dataclass(slots=True)
class Silence:
    """Nothing to hear although it was the application's turn. `turn`: the last one spoken."""

    at_s: float
    length_s: float
    cause: Cause
    turn: int
    mischief_s: float = 0.0
    """How much of it the carrier made on purpose."""

    @property
    def own_s(self) -> float:
        """What is left for the application to answer for, s."""
        return max(0.0, self.length_s - self.mischief_s)


@dataclass(slots=True)
class SpokenTurn:
    """One thing the caller said: words, "" for silence, or a key."""

    number: int
    said: str
    began_s: float
    ended_s: float = 0.0
    accepted: bool = False
    """The webhook was answered with 2xx; or the frame was sent by a socket that lived on."""
    answered: bool = False
    """The caller heard more than fillers before it was their turn again."""
    interrupted: bool = False
    """The caller began to speak before the agent had finished."""
    repeated: bool = False
    """The same words once more: nobody had reacted to them."""
    heard: list[HeardSound] = field(default_factory=list)
    first_token_s: float | None = None
    """From the prompt frame to the first token."""

    @property
    def reply_s(self) -> float | None:
        """From the end of the caller's words to the first words of the reply itself."""
        replies = [one for one in self.heard if one.kind in ("gather", "relay") and not one.filler]
        return replies[0].at_s - self.ended_s if replies else None


@dataclass(slots=True)
class CallReport:
    """One line, from its first ring to its end."""

    call_sid: str
    caller: str
    called: str
    language: str
    began_at: float
    """Unix time, s."""
    greeting: list[HeardSound] = field(default_factory=list)
    """What was heard before the first turn."""
    turns: list[SpokenTurn] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)
    answered_after_s: float | None = None
    """From the arrival to the first document; until then the caller hears it ring."""
    duration_s: float = 0.0
    ended_by: EndedBy = "nobody"
    with_human: bool = False
    gave_up: bool = False
    failures: list[str] = field(default_factory=list)
    """Errors of the application that Twilio would show in its debugger."""
    failed: bool = False
    """The caller heard the stock error, or the call ended by one."""
    sessions: int = 0
    """Relay sockets that were opened."""
    requests: int = 0
    retries: int = 0
    digits_sent: list[str] = field(default_factory=list)
    mischief_s: float = 0.0

    @property
    def heard(self) -> list[HeardSound]:
        return [*self.greeting, *(one for turn in self.turns for one in turn.heard)]

    @property
    def lost(self) -> list[SpokenTurn]:
        """Turns that were accepted, and to which nothing but fillers came although the caller was
        still there."""
        waited_out = self.turns if self.ended_by != "caller" else self.turns[:-1]
        return [turn for turn in waited_out if turn.accepted and turn.said and not turn.answered]

    @property
    def longest_silence_s(self) -> float:
        """The longest one that the application answers for."""
        return max((one.own_s for one in self.silences), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "lost": [turn.number for turn in self.lost]}


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a run showed. Field names are a promise to programs.

    `lost`: turns that were accepted and never answered. `answer_ms`: from the end of the caller's
    words to the first words of the reply; `first_token_ms`: from the prompt frame to the first
    token. `silence_s` leaves out what the carrier made on purpose.
    """

    calls: int
    turns: int
    failed: int
    lost: int
    silence_s: Percentiles
    answer_ms: Percentiles
    first_token_ms: Percentiles
    retries: int
    requests: int
    with_human: int
    gave_up: int
    ended_by: dict[str, int]

    @classmethod
    def of(cls, reports: Sequence[CallReport]) -> LoadResult:
        turns = [turn for report in reports for turn in report.turns]
        endings = [report.ended_by for report in reports]
        return cls(
            calls=len(reports),
            turns=len(turns),
            failed=sum(report.failed for report in reports),
            lost=sum(len(report.lost) for report in reports),
            silence_s=Percentiles.of(one.own_s for report in reports for one in report.silences),
            answer_ms=Percentiles.of((_ms(turn.reply_s) for turn in turns), 1),
            first_token_ms=Percentiles.of((_ms(turn.first_token_s) for turn in turns), 1),
            retries=sum(report.retries for report in reports),
            requests=sum(report.requests for report in reports),
            with_human=sum(report.with_human for report in reports),
            gave_up=sum(report.gave_up for report in reports),
            ended_by={one: endings.count(one) for one in sorted(set(endings))},
        )

    @property
    def good(self) -> bool:
        """True when nobody was lost."""
        return not (self.failed or self.lost)

    def as_dict(self) -> dict[str, Any]:
        times = {
            name: getattr(self, name).pick("p50", "p99", "max")
            for name in ("silence_s", "answer_ms", "first_token_ms")
        }
        return asdict(self) | times


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
