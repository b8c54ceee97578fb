"""Text on its way to a caller's ear: made fit for XML and JSON, and cut into lengths for `<Say>`.

XML has no way to write a control character or half of a surrogate pair: a document with one in it
is refused as a whole and the caller is cut off. They become spaces; every other character stays.
"""

from __future__ import annotations

import re
from typing import Final

MOST_CHARS: Final = 3_000
"""Twilio takes 4,096 characters in a `<Say>` for its own voices, but 3,000 for Polly's."""
MOST_ENCODED: Final = 4_500
"""And 4,500 when they are written as in a URL, where a Chinese character takes nine (error 13521).
"""

_PLANE_ENDS: Final = "".join(
    chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF)
)
_UNSPEAKABLE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffd-\uffff{_PLANE_ENDS}]")
"""Controls, noncharacters, and what stands for a character that was lost."""

_SENTENCE_END: Final = re.compile(r"[。！？]|[.!?…؟۔।][\"'”’»)\]]*(?=\s)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]")


def clean(text: str) -> str:
    """`text` as XML and JSON carry it; pairs of surrogates are joined. Twice changes nothing."""
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return _UNSPEAKABLE.sub(" ", joined)


def pieces(text: str) -> list[str]:
    """`text`, cleaned, in pieces that one `<Say>` takes, cut where a sentence or a word ends.

    White space is single spaces afterwards. A text with nothing to say gives no piece.
    """
    found: list[str] = []
    rest = " ".join(clean(text).split())
    while rest:
        end = _fitting(rest)
        if end < len(rest):
            end = _natural_end(rest, end)
        found.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return found


def _fitting(text: str) -> int:
    """How many characters of `text` one `<Say>` takes; at least one."""
    encoded = 0
    for count, char in enumerate(text[:MOST_CHARS]):
        encoded += 1 if _PLAIN.match(char) else 3 * len(char.encode())
        if encoded > MOST_ENCODED:
            return count
    return min(len(text), MOST_CHARS)


def _natural_end(text: str, limit: int) -> int:
    """Where to cut `text` at or before `limit`: a sentence's end, else a word's, else there."""
    # One more character is looked at: it may be the space after the last sentence.
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, limit + 1)]
    fitting = [end for end in ends if end <= limit]
    if fitting:
        return fitting[-1]
    space = text.rfind(" ", 1, limit + 1)
    return limit if space < 0 else space
