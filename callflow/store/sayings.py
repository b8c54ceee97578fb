"""Phrases that people have said to callers: from the person who typed them to the caller's ear.

A phrase waits in the record. Whoever speaks with the caller next (a socket, or the answer to a
request of the carrier) is given it, and it stands in the thread from then on; it waits until it is
known to have been heard, so a process that dies with it costs time, and no words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from callflow.call.acts import SAY, TooMuch
from callflow.call.record import Saying
from callflow.call.state import Event, moves_row
from callflow.redis.scripts import Scripts
from callflow.store.asked import done, name_of, named, run, shown, words
from callflow.store.encoding import BY_HUMAN, as_json, clock
from callflow.store.keys import SAID_CHANNEL, call_keys

MOST_SAYING_CHARS = 1_000
"""A caller listens to no more at once: a minute."""
MOST_WAITING = 5
"""Phrases of one call that are on their way to the caller."""
FETCHED_MS = 3_000
"""So long a phrase is left to the line that was fetched for it: the carrier asks us at once."""


class Sayings:
    """The phrases of one deployment. Raises StoreUnavailable like `CallStore`."""

    def __init__(self, scripts: Scripts, thread_most_entries: int) -> None:
        self._scripts = scripts
        self._thread_full = 2 * thread_most_entries

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
        """Have `text` said to the caller by whoever speaks with them next: see `utter`.

        Raises BadWords, Overtaken, WithHuman and TooMuch.
        """
        keys, who = call_keys(call_sid), name_of(call_sid, by)
        said = words(call_sid, text, "phrase", MOST_SAYING_CHARS)
        saying = {"id": named(request), "by": who, "text": said}
        word, *rest = run(
            self._scripts,
            "say",
            keys.own,
            moves_row(Event.SAY),
            call_sid,
            as_json(saying),
            who,
            shown(seen),
            request,
            MOST_WAITING,
            BY_HUMAN,
            self._thread_full,
            SAID_CHANNEL,
            clock(now_ms),
        )
        if word == "waiting":
            raise TooMuch(call_sid, "phrases that wait to be said", MOST_WAITING)
        if word == "full":
            raise TooMuch(call_sid, "entries in its thread", self._thread_full)
        return done(call_sid, Event.SAY, SAY, word, rest)

    def fetch(self, call_sid: str, *, now_ms: int | None = None) -> bool:
        """True when the caller's line is to be fetched for a phrase that nobody has; it is left to
        that line for FETCHED_MS then, and whoever asks meanwhile hears False."""
        word, *_ = self._utter(call_sid, "", fetched=False, now_ms=now_ms)
        return word == "fetch"

    def utter(
        self, call_sid: str, teller: str, *, fetched: bool = False, now_ms: int | None = None
    ) -> tuple[Saying, ...]:
        """The phrases that `teller` (a socket, or one request of the carrier) is to say now.

        From then on they stand in the thread. Others are given them again until `uttered` says that
        they were heard. `fetched`: this is the line that was fetched for them. None of a call that
        is over or unknown, or that a human has.
        """
        word, *rest = self._utter(call_sid, teller, fetched=fetched, now_ms=now_ms)
        if word != "say":
            return ()
        return tuple(Saying.model_validate(one) for one in json.loads(rest[0]))

    def _utter(self, call_sid: str, teller: str, *, fetched: bool, now_ms: int | None) -> list[str]:
        said: list[str] = self._scripts.run(
            "utter",
            call_keys(call_sid).own,
            (
                moves_row(Event.SAY),
                teller,
                BY_HUMAN,
                int(fetched),
                FETCHED_MS,
                clock(now_ms),
            ),
        )
        return said

    def uttered(
        self,
        call_sid: str,
        ids: Sequence[str],
        *,
        left_ms: int | None = None,
        now_ms: int | None = None,
    ) -> None:
        """These phrases were heard, or will have been in `left_ms`: nobody says them again after
        that. What is no longer on its way changes nothing."""
        left = "" if left_ms is None else max(0, left_ms)
        arguments = (f" {' '.join(ids)} ", left, clock(now_ms))
        self._scripts.run("uttered", (call_keys(call_sid).call,), arguments)
