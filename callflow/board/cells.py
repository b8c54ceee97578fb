"""What a row of the board says in each of its cells, in one language at one moment.

`static/rows.js` says the same in the browser as time passes; a browser test compares the two for
every row that it meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from callflow.i18n import Catalogue

SOON: Final = 0.75
"""The share of its limit from which on a timer turns (the field's habit: 75 % and 100 %)."""

GRAVE: Final = frozenset({"fire", "smoke", "water", "medical", "limb", "violence", "injured"})
"""Flags that stand out: somebody may come to harm."""

_SHAPES: Final = {"soon": "P2", "over": "P1", "": "none"}


@dataclass(frozen=True, slots=True)
class Told:
    """A flag or a timer of a row: its words, how it looks (a class), its shape."""

    text: str
    look: str = ""
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Cells:
    """One row. `parts` are texts by name; an empty one is not shown."""

    sid: str
    urgency: str
    state: str
    parts: Mapping[str, str]
    flags: tuple[Told, ...]
    timers: tuple[Told, ...]
    seen: bool = False


def clock(ms: int) -> str:
    """`0:34`, `12:05`, `1:02:03`: for what is counted in seconds."""
    seconds = max(0, ms) // 1000
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def age(ms: int) -> str:
    """`0.3 s` below ten seconds, `12 s` below a hundred, then as `clock`."""
    ms = max(0, ms)
    if ms < 10_000:
        return f"{ms // 100 / 10:.1f} s"
    return f"{ms // 1000} s" if ms < 100_000 else clock(ms)


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


def cells(row: Mapping[str, Any], w: Catalogue, now_ms: int) -> Cells:
    """What the row says. `row` is `Row.as_dict()`."""
    return Cells(
        sid=row["call_sid"],
        urgency=urgency_of(row) or "none",
        state=state_of(row["word"]),
        parts={**_parts(row, w), **_passing(row, w, now_ms)},
        flags=tuple(
            Told(w(f"flag.{flag}"), "grave" if flag in GRAVE else "") for flag in row["flags"]
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


def _passing(row: Mapping[str, Any], w: Catalogue, now_ms: int) -> dict[str, str]:
    """What changes while nothing happens."""
    since, beat_at = row["waiting_since"], row["beat_at"]
    return {
        "waiting": "" if since is None else clock(now_ms - since),
        "beat": "" if beat_at is None else w("beat.age", age=age(now_ms - beat_at)),
    }


def _timer(timer: Mapping[str, Any], w: Catalogue, now_ms: int) -> Told:
    past_ms, limit_ms = now_ms - timer["since"], timer["limit_ms"]
    look = "over" if past_ms >= limit_ms else "soon" if past_ms >= SOON * limit_ms else ""
    text = f"{w('timer.' + timer['name'])} {clock(past_ms)} / {clock(limit_ms)}"
    return Told(text, look, _SHAPES[look])
