"""Joins sentences into one reply, and finds what is left of it after a part has been heard.

Each piece carries the space before it, so pieces in a row are exactly the reply. Chinese puts no
space between its sentences.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WIDE = re.compile(r"[\u2e80-\u9fff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]")


def joined(sentences: Sequence[str], before: str = "") -> list[str]:
    """Return the sentences as pieces, each with the space that divides it from what went before.

    `before` is what the caller has already heard of this reply.
    """
    pieces: list[str] = []
    last = before[-1:]
    for sentence in sentences:
        space = " " if last and not last.isspace() and not _touching(last, sentence) else ""
        pieces.append(space + sentence)
        last = sentence[-1:]
    return pieces


def _touching(last: str, sentence: str) -> bool:
    return bool(_WIDE.match(last) and _WIDE.match(sentence))


def heard_prefix(sentences: Sequence[str], heard: str) -> int | None:
    """Return how many of the sentences `heard` consists of, or None when it holds anything else."""
    so_far = ""
    for count, piece in enumerate(joined(sentences)):
        if so_far == heard:
            return count
        so_far += piece
    return len(sentences) if so_far == heard else None


def remaining(sentences: Sequence[str], heard: str) -> list[str]:
    """Return the sentences that are still to be said after `heard`, whole ones only.

    A sentence that broke off in the middle is said again as a whole: half an instruction is none.
    """
    count = heard_prefix(sentences, heard)
    if count is not None:
        return list(sentences[count:])
    return [sentence for sentence in sentences if sentence not in heard]
