"""Makes the board's row of a call from its record and its journal, and its place among the others.

Pure. All words in it are stable names, which the page translates; but for what people said, names
of lifts and addresses, which are shown as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Final, Literal

from callflow.call.facts import known
from callflow.call.history import CallHistory
from callflow.call.record import Handling, last_words, waiting_since, word
from callflow.call.state import CallState
from callflow.call.urgency import Urgency
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

_LATEST_MS: Final = 10**13
"""Behind every time stamp, with as many digits."""

_UNKNOWN_URGENCY: Final = 3
"""Where nobody knows yet how urgent it is: as somebody who is trapped (P3)."""

Talks = Literal["agent", "human", "nobody"]


@dataclass(frozen=True, slots=True)
class Timer:
    """Something that must happen within `limit_ms` of `since` (server clock, ms); the page turns it
    at 75 % and at 100 %. `name`: acknowledge, silence or welfare."""

    name: str
    since: int
    limit_ms: int


@dataclass(frozen=True, slots=True)
class BoardRow:
    """One row. Field names are a promise to the page; times are on the server's clock, ms."""

    call_sid: str
    order: str
    """rows are sorted by it, the smallest above"""
    revision: str
    """changes with everything that happens to the call, and not with a worker's beat"""
    word: str
    """of callflow.call.record: listening, queued, answering, recovering, with a human, ended"""
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
    def of(cls, call: CallSummary, history: CallHistory, site: Site | None) -> BoardRow:
        """The row of a call. `history`: what its journal tells; `site`: its lift, where known."""
        facts = known(call)
        since = waiting_since(call)
        who, said = last_words(call) or (None, "")
        held = call.assigned_worker is not None
        return cls(
            call_sid=call.call_sid,
            order=sort_key(call, since),
            revision=revision(call),
            word=str(word(call)),
            urgency=call.urgency,
            hurried=call.hurried,
            needs_human=call.needs_human,
            waiting_since=since,
            created_at=call.created_at,
            site=call.site,
            lift=facts.get("lift_id") if site is None else site.lift,
            address=None if site is None else site.address,
            people=facts.get("people"),
            flags=_flags(facts),
            scenario=call.scenario_type,
            language=call.language,
            handling=call.handling,
            talks=_talks(call),
            alert=None if call.alert is None else call.alert.state,
            human=_human(call, site),
            last=None if who is None else (who, _short(said)),
            speaking=_speaking(call),
            worker=call.assigned_worker,
            beat_at=call.last_heartbeat if held else None,
            fence=call.fence,
            takeovers=history.takeovers,
            timers=tuple(_timers(call, history, facts, since)),
            actions=_actions(call),
            outcome=call.outcome,
        )

    def to_dict(self) -> dict[str, Any]:
        """For JSON: tuples are lists there."""
        return {name: getattr(self, name) for name in _NAMES} | {
            "timers": [asdict(timer) for timer in self.timers]
        }

    def to_json(self) -> str:
        """The same as text, as browsers read it."""
        return encode_json(self.to_dict())


_NAMES = tuple(field.name for field in fields(BoardRow))

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def encode_json(value: Any) -> str:
    """`value` as browsers read it."""
    return _encode(value)


def sort_key(call: CallSummary, waiting_since: int | None) -> str:
    """Sorts calls by urgency, then whether a human is needed, then longest wait, as monitoring
    centres do: compared letter by letter, the smaller stands above; no two calls have one.

    `waiting_since`: when the caller said what is still unanswered, ms. The key changes only with
    the call and never with the clock, so nothing moves on the page while nothing happens.
    """
    over = call.call_state is CallState.COMPLETE
    urgency = _UNKNOWN_URGENCY if call.urgency is None else int(call.urgency[1])
    if call.hurried:
        urgency = 1
    needs_human = call.needs_human is not None and not _accepted(call)
    waits = _LATEST_MS if waiting_since is None else waiting_since
    return (
        f"{over:d}{urgency}{not needs_human:d}-{waits:014d}-{call.created_at:014d}-{call.call_sid}"
    )


def revision(call: CallSummary) -> str:
    """Names the state of a call that a person has seen: each thing that happens to it makes another
    one. A worker's beat does not."""
    return f"{call.updated_at}.{call.journal_length}"


def _talks(call: CallSummary) -> Talks:
    if call.call_state is CallState.COMPLETE:
        return "nobody"
    if call.handling == "agent":
        return "agent"
    return "human" if _accepted(call) else "nobody"


def _accepted(call: CallSummary) -> bool:
    return call.alert is not None and call.alert.state == "accepted"


def _human(call: CallSummary, site: Site | None) -> str | None:
    alert = call.alert
    if alert is None or alert.state not in ("ringing", "accepted"):
        return None
    humans = () if site is None else site.humans
    on_the_ladder = humans[alert.contact_index].name if alert.contact_index < len(humans) else None
    return alert.who or on_the_ladder


def _speaking(call: CallSummary) -> bool:
    return call.draft is not None and call.draft.turn == call.answered + 1


def _short(words: str) -> str:
    return words if len(words) <= MOST_LETTERS else f"{words[: MOST_LETTERS - 1]}…"


def _flags(facts: Mapping[str, Any]) -> tuple[str, ...]:
    told = (name for name in ("injured", "trapped") if facts.get(name) is True)
    return (*facts.get("danger", ()), *told, *facts.get("vulnerable", ()))


def _timers(
    call: CallSummary, history: CallHistory, facts: Mapping[str, Any], since: int | None
) -> list[Timer]:
    found: list[Timer] = []
    if call.call_state is CallState.COMPLETE:
        return found
    rung_since = history.wanted_at or history.resumed_at
    if call.alert is not None and not _accepted(call) and rung_since is not None:
        found.append(Timer("acknowledge", rung_since, ACKNOWLEDGE_MS))
    if since is not None and not _speaking(call):
        found.append(Timer("silence", since, SILENCE_MS))
    limit_ms = WELFARE_MS.get(call.urgency)
    out = facts.get("release.confirmed") is True
    if limit_ms is not None and not out and _talks(call) != "human":
        found.append(Timer("welfare", call.heard_at or call.created_at, limit_ms))
    return found


def _actions(call: CallSummary) -> tuple[str, ...]:
    """A human who is on the line speaks for themselves, and nobody takes the call from them."""
    if call.call_state is CallState.COMPLETE:
        return ()
    return WITH_A_HUMAN if _talks(call) == "human" else EVERY_ACTION
