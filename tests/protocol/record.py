"""What the model is made of: one call's record, what is asked of the server, and what it says.

`Rules` takes single rules of the protocol away: each that is missing must give a counterexample
(`test_mutants.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from callflow.call.state import OPENED, CallState

Text = tuple[str, ...]
"""Pieces of a reply, each its number and the letter of the worker that worded it: `1a`. Two workers
never word a piece alike, as two runs of a language model do not."""

PENDING, COMPLETE = OPENED.value, CallState.COMPLETE.value


class Entry(NamedTuple):
    """One entry of the thread; what a caller said has no text here."""

    role: str
    turn: int
    text: Text = ()


class Record(NamedTuple):
    """The record of one call, with its entries in the indexes of leases and of owed turns.

    `holder` 0 is nobody; `beat` counts ticks of the model's clock.
    """

    state: str = PENDING
    fence: int = 0
    heard: int = 0
    answered: int = 0
    attempts: int = 0
    holder: int = 0
    claim: int = 0
    beat: int = 0
    understood: int = 0
    draft_turn: int = 0
    draft: Text = ()
    thread: tuple[Entry, ...] = ()
    human: bool = False
    alert: str = ""
    lost: int = 0
    leased: bool = False
    due: bool = False

    @property
    def owed(self) -> bool:
        return self.heard > self.answered


class Request(NamedTuple):
    """One script with the arguments that matter. Sent again, it is the same request.

    `fence` 0 is no lease; `costs` also says that a resumed call needs no human any more.
    """

    script: str
    name: int = 0
    fence: int = 0
    turn: int = 0
    text: Text = ()
    claim: int = 0
    seen: int = 0
    costs: bool = False


class Answer(NamedTuple):
    """What a script says. The last fields are what a claim reads and what a release counts."""

    word: str
    wake: bool = False
    attempts: int = 0
    fence: int = 0
    turn: int = 0
    text: Text = ()
    understood: int = 0


@dataclass(frozen=True, slots=True)
class Rules:
    """What keeps the promises. One taken away is a mutant; none is missing in the product."""

    fence_in_commit: bool = True
    turn_in_commit: bool = True
    fence_in_draft: bool = True
    fence_in_beat: bool = True
    fence_in_release: bool = True
    fence_grows: bool = True
    claim_once: bool = True
    hear_once: bool = True
    hear_owes: bool = True
    commit_owes_the_rest: bool = True
    release_owes: bool = True
    reclaim_compares_beats: bool = True
    hand_back_counts: bool = True
    reclaim_counts: bool = True
    ladder_ends_at_a_human: bool = True
    successor_reads_draft: bool = True
    complete_refuses: bool = True
    acknowledges_what_is_replicated: bool = True
    drafts_only_grow: bool = True
    rewake_knows_the_end: bool = True
    lease_names_its_claim: bool = True
