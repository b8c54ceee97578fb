"""How long each turn that a strike hit had to wait for its next worker, read off the journals.

A worker that was struck had the turn; a message that was lost was on its way to one.

Nobody is acquitted by a journal: what a caller heard is judged without it. It alone knows which
worker had a turn when it was struck. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from callflow.call.history import JournalEntry
from callflow.lab.chaos.bounds import Harm, added_s, harm_of, takeover_bound_s
from callflow.lab.chaos.witness import Conditions, Strike, Testimony

_LETS_GO: Final = frozenset(
    {"committed", "handed_back", "reclaimed", "transferred", "accepted", "lost", "ended"}
)
_TAKES_UP: Final = ("claimed", "accepted")
"""A worker, or a human because none came."""

_TAKEN_FROM_IT: Final = ("reclaimed", "handed_back")


@dataclass(frozen=True, slots=True)
class Takeover:
    """One turn that was hit. `after_s`: from the signal to the next claim, or to the human who came
    because nobody else did; where the worker handed the call back, or a server was away, from when
    it did, or was back."""

    call_sid: str
    turn: int
    strike: Strike
    after_s: float
    bound_s: float
    """What is allowed for it, with all that was struck at the same time."""


def takeovers(testimony: Testimony) -> list[Takeover]:
    """Every one that the journals know of."""
    return [
        found
        for call_sid, journal in testimony.journals.items()
        for found in (
            *_of_workers(call_sid, journal, testimony.strikes, testimony.conditions),
            *_unclaimed(call_sid, journal, testimony.strikes, testimony.conditions),
        )
    ]


def reclaims(testimony: Testimony) -> int:
    """How often a call was given from one worker to another."""
    return sum(
        entry.event in _TAKEN_FROM_IT
        for journal in testimony.journals.values()
        for entry in journal
    )


def _of_workers(
    call_sid: str,
    journal: Sequence[JournalEntry],
    strikes: Sequence[Strike],
    conditions: Conditions,
) -> Iterator[Takeover]:
    """Turns whose worker was struck, and that were taken from it."""
    for index, entry in enumerate(journal):
        if entry.event != "claimed":
            continue
        later = journal[index + 1 :]
        let_go = next((e for e in later if e.event in _LETS_GO), None)
        taken = next((e for e in later if e.event in _TAKES_UP), None)
        if let_go is None or taken is None or let_go.event not in (*_TAKEN_FROM_IT, "accepted"):
            continue
        for strike in strikes:
            held = entry.at <= strike.at_ms <= let_go.at
            if held and strike.hit(entry.worker) and harm_of(strike.kind) is not Harm.POISON:
                handed = let_go.event == "handed_back"
                since_ms = let_go.at if handed else strike.at_ms
                own_s = takeover_bound_s(strike.kind, conditions)
                yield _timed(call_sid, entry, taken, strike, since_ms, own_s, strikes)
                break


def _timed(
    call_sid: str,
    turn: JournalEntry,
    taken: JournalEntry,
    strike: Strike,
    since_ms: int,
    own_s: float,
    strikes: Sequence[Strike],
) -> Takeover:
    """From `since_ms` until it was taken up; `own_s` is the bound, were nothing else struck."""
    from_s = strike.at_s + (since_ms - strike.at_ms) / 1000
    after_s = (taken.at - since_ms) / 1000
    others = [one for one in strikes if one is not strike]
    bound_s = own_s + added_s(others, from_s, from_s + after_s)
    return Takeover(call_sid, turn.turn or 0, strike, after_s, bound_s)


def _unclaimed(
    call_sid: str,
    journal: Sequence[JournalEntry],
    strikes: Sequence[Strike],
    conditions: Conditions,
) -> Iterator[Takeover]:
    """Turns that were owed, and that nobody had, while messages were lost or no server was there
    to claim them at."""
    owed: JournalEntry | None = None
    busy = False
    for entry in journal:
        if entry.event == "heard" and owed is None and not busy:
            owed = entry
        elif entry.event in (*_TAKES_UP, "ended"):
            if owed is not None and entry.event != "ended":
                yield from _waited(call_sid, owed, entry, strikes, conditions)
            owed, busy = None, entry.event == "claimed"
        elif entry.event in _LETS_GO:
            busy = False


def _waited(
    call_sid: str,
    owed: JournalEntry,
    taken: JournalEntry,
    strikes: Sequence[Strike],
    conditions: Conditions,
) -> Iterator[Takeover]:
    def until_ms(strike: Strike) -> int:
        return strike.at_ms + round((strike.until_s - strike.at_s) * 1000)

    meanwhile = [
        strike
        for strike in strikes
        if harm_of(strike.kind) in (Harm.MESSAGE, Harm.SERVER)
        and strike.at_ms <= taken.at
        and until_ms(strike) >= owed.at
    ]
    if meanwhile:
        strike = max(meanwhile, key=until_ms)
        # What is away is waited for; the bound begins when the last of it is back.
        since_ms = max(owed.at, min(until_ms(strike), taken.at))
        own_s = takeover_bound_s(strike.kind, conditions)
        yield _timed(call_sid, owed, taken, strike, since_ms, own_s, strikes)
