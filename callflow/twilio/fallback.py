"""Writes the document that the carrier keeps for the hour when nothing of ours answers.

It can ask nobody: neither who calls, nor what was said, nor us. So it does one thing: it rings the
site's people, one after the other, until one of them picks up, and tells the caller to stay.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.errors import CallflowError
from callflow.twilio.twiml import Twiml

SENTENCES: Final = {
    "en": "Please stay on the line: a person is being called.",
    "zh": "请不要挂断，正在为您呼叫工作人员。",
    "es": "No cuelgue, por favor: estamos llamando a una persona.",
}

MOST_ROUNDS: Final = 5
MOST_CHARS: Final = 4_000
"""Twilio's limit for a document in a REST request (error 32018), the tightest that it has; what it
fetches may be sixteen times as long."""


class FallbackTooLong(CallflowError):
    """So many numbers that the carrier would not keep the document."""

    def __init__(self, numbers: int, size: int) -> None:
        self.numbers = numbers
        super().__init__(
            f"a fallback for {numbers} numbers takes {size} characters, and the carrier keeps "
            f"{MOST_CHARS}: give the site fewer human numbers"
        )


class NobodyToCall(CallflowError):
    """No number at all: there is nothing that the document could do."""

    def __init__(self) -> None:
        super().__init__("a fallback needs at least one human number to ring")


def document(
    languages: Sequence[str], ladder: Sequence[tuple[str, int]], caller_id: str | None = None
) -> str:
    """The TwiML that rings the `ladder`, pairs of number and seconds to ring, round after round.

    As many rounds as fit, five at most; then it starts over from where the carrier keeps it. After
    a talk, too, the next number is rung: a caller who is still on the line still needs somebody.
    `caller_id` is a number of the account; None shows the caller's own. Raises NumberRefused for a
    number that a machine may not dial, FallbackTooLong, NobodyToCall.
    """
    if not ladder:
        raise NobodyToCall
    size = 0
    for rounds in range(MOST_ROUNDS, 0, -1):
        written = _build(languages, ladder, caller_id, rounds)
        size = len(written)
        if size <= MOST_CHARS:
            return written
    raise FallbackTooLong(len(ladder), size)


def _build(
    languages: Sequence[str], ladder: Sequence[tuple[str, int]], caller_id: str | None, rounds: int
) -> str:
    built = Twiml(languages[0] if languages else "en")
    for _ in range(rounds):
        for language, sentence in _sentences(languages):
            built.speaking(language).say(sentence)
        for number, ring_s in ladder:
            built.dial(number, action=None, timeout_s=ring_s, caller_id=caller_id)
        # Numbers that are all engaged fail within milliseconds.
        built.pause(1)
    root = ET.fromstring(built.again().xml())
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'


def _sentences(languages: Sequence[str]) -> list[tuple[str, str]]:
    """Each language's sentence once; English where we have none."""
    found: dict[str, tuple[str, str]] = {}
    for language in languages or ("en",):
        primary = primary_language(language)
        tag, sentence = "en", SENTENCES["en"]
        if primary in SENTENCES:
            tag, sentence = language, SENTENCES[primary]
        found.setdefault(sentence, (tag, sentence))
    return list(found.values())
