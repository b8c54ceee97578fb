"""Takes out of an utterance what no caller has said: what a recogniser made of silence, and echoes.

Recognisers are trained on films: where nobody speaks they write "thank you for watching", the
credits of subtitles, or "you". Such words are no answer and no goodbye. And a lift's intercom
returns our own words: a stretch of several words in a row that we have just said answers nothing.
Who says more around it, a plain yes above all, has repeated it.
"""

from __future__ import annotations

from typing import Final

from callflow.language.lexicon import load_lexicon
from callflow.language.text import MARKS, Tokens, is_han, join_han, tokenize


def made_of_silence(said: str, doubtful: bool) -> bool:
    """True when `said` holds nothing but what recognisers make of silence.

    `doubtful`: nothing speaks for a caller who takes leave. The recogniser was not sure, or nobody
    has said anything in this call yet. Then "okay thank you bye" was nobody, too.
    """
    heard = tokenize(said)
    kinds = _SELDOM_SAID | {"farewell"} if doubtful else _SELDOM_SAID
    matches = load_lexicon("silence").find(heard)
    if any(match.section == "credits" for match in matches):
        kinds = _SELDOM_SAID | {"farewell"}
    if kinds.isdisjoint(match.section for match in matches):
        return False
    covered = {
        place
        for match in matches
        if match.section in kinds or match.section == "beside"
        for place in range(match.start, match.end)
    }
    words = [place for place, token in enumerate(heard.tokens) if token not in MARKS]
    if covered.issuperset(words):
        return True
    # Credits begin with what they are and name whoever has made them.
    first = min((match.start for match in matches if match.section == "credits"), default=None)
    return first is not None and len(words) <= _LONGEST and covered.issuperset(words[:first])


_SELDOM_SAID: Final = frozenset(("credits", "noise"))
_LONGEST: Final = 24


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
