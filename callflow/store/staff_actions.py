"""Runs what staff do in a call from the board or the command line, one script each.

Each request has a name (`request`): asked again, as when its answer was lost, it is done once.
`seen` is the count of the thing acted on that the person was shown (`call/edits.py`), None for
somebody who was shown none: who is second is told who was first. The journal says who did what,
and never in which words.

A phrase that is to be said to the caller waits in the record. Whoever speaks with the caller next
(a socket, or the answer to a request of the carrier) is given it, and it stands in the thread from
then on; it waits until it is known to have been heard, so a process that dies with it costs time,
and no words.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from callflow.call import edits
from callflow.call.edits import Disposition, MaybeTrapped, may_be_trapped
from callflow.call.facts import Value
from callflow.call.ladder import wanted_by
from callflow.call.record import CallRecord, HumanAlert, Saying
from callflow.call.state import Event
from callflow.call.urgency import Urgency
from callflow.call.utterance import clean
from callflow.errors import (
    CallEnded,
    CallError,
    CallflowError,
    StoreUnavailable,
    StoreUnreplicated,
    UnknownCall,
)
from callflow.redis.scripts import Invocation, ScriptReply, Scripts
from callflow.store.encoding import BY_HUMAN, alert_json, as_json, on_call, optional_json
from callflow.store.keys import SAID_CHANNEL
from callflow.store.result import Result

MOST_NAME_CHARS = 100
MOST_NOTE_CHARS = 2_000
MOST_REASON_CHARS = 500
MOST_NOTES = 200
MOST_PHRASE_CHARS = 1_000
"""A caller listens to no more at once: a minute."""
MOST_WAITING = 5
"""Phrases of one call that are on their way to the caller."""
FETCHED_MS = 3_000
"""So long a phrase is left to the line that was fetched for it: the carrier asks us at once."""
TRIES = 8
"""To end a call whose record changes while it is judged: a worker writes some times a second."""

_REQUEST = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)

EndCall = Callable[..., tuple[ScriptReply, bool]]
"""`CallStore._end`."""


class BadRequestName(CallflowError):
    """A request whose name could stand for nothing; nothing was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:64]!a} cannot name a request: write 1 to 64 letters, digits, hyphens or "
            "underscores"
        )


class BadWords(CallError):
    """Words of a person that are missing, or too long; nothing was changed."""

    def __init__(self, call_sid: str, what: str, most: int) -> None:
        self.most = most
        super().__init__(call_sid, f"was given no {what} of 1 to {most} characters")


def new_request() -> str:
    """A name for a request of somebody who has none."""
    return secrets.token_hex(8)


class StaffActions:
    """What staff do to the calls of one deployment. Raises StoreUnavailable like `CallStore`.

    Those with a `request` raise UnknownCall, CallEnded, and BadRequestName; where they are not
    done, nothing was changed. True: done now; False: this request was done before.
    """

    def __init__(self, scripts: Scripts, end_call: EndCall, *, thread_full: int) -> None:
        """`thread_full`: entries of a thread to which no phrase is added."""
        self._scripts = scripts
        self._end_call = end_call
        self._thread_full = thread_full

    def record_fact(
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
        """Record one fact, or take it back (None); who did it stands in the journal. The field is
        of its own, and no worker writes it: the next turn may speak of it.

        False when it stood so already, too. `value` is as `call.facts.parsed` gives it. Raises
        StaleEdit.
        """
        reply = self._scripts.run(
            on_call(
                "record_fact",
                call_sid,
                Event.RECORD,
                fact=name,
                value=optional_json(value),
                by=clean(call_sid, by),
                seen=seen,
                request=request,
                now_ms=now_ms,
            )
        )
        return _is_done(call_sid, Event.RECORD, edits.fact(name), reply)

    def add_note(
        self, call_sid: str, text: str, by: str, *, request: str, now_ms: int | None = None
    ) -> bool:
        """Keep a note with the record; it is never spoken. Raises BadWords and TooMuch."""
        who, name = _name_of(call_sid, by), _request(request)
        note = {"id": name, "by": who, "text": _words(call_sid, text, "note", MOST_NOTE_CHARS)}
        reply = self._assured(
            on_call(
                "add_note",
                call_sid,
                Event.REMARK,
                note=as_json(note),
                by=who,
                request=name,
                most_notes=MOST_NOTES,
                now_ms=now_ms,
            )
        )
        if reply.word == Result.FULL:
            raise edits.TooMuch(call_sid, "notes", MOST_NOTES)
        return _is_done(call_sid, Event.REMARK, edits.CALL, reply)

    def set_urgency(
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
        for a reason as for a note, and StaleEdit.
        """
        who, name = _name_of(call_sid, by), _request(request)
        why = _words(call_sid, reason, "reason", MOST_REASON_CHARS) if reason.strip() else None
        reply = self._assured(
            on_call(
                "set_urgency",
                call_sid,
                Event.URGE,
                urgency=as_json(urgency),
                by=who,
                reason=as_json(why),
                seen=seen,
                request=name,
                note=as_json({"id": name, "by": who, "text": why, "urgency": urgency}),
                most_notes=MOST_NOTES,
                now_ms=now_ms,
            )
        )
        if reply.word == Result.UNREASONED:
            raise edits.ReasonMissing(call_sid, reply.facts["heard"])
        if reply.word == Result.FULL:
            raise edits.TooMuch(call_sid, "notes", MOST_NOTES)
        return _is_done(call_sid, Event.URGE, edits.URGENCY, reply), "unbegun" in reply.facts

    def take_over(
        self,
        call_sid: str,
        by: str,
        telephone: str | None,
        *,
        request: str,
        seen: int | None = None,
        now_ms: int | None = None,
    ) -> tuple[bool, HumanAlert | None]:
        """Have the person rung for the call, then the site's humans; and the alert that stood
        before, whose telephone may still ring. The agent talks on until somebody has picked up.

        Raises WithHuman and StaleEdit.
        """
        who = _name_of(call_sid, by)
        reply = self._assured(
            on_call(
                "take_over",
                call_sid,
                Event.ALERT,
                alert=alert_json(wanted_by(who, telephone)),
                by=who,
                seen=seen,
                request=_request(request),
                by_human=BY_HUMAN,
                now_ms=now_ms,
            )
        )
        done = _is_done(call_sid, Event.ALERT, edits.CALL, reply)
        before = json.loads(reply.facts["before"]) if done else None
        return done, None if before is None else HumanAlert.model_validate(before)

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
        Raises MaybeTrapped, StaleEdit, and StoreUnreplicated: ask again.
        """
        by_staff: dict[str, Any] = {
            "by": _name_of(call_sid, by),
            "seen": seen,
            "request": _request(request),
        }
        for _ in range(TRIES):
            judged_at = None if confirmed else _judge(read(call_sid))
            reply, assured = self._end_call(
                call_sid, str(what), now_ms=now_ms, judged_at=judged_at, **by_staff
            )
            if reply.word != Result.STALE or reply.facts:
                break
        else:
            raise StoreUnavailable(self._scripts.where, f"call {call_sid} changes all the time")
        self._refuse_unreplicated(reply, assured)
        return _is_done(call_sid, Event.END, edits.CALL, reply)

    # Phrases --------------------------------------------------------------------------------------

    def say(
        self,
        call_sid: str,
        text: str,
        by: str,
        *,
        request: str,
        seen: int | None = None,
        now_ms: int | None = None,
    ) -> bool:
        """Have `text` said to the caller by whoever speaks with them next: see `take_phrases`.

        Raises BadWords, StaleEdit, WithHuman and TooMuch.
        """
        who, name = _name_of(call_sid, by), _request(request)
        said = _words(call_sid, text, "phrase", MOST_PHRASE_CHARS)
        reply = self._assured(
            on_call(
                "queue_phrase",
                call_sid,
                Event.SAY,
                phrase=as_json({"id": name, "by": who, "text": said}),
                by=who,
                seen=seen,
                request=name,
                most_waiting=MOST_WAITING,
                by_human=BY_HUMAN,
                thread_full=self._thread_full,
                channel=SAID_CHANNEL,
                now_ms=now_ms,
            )
        )
        if reply.word == Result.FULL:
            if "waiting" in reply.facts:
                raise edits.TooMuch(call_sid, "phrases that wait to be said", MOST_WAITING)
            raise edits.TooMuch(call_sid, "entries in its thread", self._thread_full)
        return _is_done(call_sid, Event.SAY, edits.SAY, reply)

    def claim_fetch(self, call_sid: str, *, now_ms: int | None = None) -> bool:
        """True when the caller's line is to be fetched for a phrase that nobody has; it is left to
        that line for FETCHED_MS then, and whoever asks meanwhile hears False."""
        return "fetch" in self._take_phrases(call_sid, None, fetched=False, now_ms=now_ms)

    def take_phrases(
        self, call_sid: str, teller: str, *, fetched: bool = False, now_ms: int | None = None
    ) -> tuple[Saying, ...]:
        """The phrases that `teller` (a socket, or one request of the carrier) is to say now.

        From then on they stand in the thread. Others are given them again until `mark_heard` says
        that they were heard. `fetched`: this is the line that was fetched for them. None of a call
        that is over or unknown, or that a human has.
        """
        facts = self._take_phrases(call_sid, teller, fetched=fetched, now_ms=now_ms)
        return tuple(Saying.model_validate(one) for one in json.loads(facts.get("phrases", "[]")))

    def _take_phrases(
        self, call_sid: str, teller: str | None, *, fetched: bool, now_ms: int | None
    ) -> dict[str, Any]:
        return self._scripts.run(
            on_call(
                "take_phrases",
                call_sid,
                Event.SAY,
                teller=teller,
                by_human=BY_HUMAN,
                fetched=fetched,
                fetch_ms=FETCHED_MS,
                now_ms=now_ms,
            )
        ).facts

    def mark_heard(
        self,
        call_sid: str,
        ids: Sequence[str],
        *,
        left_ms: int | None = None,
        now_ms: int | None = None,
    ) -> None:
        """These phrases were heard, or will have been in `left_ms`: nobody says them again after
        that. What is no longer on its way changes nothing."""
        left_ms = None if left_ms is None else max(0, left_ms)
        self._scripts.run(
            on_call("phrases_heard", call_sid, left_ms=left_ms, ids=ids, now_ms=now_ms)
        )

    def _assured(self, asked: Invocation) -> ScriptReply:
        """What a person was told is done must outlive a failover, where replicas are waited for:
        raises StoreUnreplicated, and asked again it is not done twice."""
        reply, assured = self._scripts.run_assured(asked)
        self._refuse_unreplicated(reply, assured)
        return reply

    def _refuse_unreplicated(self, reply: ScriptReply, assured: bool) -> None:
        if not assured and reply.word in (Result.OK, Result.AGAIN):
            raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)


def _is_done(call_sid: str, event: Event, thing: str, reply: ScriptReply) -> bool:
    """True where it is done now, False where this request was done before; else raises."""
    match Result(reply.word):
        case Result.UNKNOWN:
            raise UnknownCall(call_sid)
        case Result.ENDED:
            raise CallEnded(call_sid, str(event))
        case Result.STALE:
            raise edits.StaleEdit(call_sid, thing, reply.facts["by"], int(reply.facts["at"]))
        case Result.WITH_HUMAN:
            raise edits.WithHuman(call_sid, reply.facts["who"] or None)
        case result:
            return result is Result.OK


def _judge(record: CallRecord) -> str:
    """Of when the record is in which nobody is trapped. Raises MaybeTrapped."""
    sign = may_be_trapped(record)
    if record.outcome is None and sign is not None:
        raise MaybeTrapped(record.call_sid, sign)
    return str(record.updated_at)


def _request(name: str) -> str:
    if not _REQUEST.fullmatch(name):
        raise BadRequestName(name)
    return name


def _name_of(call_sid: str, by: str) -> str:
    """Somebody's name as it is stored."""
    return clean(call_sid, by[:MOST_NAME_CHARS])


def _words(call_sid: str, text: str, what: str, most: int) -> str:
    """Words of a person as they are stored."""
    cleaned = clean(call_sid, text) if len(text) <= most else ""
    if not cleaned:
        raise BadWords(call_sid, what, most)
    return cleaned
