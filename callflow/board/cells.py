"""Puts the rows and the header of the board into words, in one language at one moment. Pure.

`static/rows.js` and `static/header.js` say the same in the browser as time passes; a browser test
compares the two for every row that it meets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from callflow.board.board_reader import HOUR_MS
from callflow.call.record import Word
from callflow.i18n import Catalogue

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
