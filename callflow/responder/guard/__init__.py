"""The guard between a language model and a caller who is trapped.

It reads each sentence alone, and what answers in a word or two by the question that it answers.

Deterministic: no model, no network, no clock. What it does not understand it catches, for there is
always a sentence of the procedure to say instead.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from callflow.call.facts import known
from callflow.call.language_tag import primary_language
from callflow.call.record import CallRecord
from callflow.language.questions import questions
from callflow.responder.guard.form import fault, strange
from callflow.responder.guard.rules import LANGUAGES, LexiconError, rulebook
from callflow.responder.guard.sentence import Reading, normalised
from callflow.responder.guard.unsupported import (
    CONFIRMED,
    confirmed_minutes,
    unfit_answer,
    unsupported_claim,
    unsupported_time,
)
from callflow.responder.scripted import conditions

__all__ = ["Guard", "LexiconError"]

_GAP: Final = re.compile(r"\{(\w+)\}")
_FIRST: Final = {
    "en": "Please don't open the doors in ten minutes.",
    "es": "No abra las puertas en diez minutos.",
    "zh": "请不要在十分钟后开门。",
}


class Guard:
    """Says which rule forbids a sentence. Holds nothing of a call, so one serves all of them."""

    def __init__(self) -> None:
        """Read the lexicons now, about two seconds, so that no call waits. Raises LexiconError.

        Build it before a process forks: what it has compiled is then shared by the children.
        """
        self._known = {code: rulebook(code) for code in LANGUAGES}
        for code, sentence in _FIRST.items():
            # What is compiled at its first use is compiled here.
            self.check(sentence, language=code, facts={}, approved={}, caller="?")

    def check_in_call(self, sentence: str, record: CallRecord) -> str | None:
        """Return the rule that forbids `sentence` as a reply to the last words of a call."""
        thread = reversed(record.conversation_thread)
        analysis = record.analysis
        read = analysis is not None and analysis.turn == record.answered + 1
        return self.check(
            sentence,
            language=record.language,
            facts=known(record),
            approved=conditions(record),
            caller=next((entry.text for entry in thread if entry.role == "caller"), ""),
            asked=analysis.questions if analysis is not None and read else None,
        )

    def check(
        self,
        sentence: str,
        *,
        language: str,
        facts: Mapping[str, Any],
        approved: Mapping[str, str | None],
        caller: str = "",
        asked: Sequence[str] | None = None,
    ) -> str | None:
        """Return the rule that forbids `sentence`, or None when it may be spoken.

        `language` is a tag such as `es-MX`; `facts` are those known of the call; `approved` are
        the procedure's own sentences with the fact that each waits for: one of them, with its gaps
        filled from the facts and whatever blanks, passes as it is once its fact holds, and is
        `eta` or `dispatch` before. In a language without a lexicon only approved sentences pass.
        `caller` are the last words of the caller, and `asked` the names of the questions in them
        (language/questions.py; None: they are looked for here): "Yes" means what they ask.
        Never raises for any sentence; the same arguments always give the same answer.
        """
        own = _own_sentence(sentence, facts, approved)
        if own is not None:
            return own or None
        if (words := self._known.get(primary_language(language))) is None:
            return "language"
        if found := fault(sentence, words):
            return found
        reading = Reading(normalised(sentence, words), words)
        if found := _forbidden(reading, facts):
            return found
        if not caller.strip() and not asked:
            return None
        return unfit_answer(
            reading,
            caller,
            questions(caller) if asked is None else asked,
            lambda text: _forbidden(Reading(normalised(text, words), words), facts),
        )


def _forbidden(reading: Reading, facts: Mapping[str, Any]) -> str | None:
    for rule in reading.known.rules:
        if rule.name == "eta":
            if unsupported_time(rule, reading, facts):
                return rule.name
        elif rule.name == "dispatch":
            if unsupported_claim(rule, reading, facts):
                return rule.name
        elif any(reading.caught(rule)):
            return rule.name
    return strange(reading)


def _own_sentence(
    sentence: str, facts: Mapping[str, Any], approved: Mapping[str, str | None]
) -> str | None:
    """Return "" for a sentence of the procedure, its rule while its fact is missing, else None."""
    said = _same_blanks(sentence)
    for text, fact in approved.items():
        filled = _same_blanks(_filled(text, facts))
        if said != filled or "{" in filled:
            continue
        if fact == CONFIRMED and "{" not in text and facts.get(fact):
            return None  # A time that somebody wrote out: the rules compare it with the fact.
        if fact is None or (facts.get(fact) and _time_is_known(fact, facts)):
            return ""
        return "eta" if fact == CONFIRMED else "dispatch"
    return None


def _time_is_known(fact: str, facts: Mapping[str, Any]) -> bool:
    return fact != CONFIRMED or confirmed_minutes(facts) is not None


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    return _GAP.sub(lambda gap: str(facts.get(gap[1], gap[0])), text) if "{" in text else text


def _same_blanks(text: str) -> str:
    return " ".join(text.split())
