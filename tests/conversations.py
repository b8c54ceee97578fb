"""A call in memory: each utterance is analysed and answered by the script, as a worker would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callflow.call.record import CallRecord
from callflow.lab.evaluation.rehearsal import open_call, rehearse
from callflow.responder.scripted import ScriptedResponder
from callflow.understand import Understanding
from tests.engines import lexical


def talk(
    utterances: Sequence[str],
    language: str = "en",
    facts: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Any] | None = None,
) -> list[tuple[str, CallRecord]]:
    """Return the reply to each utterance, with the record from which it was worded."""
    call = open_call(language, facts, recorded)
    turns = rehearse(utterances, call, Understanding(lexical), ScriptedResponder())
    return [(turn.reply, turn.record) for turn in turns]
