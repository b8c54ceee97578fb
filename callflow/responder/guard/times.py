"""Arrival times: every number with a unit of time, and every "soon", needs a human's word for it.

A length of time is innocent where it is asked for, where it has passed, and where it says how long
to press a button; all else is read as an arrival.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from callflow.responder.guard.finding import Reading, caught
from callflow.responder.guard.lexicon import Rule
from callflow.responder.guard.numbers import Span, lengths, numbers

# "Soon" is no lie where the time that was recorded is at most this many minutes.
SOON_MINUTES: Final = 10


def unsupported_time(rule: Rule, reading: Reading, facts: Mapping[str, Any]) -> bool:
    """True when the sentence gives a time of arrival that differs from the recorded one."""
    eta = confirmed_minutes(facts)
    spans = lengths(reading.text, reading.known)
    if any(not _innocent(span, reading) and not _agrees(span, eta) for span in spans):
        return True
    for start, end, always in caught(rule, reading):
        if any(span.start < end and start < span.end for span in spans):
            continue
        named = [found for found in numbers(reading.text, reading.known) if found[0] < end]
        inside = [number for at, _, number in named if at >= start]
        if always or eta is None:
            return True
        if inside != [eta] and (inside or eta > SOON_MINUTES):
            return True
    return False


def confirmed_minutes(facts: Mapping[str, Any]) -> float | None:
    """Return the recorded minutes, or None where no human has confirmed any."""
    minutes = facts.get("eta_minutes")
    if not facts.get("dispatch.confirmed_with_eta") or isinstance(minutes, bool):
        return None
    try:
        return float(minutes) if minutes is not None else None
    except (TypeError, ValueError):
        return None


def _agrees(span: Span, eta: float | None) -> bool:
    return eta is not None and span.minutes is not None and abs(span.minutes - eta) < 0.01


def _innocent(span: Span, reading: Reading) -> bool:
    names = ["asked_time", "passed"]
    if span.unit < 1.0:
        names.append("holding")
    if reading.clause_has(span.start, span.end, "arrival"):
        # "Ten minutes" in "you have waited, they come in ten minutes" has not passed.
        return reading.clause_has(span.start, span.end, "asked_time")
    return reading.clause_has(span.start, span.end, *names)
