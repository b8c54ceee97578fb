"""Makes what a caller said storable without losing a word of it.

Speech recognition and devices deliver emoji, NUL bytes and halves of surrogate pairs. JSON in the
record, TwiML and terminals each choke on another of these, so they are put right once, on the way
in. An empty utterance is silence, which is something heard too.
"""

from __future__ import annotations

from callflow.errors import InvalidUtterance

MAX_UTTERANCE_CHARS = 20_000
"""Twilio ends a speech result at 60 s, about 1,000 characters; this is far beyond any of them."""

_CONTROLS = dict.fromkeys((*range(0x20), *range(0x7F, 0xA0)), " ")
"""The characters of Unicode's category Cc."""


def clean(call_sid: str, text: str) -> str:
    """`text` as valid Unicode: pairs of surrogates joined, lone halves as U+FFFD, controls as
    spaces, outer white space gone. Cleaning twice changes nothing.

    Raises InvalidUtterance above MAX_UTTERANCE_CHARS.
    """
    if len(text) > MAX_UTTERANCE_CHARS:
        raise InvalidUtterance(call_sid, len(text), MAX_UTTERANCE_CHARS)
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return joined.translate(_CONTROLS).strip()
