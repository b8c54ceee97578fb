"""Makes what a caller said storable without losing a word of it.

Speech recognition and devices deliver emoji, NUL bytes and halves of surrogate pairs. JSON in the
record, TwiML and terminals each choke on another of these, so they are put right by one function,
for sockets, webhooks, the record and the judge of a trial alike. An empty utterance is silence,
which is something heard too. A recogniser may say how sure it is of what it heard: its
confidence.
"""

from __future__ import annotations

from typing import Final

from callflow.errors import InvalidUtterance

MAX_UTTERANCE_CHARS = 20_000
"""Twilio ends a speech result at 60 s, about 1,000 characters; this is far beyond any of them."""

LOW_CONFIDENCE: Final = 0.3
"""Below it, by the recogniser's own word, what it heard is hardly more than a guess."""

SURE_CONFIDENCE: Final = 0.6
"""Below it what was heard may raise the urgency of a call, and calms nothing down."""

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
"""The characters of Unicode's category Cc."""


def parse_confidence(given: str) -> float | None:
    """A recogniser's confidence, above 0 and up to 1; None for 0, which means "unknown" to some,
    and for what is no such number."""
    try:
        value = float(given)
    except ValueError:
        return None
    return value if 0 < value <= 1 else None


def clean(call_sid: str, text: str) -> str:
    """`text` as `clean_text` makes it, without outer white space. Cleaning twice changes nothing.

    Raises InvalidUtterance above MAX_UTTERANCE_CHARS.
    """
    if len(text) > MAX_UTTERANCE_CHARS:
        raise InvalidUtterance(call_sid, len(text), MAX_UTTERANCE_CHARS)
    return clean_text(text).strip()


def clean_text(text: str) -> str:
    """`text` as valid Unicode: pairs of surrogates joined, lone halves as U+FFFD, controls as
    spaces. Cleaning twice changes nothing."""
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined.translate(_CONTROLS)
