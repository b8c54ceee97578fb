"""A call in memory: each utterance is analysed and answered by the script, as a worker would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from callflow.call.record import CallRecord
from callflow.lab.evaluation.rehearsal import hear_reply, open_call, take_turn
from callflow.responder.scripted import ScriptedResponder
from callflow.understand import Understanding
from tests.engines import lexical


def talk(
    utterances: Sequence[str],
    language: str = "en",
    facts: Mapping[str, Any] | None = None,
    recorded: Mapping[str, Any] | None = None,
    confidences: Sequence[float | None] = (),
) -> list[tuple[str, CallRecord]]:
    """Return the reply to each utterance, with the record from which it was worded.

    `confidences`: the recogniser's of the first utterances; None, or left out, is unknown.
    """
    call = open_call(language, facts, recorded)
    turns = []
    for utterance, sure in zip_longest(utterances, confidences):
        turn = take_turn(call, utterance, Understanding(lexical), ScriptedResponder(), sure)
        turns.append((turn.reply, turn.record))
        call = hear_reply(turn)
    return turns
