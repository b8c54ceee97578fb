"""What people do in a call from the board or the command line, one script each.

Each request has a name (`request`): asked again, as when its answer was lost, it is done once.
`seen` is the count of the thing acted on that the person was shown (`call/acts.py`), None for
somebody who was shown none: who is second is told who was first. The journal says who did what,
and never in which words.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from callflow.call.acts import CALL, URGENCY, ReasonMissing, TooMuch
from callflow.call.disposition import Disposition, MaybeTrapped, may_be_trapped
from callflow.call.ladder import wanted_by
from callflow.call.record import Alert, CallRecord
from callflow.call.state import Event, moves_row
from callflow.call.urgency import Urgency
from callflow.errors import StoreUnavailable, StoreUnreplicated
from callflow.redis.scripts import Scripts
from callflow.store.asked import done, name_of, named, run, shown, words
from callflow.store.encoding import BY_HUMAN, alert, as_json, clock
from callflow.store.keys import call_keys

MOST_NOTE_CHARS = 2_000
MOST_REASON_CHARS = 500
MOST_NOTES = 200
TRIES = 8
"""To end a call whose record changes while it is judged: a worker writes some times a second."""

Finish = Callable[[str, str, str, Sequence[str]], tuple[list[str], bool]]


class DeskWork:
    """What people do to the calls of one deployment. Raises StoreUnavailable like `CallStore`.

    Every method raises UnknownCall, CallEnded, and BadRequestName; where they are not done, nothing
    was changed. True: done now; False: this request was done before. `finish` completes a call.
    """

    def __init__(self, scripts: Scripts, finish: Finish) -> None:
        self._scripts = scripts
        self._finish = finish

    def remark(
        self, call_sid: str, text: str, by: str, *, request: str, now_ms: int | None = None
    ) -> bool:
        """Keep a note with the record. Raises BadWords and TooMuch."""
        keys, who = call_keys(call_sid), name_of(call_sid, by)
        note = words(call_sid, text, "note", MOST_NOTE_CHARS)
        word, *rest = run(
            self._scripts,
            "jot",
            (keys.call, keys.journal),
            moves_row(Event.REMARK),
            as_json({"id": named(request), "by": who, "text": note}),
            who,
            request,
            MOST_NOTES,
            clock(now_ms),
        )
        if word == "full":
            raise TooMuch(call_sid, "notes", MOST_NOTES)
        return done(call_sid, Event.REMARK, CALL, word, rest)

    def urge(
        self,
        call_sid: str,
        urgency: Urgency,
        by: str,
        *,
        request: str,
        reason: str = "",
        seen: int | None = None,
        now_ms: int | None = None,
    ) -> tuple[bool, bool]:
        """Say how urgent the call is; and whether a reply is owed that no worker has begun.

        It stands until something is heard that speaks for a higher one and was not known when it
        was said. The reason is kept as a note, too, so that the next one does not replace it.
        Raises ReasonMissing for one that is less urgent than what was heard, BadWords and TooMuch
        for a reason as for a note, and Overtaken.
        """
        keys, who, name = call_keys(call_sid), name_of(call_sid, by), named(request)
        why = words(call_sid, reason, "reason", MOST_REASON_CHARS) if reason.strip() else None
        word, *rest = run(
            self._scripts,
            "urge",
            (keys.call, keys.journal),
            moves_row(Event.URGE),
            as_json(urgency),
            who,
            as_json(why),
            shown(seen),
            name,
            as_json({"id": name, "by": who, "text": why, "urgency": urgency}),
            MOST_NOTES,
            clock(now_ms),
        )
        if word == "unreasoned":
            raise ReasonMissing(call_sid, rest[0])
        if word == "full":
            raise TooMuch(call_sid, "notes", MOST_NOTES)
        is_done = done(call_sid, Event.URGE, URGENCY, word, rest)
        return is_done, is_done and rest[:1] == ["1"]

    def take_over(
        self,
        call_sid: str,
        by: str,
        telephone: str | None,
        *,
        request: str,
        seen: int | None = None,
        now_ms: int | None = None,
    ) -> tuple[bool, Alert | None]:
        """Have the person rung for the call, then the site's humans; and the alert that stood
        before, whose telephone may still ring. The agent talks on until somebody has picked up.

        Raises WithHuman and Overtaken.
        """
        keys, who = call_keys(call_sid), name_of(call_sid, by)
        word, *rest = run(
            self._scripts,
            "take",
            (keys.call, keys.journal, keys.shard.rings),
            moves_row(Event.ALERT),
            call_sid,
            alert(wanted_by(who, telephone)),
            who,
            shown(seen),
            named(request),
            BY_HUMAN,
            clock(now_ms),
        )
        is_done = done(call_sid, Event.ALERT, CALL, word, rest)
        before = json.loads(rest[0]) if is_done else None
        return is_done, None if before is None else Alert.model_validate(before)

    def end(
        self,
        read: Callable[[str], CallRecord],
        call_sid: str,
        what: Disposition,
        by: str,
        *,
        request: str,
        confirmed: bool = False,
        seen: int | None = None,
        now_ms: int | None = None,
    ) -> bool:
        """Complete the call with what became of it; its line is for others to close.

        `read` reads its record. `confirmed`: the person knows that somebody may still be trapped.
        Raises MaybeTrapped, Overtaken, and StoreUnreplicated: ask again.
        """
        who, name = name_of(call_sid, by), named(request)
        for _ in range(TRIES):
            as_of = "" if confirmed else str(self._judged(read, call_sid))
            more = (clock(now_ms), who, shown(seen), name, as_of, clock(now_ms))
            (word, *rest), assured = self._finish("dispose", call_sid, str(what), more)
            if word != "stale":
                break
        else:
            raise StoreUnavailable(self._scripts.where, f"call {call_sid} changes all the time")
        if not assured and word in ("finished", "again"):
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        return done(call_sid, Event.END, CALL, "done" if word == "finished" else word, rest)

    def _judged(self, read: Callable[[str], CallRecord], call_sid: str) -> int:
        """Of when the record is in which nobody is trapped. Raises MaybeTrapped."""
        record = read(call_sid)
        sign = may_be_trapped(record)
        if record.outcome is None and sign is not None:
            raise MaybeTrapped(call_sid, sign)
        return record.updated_at
