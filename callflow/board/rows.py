"""Makes the board's row of a call from its record and its journal, and its place among the others.

Pure. All words in a row are stable names; but for what people said, names of lifts and addresses,
which are shown as they are. `row_cells` puts the names into words, in one language at one moment:
`static/rows.js` and `static/header.js` say the same in the browser as time passes, and a browser
test compares the two for every row that it meets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from typing import Any, Final, Literal

from callflow.call.facts import known
from callflow.call.history import CallHistory
from callflow.call.record import Handling, Word, last_words, waiting_since, word
from callflow.call.state import CallState
from callflow.call.urgency import Urgency
from callflow.i18n import Catalogue
from callflow.sites.site import Site
from callflow.store.reader import CallSummary

HOUR_MS: Final = 3_600_000
"""The header of the board tells of what happened within it."""

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


SOON: Final = 0.75
"""The share of its limit from which on a timer turns (the field's habit: 75 % and 100 %)."""

GRAVE: Final = frozenset({"fire", "smoke", "water", "medical", "limb", "violence", "injured"})
"""Flags that stand out: somebody may come to harm."""

_SHAPES: Final = {"soon": "P2", "over": "P1", "": "none"}


@dataclass(frozen=True, slots=True)
class Badge:
    """A flag or a timer of a row: its words, how it looks (a class), its shape."""

    text: str
    look: str = ""
    shape: str = ""


@dataclass(frozen=True, slots=True)
class RowCells:
    """One row. `parts` are texts by name; an empty one is not shown."""

    sid: str
    urgency: str
    state: str
    parts: Mapping[str, str]
    flags: tuple[Badge, ...]
    timers: tuple[Badge, ...]


def time_of_day(at_ms: int) -> str:
    """By UTC; the browser shows its own."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%H:%M:%S}"


def duration(ms: int) -> str:
    """`0:34`, `12:05`, `1:02:03`: for what is counted in seconds."""
    seconds = max(0, ms) // 1000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def age(ms: int) -> str:
    """`0.3 s` below ten seconds, `12 s` below a hundred, then as `duration`."""
    ms = max(0, ms)
    if ms < 10_000:
        return f"{ms // 100 / 10:.1f} s"
    return f"{ms // 1000} s" if ms < 100_000 else duration(ms)


def short_worker(worker: str | None) -> str:
    """`worker1/4711` for `worker1@host/4711-ab12`: which process, for people."""
    if not worker:
        return ""
    node, _, process = worker.partition("/")
    return f"{node.partition('@')[0]}/{process.partition('-')[0]}"


def state_of(word: str) -> str:
    """The stable word as a class and a key of the catalogue: `with_a_human`."""
    return word.replace(" ", "_")


def urgency_of(row: Mapping[str, Any]) -> str | None:
    """Danger that was heard in words that nobody has understood yet counts at once."""
    urgency: str | None = "P1" if row["hurried"] else row["urgency"]
    return urgency


def row_cells(row: Mapping[str, Any], w: Catalogue, now_ms: int) -> RowCells:
    """What the row says. `row` is `BoardRow.to_dict()`."""
    return RowCells(
        sid=row["call_sid"],
        urgency=urgency_of(row) or "none",
        state=state_of(row["word"]),
        parts={**_parts(row, w), **_time_parts(row, w, now_ms)},
        flags=tuple(
            Badge(w(f"flag.{flag}"), "grave" if flag in GRAVE else "") for flag in row["flags"]
        ),
        timers=tuple(_timer(timer, w, now_ms) for timer in row["timers"]),
    )


def _parts(row: Mapping[str, Any], w: Catalogue) -> dict[str, str]:
    speaker, words = row["last"] or ("", "")
    people, takeovers, urgency = row["people"], row["takeovers"], urgency_of(row)
    scenario = row["scenario"]
    return {
        "urgency": urgency or "–",
        "urgency_word": w(f"urgency.{urgency or 'none'}"),
        "state": w(f"state.{state_of(row['word'])}"),
        "needed": w("human.needed") if row["needs_human"] and row["alert"] != "accepted" else "",
        "ladder": _ladder(row, w),
        "old": w("board.unseen") if row["stale"] else "",
        "lift": row["lift"] or row["site"] or w("page.unknown"),
        "address": row["address"] or "",
        "people": "" if people is None else w("people.count", count=people),
        "scenario": w(f"scenario.{scenario}") if scenario else "",
        "outcome": w(f"outcome.{row['outcome']}") if row["outcome"] else "",
        "talks": w("who.talks", who=w(f"who.{row['talks']}")),
        "who": w(f"who.{speaker}") if speaker else "",
        "words": (words or w("said.silence")) if speaker else "",
        "now": w("said.now") if row["speaking"] else "",
        "worker": short_worker(row["worker"]),
        "takeovers": _takeovers(takeovers, w),
    }


def _ladder(row: Mapping[str, Any], w: Catalogue) -> str:
    """Which person is being rung, or is there."""
    if row["alert"] is None or row["word"] == "ended":
        return ""
    return w(f"ladder.{row['alert']}", name=row["human"] or w("who.human"))


def _takeovers(count: int, w: Catalogue) -> str:
    if not count:
        return ""
    return w("beat.takeover") if count == 1 else w("beat.takeovers", count=count)


def _time_parts(row: Mapping[str, Any], w: Catalogue, now_ms: int) -> dict[str, str]:
    """What changes while nothing happens."""
    since, beat_at = row["waiting_since"], row["beat_at"]
    return {
        "waiting": "" if since is None else duration(now_ms - since),
        "beat": "" if beat_at is None else w("beat.age", age=age(now_ms - beat_at)),
    }


def _timer(timer: Mapping[str, Any], w: Catalogue, now_ms: int) -> Badge:
    passed_ms, limit_ms = now_ms - timer["since"], timer["limit_ms"]
    look = "over" if passed_ms >= limit_ms else "soon" if passed_ms >= SOON * limit_ms else ""
    text = f"{w('timer.' + timer['name'])} {duration(passed_ms)} / {duration(limit_ms)}"
    return Badge(text, look, _SHAPES[look])


STATES: Final = tuple(state_of(str(word)) for word in Word)

_LAMP_LOOKS: Final[Mapping[str, str]] = {
    "ok": "ok",
    "understudy": "warn",
    "unknown": "warn",
    "bad": "bad",
}
"""A lamp → how it looks: a colour, a shape and a word."""


def header_figures(header: Mapping[str, Any], w: Catalogue) -> dict[str, Any]:
    """What the header shows of `BoardSnapshot.header`; zeros before anything was read."""
    calls = {state_of(word): count for word, count in header.get("calls", {}).items()}
    silence_ms = header.get("silence_ms")
    return {
        "clock": time_of_day(header["now_ms"]),
        "age": age(header["age_ms"]),
        "stale": header["stale"],
        "calls": sum(calls.values()),
        "counts": [(state, calls.get(state, 0)) for state in STATES],
        "hidden": header.get("hidden", 0),
        "since": counted_since(header, w),
        "takeovers": header.get("takeovers", 0),
        "silence": w("page.none") if silence_ms is None else age(silence_ms),
        "lamps": [(name, *_lamp(name, header, w)) for name in ("workers", "beat", "watchdog")],
    }


def counted_since(header: Mapping[str, Any], w: Catalogue) -> str:
    """Since when the takeovers and silences are counted, by UTC; empty once that is an hour."""
    since_ms = header.get("since_ms", 0)
    if not since_ms or header["now_ms"] - since_ms >= HOUR_MS:
        return ""
    return w("head.since", time=time_of_day(since_ms).rpartition(":")[0])


def _lamp(name: str, header: Mapping[str, Any], w: Catalogue) -> tuple[str, str]:
    if name == "workers":
        workers = header.get("workers", 0)
        words = w("head.of_workers", workers=workers, busy=header.get("busy", 0),
                 slots=header.get("slots", 0))  # fmt: skip
        return ("ok" if workers else "bad"), words
    lamp = header.get(name, "unknown")
    return _LAMP_LOOKS.get(lamp, "warn"), f"{w('head.' + name)}: {w('lamp.' + lamp)}"
