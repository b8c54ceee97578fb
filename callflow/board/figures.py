"""The header of the board in words; `static/header.js` says the same as time passes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from callflow.board.call_page import clock
from callflow.board.cells import age, state_of
from callflow.board.last_hour import HOUR_MS
from callflow.call.words import Word
from callflow.i18n import Catalogue

STATES: Final = tuple(state_of(str(word)) for word in Word)

LOOKS: Final[Mapping[str, str]] = {
    "ok": "ok",
    "understudy": "warn",
    "unknown": "warn",
    "bad": "bad",
}
"""A lamp → how it looks: a colour, a shape and a word."""


def figures(header: Mapping[str, Any], w: Catalogue) -> dict[str, Any]:
    """What the header shows of `Snapshot.header`; zeros before anything was read."""
    calls = {state_of(word): count for word, count in header.get("calls", {}).items()}
    silence_ms = header.get("silence_ms")
    return {
        "clock": clock(header["now_ms"]),
        "age": age(header["age_ms"]),
        "stale": header["stale"],
        "calls": sum(calls.values()),
        "counts": [(state, calls.get(state, 0)) for state in STATES],
        "hidden": header.get("hidden", 0),
        "since": since(header, w),
        "takeovers": header.get("takeovers", 0),
        "silence": w("page.none") if silence_ms is None else age(silence_ms),
        "lamps": [(name, *_lamp(name, header, w)) for name in ("workers", "beat", "watchdog")],
    }


def since(header: Mapping[str, Any], w: Catalogue) -> str:
    """Since when the takeovers and silences are counted, by UTC; empty once that is an hour."""
    since_ms = header.get("since_ms", 0)
    if not since_ms or header["now_ms"] - since_ms >= HOUR_MS:
        return ""
    return w("head.since", time=clock(since_ms).rpartition(":")[0])


def _lamp(name: str, header: Mapping[str, Any], w: Catalogue) -> tuple[str, str]:
    if name == "workers":
        workers = header.get("workers", 0)
        told = w("head.of_workers", workers=workers, busy=header.get("busy", 0),
                 slots=header.get("slots", 0))  # fmt: skip
        return ("ok" if workers else "bad"), told
    lamp = header.get(name, "unknown")
    return LOOKS.get(lamp, "warn"), f"{w('head.' + name)}: {w('lamp.' + lamp)}"
