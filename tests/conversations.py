"""A call in memory: each utterance is analysed and answered by the script, as a worker would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callflow.call.record import CallRecord, ThreadEntry
from callflow.call.state import CallState
from callflow.responder.scripted import plan_reply
from callflow.responder.sentences import joined
from callflow.understand import Understanding
from tests.engines import lexical


def talk(
    utterances: Sequence[str],
    language: str = "en",
    facts: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> list[tuple[str, CallRecord]]:
    """Return the reply to each utterance, with the record from which it was worded."""
    understanding = Understanding(lexical)
    call = CallRecord(
        call_sid="CA1",
        call_state=CallState.IN_PROGRESS,
        created_at=1,
        updated_at=1,
        language=language,
        facts=dict(facts or {}),
        recorded=dict(recorded or {}),
    )
    replies = []
    for turn, words in enumerate(utterances, start=1):
        call = _with(call, ThreadEntry(role="caller", turn=turn, text=words, at=turn))
        call = understanding.analyse(call).applied_to(call)
        reply = plan_reply(call)
        text = "".join(joined([*reply.greeting, *reply.body]))
        replies.append((text, call))
        call = _with(call, ThreadEntry(role="agent", turn=turn, text=text, at=turn))
        call = call.model_copy(update={"answered": turn, "sop_step": reply.sop_step})
    return replies


def _with(call: CallRecord, entry: ThreadEntry) -> CallRecord:
    thread = (*call.conversation_thread, entry)
    return call.model_copy(update={"conversation_thread": thread, "heard": entry.turn})
