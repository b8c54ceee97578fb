"""Takes out of an utterance what a lift's intercom returns of our own words.

A stretch of several words in a row that we have just said is no word of the caller's, so it answers
nothing and tells of nothing. Who says more around it, a plain yes above all, has repeated it.
"""

from __future__ import annotations

from typing import Final

from callflow.language.text import MARKS, Tokens, is_han, join_han, tokenize

WORDS: Final = 4
"""So many words in a row, or LETTERS Chinese ones, are no coincidence."""
LETTERS: Final = 6


def without_echo(said: str, spoken: str) -> str:
    """Return `said` without the stretches of `spoken` in it; "" where nothing else was said.

    `spoken` is what the caller has just heard. Without such a stretch `said` comes back as it is.
    """
    heard, ours = tokenize(said), tokenize(spoken)
    gone = _repeated(_words(heard), _words(ours))
    if not gone:
        return said
    left = [token for place, token in enumerate(heard.tokens) if place not in gone]
    if all(token in MARKS for token in left):
        return ""
    return join_han(" ".join(left))


def _words(heard: Tokens) -> list[tuple[int, str]]:
    return [(place, token) for place, token in enumerate(heard.tokens) if token not in MARKS]


def _repeated(heard: list[tuple[int, str]], ours: list[tuple[int, str]]) -> set[int]:
    """The places of the words that stand in stretches of ours."""
    own = [word for _, word in ours]
    gone: set[int] = set()
    for length in (WORDS, LETTERS):
        known = {tuple(own[at : at + length]) for at in range(len(own) - length + 1)}
        for at in range(len(heard) - length + 1):
            stretch = heard[at : at + length]
            words = tuple(word for _, word in stretch)
            if words in known and (length == LETTERS or not any(map(is_han, words))):
                gone.update(place for place, _ in stretch)
    return gone
