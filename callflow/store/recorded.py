"""Facts that people record about a call: a dispatch, an arrival time, a release.

They have a field of their own, which no worker writes: a turn that is being worked on neither
overwrites them nor delays them, and the next turn may speak of them.
"""

from __future__ import annotations

from callflow.call.acts import Overtaken, fact
from callflow.call.facts import Value
from callflow.call.state import Event, moves_row
from callflow.call.utterance import clean
from callflow.errors import CallEnded, UnknownCall
from callflow.redis.scripts import Scripts
from callflow.store.encoding import as_json, clock
from callflow.store.keys import call_keys


class Recorded:
    """The facts that people have recorded. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    def note(
        self,
        call_sid: str,
        name: str,
        value: Value | None,
        by: str,
        *,
        seen: int | None = None,
        request: str = "",
        now_ms: int | None = None,
    ) -> bool:
        """Record one fact, or take it back (None); who did it stands in the journal.

        False when it stood so already: twice is once. `value` is as `call.facts.parsed` gives it.
        `seen` and `request` are those of `DeskWork`. Raises UnknownCall, CallEnded and Overtaken.
        """
        keys = call_keys(call_sid)
        (word, *rest) = self._scripts.run(
            "record",
            (keys.call, keys.journal),
            (
                moves_row(Event.RECORD),
                name,
                "" if value is None else as_json(value),
                clean(call_sid, by),
                "" if seen is None else seen,
                request,
                clock(now_ms),
            ),
        )
        match word:
            case "unknown":
                raise UnknownCall(call_sid)
            case "ended":
                raise CallEnded(call_sid, str(Event.RECORD))
            case "told":
                raise Overtaken(call_sid, fact(name), rest[0], int(rest[1]))
            case _:
                return bool(word == "noted")
