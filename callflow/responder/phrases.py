"""The few sentences that a responder can say without any procedure, in each language it speaks.

They stand in `phrases.json` as content. A responder that has no procedure at all still tells who is
speaking, keeps people inside and stays on the line.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.responder.sentences import joined

FALLBACK_LANGUAGE: Final = "en"


@lru_cache(maxsize=1)
def _all() -> dict[str, dict[str, str]]:
    text = files("callflow.responder").joinpath("phrases.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)
    return found


def generic(language: str) -> dict[str, str]:
    """Return the sentences by id for a language tag such as `zh-CN`; English where unknown."""
    return _all().get(primary_language(language), _all()[FALLBACK_LANGUAGE])


def disclosures(language: str) -> tuple[str, ...]:
    """Return the sentences, any of which tells the caller that a machine is speaking."""
    found = generic(language)
    return (found["disclosure"], found["disclosure_alerting"])


def greeting(language: str, alerting: bool) -> str:
    """Return what opens a call: the line, that a machine speaks, and the first question.

    `alerting`: a person is being rung while it is said.
    """
    found = generic(language)
    disclosure = found["disclosure_alerting" if alerting else "disclosure"]
    return "".join(joined([found["line"], disclosure, found["ask_first"]]))


def whisper(
    language: str,
    lift: str,
    address: str,
    reason: str,
    emergency_number: str | None,
    *,
    unclear: bool = False,
) -> str:
    """Return what a human hears before they take a call: who, where, why, and which key to press.

    `reason` is one of `call/ladder.py`'s callers' words (`asked`, `no_reply` …) or that of a
    procedure, which is told as what a caller reports. `unclear`: the caller is hard to understand,
    which the reason may say already.
    """
    found = generic(language)
    why = found.get(f"reason_{reason}", found["reason_scenario"])
    sentences = [found["whisper"].format(lift=lift, address=address, reason=why)]
    if unclear and reason != "not_understood":
        sentences.append(found["whisper_unclear"])
    if emergency_number is not None:
        number = " ".join(emergency_number.replace(" ", ""))
        sentences.append(found["whisper_emergency"].format(number=number))
    return "".join(joined([*sentences, found["whisper_key"]]))
