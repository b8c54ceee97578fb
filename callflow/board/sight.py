"""What one row of the board shows of one call: pure, and made of the record and its journal alone.

All words in it are stable names, which the page translates; but for what people said, names of
lifts and addresses, which are shown as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

from callflow.board.order import order
from callflow.call.facts import known
from callflow.call.history import CallHistory
from callflow.call.record import Handling
from callflow.call.state import CallState
from callflow.call.urgency import Urgency
from callflow.call.words import last_words, waiting_since, word
from callflow.sites.site import Site
from callflow.store.reader import CallSummary

ACKNOWLEDGE_MS: Final = 45_000
"""A human must have answered by then: ASME A17.1 (2019) reroutes what nobody acknowledged."""

SILENCE_MS: Final = 4_000
"""No caller is left without a word for longer."""

WELFARE_MS: Final[Mapping[Urgency | None, int]] = {
    "P1": 120_000,
    "P2": 120_000,
    "P3": 300_000,
    None: 300_000,
}
"""So often somebody who is, or may be, trapped is spoken with; others need no such check."""

MOST_LETTERS: Final = 240
"""Of the last words: what fits into a row. The whole of them stands on the page of the call."""

WITH_A_HUMAN: Final = ("note", "fact", "urgency", "end")
EVERY_ACTION: Final = ("take-over", "say", *WITH_A_HUMAN)

Talks = Literal["agent", "human", "nobody"]


@dataclass(frozen=True, slots=True)
class Timer:
    """Something that must happen within `limit_ms` of `since` (server clock, ms); the page turns it
    at 75 % and at 100 %. `name`: acknowledge, silence or welfare."""

    name: str
    since: int
    limit_ms: int


@dataclass(frozen=True, slots=True)
class Row:
    """One row. Field names are a promise to the page; times are on the server's clock, ms."""

    call_sid: str
    order: str
    """rows are sorted by it, the smallest above"""
    revision: str
    """changes with everything that happens to the call, and not with a worker's beat"""
    word: str
    """of callflow.call.words: listening, queued, answering, recovering, with a human, ended"""
    urgency: Urgency | None
    hurried: bool
    """danger was heard in words that nobody has understood yet: it is sorted with P1"""
    needs_human: str | None
    """why; it stays when one has come"""
    waiting_since: int | None
    """when the caller said what is still unanswered"""
    created_at: int
    site: str | None
    lift: str | None
    address: str | None
    people: int | None
    flags: tuple[str, ...]
    """of injured, trapped, and DANGERS and VULNERABLE of callflow.call.facts, the gravest first"""
    scenario: str | None
    language: str
    handling: Handling
    talks: Talks
    """who speaks with the caller at this moment"""
    alert: str | None
    """where the ringing of humans stands: due, ringing, accepted or nobody; None: none is rung"""
    human: str | None
    """who is being rung, or has the call, by name"""
    last: tuple[str, str] | None
    """who spoke last (caller, agent or human), and what"""
    speaking: bool
    """the agent is in the middle of it"""
    worker: str | None
    beat_at: int | None
    """when that worker last gave a sign of life; None where none has the call"""
    fence: int
    takeovers: int
    timers: tuple[Timer, ...]
    actions: tuple[str, ...]
    """what may be done to a call in this state, whoever may do it"""
    outcome: str | None
    stale: bool = False
    """this call could not be looked at with the others: so it was, and what it is is not known"""

    @classmethod
    def of(cls, sight: CallSummary, history: CallHistory, site: Site | None) -> Row:
        """The row of a call. `history`: what its journal tells; `site`: its lift, where known."""
        facts = known(sight)
        since = waiting_since(sight)
        who, said = last_words(sight) or (None, "")
        held = sight.assigned_worker is not None
        return cls(
            call_sid=sight.call_sid,
            order=order(sight, since),
            revision=revision(sight),
            word=str(word(sight)),
            urgency=sight.urgency,
            hurried=sight.hurried,
            needs_human=sight.needs_human,
            waiting_since=since,
            created_at=sight.created_at,
            site=sight.site,
            lift=facts.get("lift_id") if site is None else site.lift,
            address=None if site is None else site.address,
            people=facts.get("people"),
            flags=_flags(facts),
            scenario=sight.scenario_type,
            language=sight.language,
            handling=sight.handling,
            talks=_talks(sight),
            alert=None if sight.alert is None else sight.alert.state,
            human=_human(sight, site),
            last=None if who is None else (who, _short(said)),
            speaking=_speaking(sight),
            worker=sight.assigned_worker,
            beat_at=sight.last_heartbeat if held else None,
            fence=sight.fence,
            takeovers=history.takeovers,
            timers=tuple(_timers(sight, history, facts, since)),
            actions=_actions(sight),
            outcome=sight.outcome,
        )

    def as_dict(self) -> dict[str, Any]:
        """For JSON: tuples are lists there."""
        return {name: getattr(self, name) for name in _NAMES} | {
            "timers": [asdict(timer) for timer in self.timers]
        }

    def as_json(self) -> str:
        """The same as text, as browsers read it."""
        return as_json(self.as_dict())


_NAMES = tuple(field.name for field in fields(Row))

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def as_json(value: Any) -> str:
    """`value` as browsers read it."""
    return _encode(value)


def revision(sight: CallSummary) -> str:
    """Names the state of a call that a person has seen: each thing that happens to it makes another
    one. A worker's beat does not."""
    return f"{sight.updated_at}.{sight.journal_length}"


def _talks(sight: CallSummary) -> Talks:
    if sight.call_state is CallState.COMPLETE:
        return "nobody"
    if sight.handling == "agent":
        return "agent"
    return "human" if _accepted(sight) else "nobody"


def _accepted(sight: CallSummary) -> bool:
    return sight.alert is not None and sight.alert.state == "accepted"


def _human(sight: CallSummary, site: Site | None) -> str | None:
    alert = sight.alert
    if alert is None or alert.state not in ("ringing", "accepted"):
        return None
    humans = () if site is None else site.humans
    on_the_ladder = humans[alert.rung].name if alert.rung < len(humans) else None
    return alert.who or on_the_ladder


def _speaking(sight: CallSummary) -> bool:
    return sight.draft is not None and sight.draft.turn == sight.answered + 1


def _short(words: str) -> str:
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 1]}…"


def _flags(facts: Mapping[str, Any]) -> tuple[str, ...]:
    told = (name for name in ("injured", "trapped") if facts.get(name) is True)
    return (*facts.get("danger", ()), *told, *facts.get("vulnerable", ()))


def _timers(
    sight: CallSummary, history: CallHistory, facts: Mapping[str, Any], since: int | None
) -> list[Timer]:
    found: list[Timer] = []
    if sight.call_state is CallState.COMPLETE:
        return found
    rung_since = history.wanted_at or history.resumed_at
    if sight.alert is not None and not _accepted(sight) and rung_since is not None:
        found.append(Timer("acknowledge", rung_since, ACKNOWLEDGE_MS))
    if since is not None and not _speaking(sight):
        found.append(Timer("silence", since, SILENCE_MS))
    limit_ms = WELFARE_MS.get(sight.urgency)
    out = facts.get("release.confirmed") is True
    if limit_ms is not None and not out and _talks(sight) != "human":
        found.append(Timer("welfare", sight.heard_at or sight.created_at, limit_ms))
    return found


def _actions(sight: CallSummary) -> tuple[str, ...]:
    """A human who is on the line speaks for themselves, and nobody takes the call from them."""
    if sight.call_state is CallState.COMPLETE:
        return ()
    return WITH_A_HUMAN if _talks(sight) == "human" else EVERY_ACTION
