"""People's words for where a call stands, derived from its record and never stored.

The four states are the customer's and say who may write; these words say what the caller is living
through. Both are read off the same record, so they cannot disagree.
"""

from __future__ import annotations

from enum import StrEnum

from callflow.call.record import CallRecord
from callflow.call.state import CallState


class Word(StrEnum):
    """What a person who looks at a call wants to know first."""

    LISTENING = "listening"
    """Everything is answered: it is the caller's turn to speak."""
    QUEUED = "queued"
    """A reply is owed, and no worker has taken the call yet."""
    ANSWERING = "answering"
    """A worker holds the call and works on the reply."""
    RECOVERING = "recovering"
    """The worker fell silent or gave up: another one is about to go on."""
    WITH_A_HUMAN = "with a human"
    """The agent is silent: a human is on the line, or is being rung to be."""
    ENDED = "ended"


def word(record: CallRecord) -> Word:
    """The word for where this call stands."""
    if record.handling == "human" and record.call_state is not CallState.COMPLETE:
        return Word.WITH_A_HUMAN
    match record.call_state:
        case CallState.COMPLETE:
            return Word.ENDED
        case CallState.INCOMPLETE:
            return Word.RECOVERING
        case CallState.IN_PROGRESS:
            return Word.ANSWERING
        case CallState.PENDING:
            return Word.QUEUED if record.owed else Word.LISTENING


def waiting_since(record: CallRecord) -> int | None:
    """When the caller said what is still unanswered (server clock, ms), or None: nobody waits."""
    if not record.owed or record.call_state is CallState.COMPLETE:
        return None
    for entry in record.conversation_thread:
        if entry.role == "caller" and entry.turn == record.answered + 1:
            return entry.at
    return record.updated_at


def last_words(record: CallRecord) -> tuple[str, str] | None:
    """Who spoke last and what: a reply that is still being spoken counts. None: nobody has."""
    if record.draft is not None and record.draft.turn == record.answered + 1:
        return "agent", record.draft.text
    if not record.conversation_thread:
        return None
    entry = record.conversation_thread[-1]
    return entry.role, entry.text
