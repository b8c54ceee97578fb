"""Which call stands above which: by urgency, then whether a human is needed, then longest wait.

That is how monitoring centres sort. The key of a call changes only with the call and never with the
clock, so nothing moves on the page while nothing happens.
"""

from __future__ import annotations

from callflow.call.state import CallState
from callflow.store.reader import CallSummary

_LATEST_MS = 10**13
"""Behind every time stamp, with as many digits."""

_UNKNOWN = 3
"""Where nobody knows yet how urgent it is: as somebody who is trapped (P3)."""


def order(sight: CallSummary, waiting_since: int | None) -> str:
    """The key of a call: compared letter by letter, the smaller stands above. `waiting_since`: when
    the caller said what is still unanswered, ms; None where nobody waits. No two calls have one."""
    over = sight.call_state is CallState.COMPLETE
    urgency = _UNKNOWN if sight.urgency is None else int(sight.urgency[1])
    if sight.hurried:
        urgency = 1
    waits = _LATEST_MS if waiting_since is None else waiting_since
    return (
        f"{over:d}{urgency}{not needs_human_now(sight):d}"
        f"-{waits:014d}-{sight.created_at:014d}-{sight.call_sid}"
    )


def needs_human_now(sight: CallSummary) -> bool:
    """A human is needed, and none has come yet."""
    there = sight.alert is not None and sight.alert.state == "accepted"
    return sight.needs_human is not None and not there
