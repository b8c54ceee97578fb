"""Hears dangers to life, and that they are over, by words and symptoms in three languages.

Callers mix languages, and a wrong tag must not hide the word for fire; so every list is searched,
whatever the call's language. What is found may only raise the urgency of a call: silence about a
danger proves nothing, and a danger that was heard once is not over because it was denied later.
Only an explicit all-clear lets urgency fall: no calm word, no question, no wish, nothing about
yesterday, and nothing that holds for a part of the people only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callflow.call.facts import DANGERS
from callflow.language.lexicon import Match, load_lexicon
from callflow.language.negation import SMALL_WORDS, affirmed, denial_before, denied_places
from callflow.language.text import Tokens, from_tokens, join_han, tokenize

_FILES: Final = ("danger_en", "danger_es", "danger_zh")
_AROUND: Final = frozenset(("fire", "smoke", "water"))
# Sections such as `not_violence` take words away from one danger alone: "hit her head".
_NOT: Final = "not_"
_MASK: Final = "-"
# Stands where words were taken away: no cue holds it, and no denial reaches over it.
_GONE: Final = ","


def dangers(text: str, language: str) -> frozenset[str]:
    """Return the dangers (of DANGERS) that `text` reports; empty where it reports none.

    `language` is not needed to understand the words and does not change the answer. A danger that
    is denied ("no smoke"), supposed ("what if") or an exercise ("fire drill") is not reported.
    """
    del language
    return frozenset(match.section for match in _reported(tokenize(text)))


def foreign_dangers(text: str) -> frozenset[str]:
    """Return the dangers that `text` reports in a language which callflow does not speak.

    Its callers are asked nothing that they understand, so the word alone counts.
    """
    heard = tokenize(text)
    lexicon = load_lexicon("danger_other")
    masks = [match for match in lexicon.find(heard) if match.section == _MASK]
    found = lexicon.find(_without(heard, masks))
    return frozenset(match.section for match in found if match.section in DANGERS)


def mentioned_dangers(heard: Tokens) -> Sequence[Match]:
    """Return every mention of a danger, denied or not."""
    return _mentioned(heard)[1]


def denies_danger(heard: Tokens) -> bool:
    """True when fire, smoke or water is denied and no danger reported: "there is no smoke".

    That nobody is hurt says nothing about smoke.
    """
    heard, found = _mentioned(heard)
    return any(m.section in _AROUND for m in found) and not affirmed(heard, found)


def without_denied(text: str) -> str:
    """Return `text` without the dangers that it denies: "stuck no smoke" gives "stuck".

    Where the lack of something is the danger ("not breathing"), it stays. Empty where what is
    left is small words.
    """
    heard, found = _mentioned(tokenize(text))
    taken_back = denied_places(heard, found)
    gone = {
        place
        for match in found
        if match.start in taken_back
        for place in range(denial_before(heard, match.start), match.end)
    }
    if not gone:
        return text
    left = [token for at, token in enumerate(heard.tokens) if at not in gone]
    # "No, there is no smoke": what is left says nothing either.
    return "" if SMALL_WORDS.issuperset(left) else join_han(" ".join(left))


def _reported(heard: Tokens) -> Sequence[Match]:
    return affirmed(*_mentioned(heard))


def _mentioned(heard: Tokens) -> tuple[Tokens, Sequence[Match]]:
    """The mentions, and the words without those that were taken away."""
    lexicon = load_lexicon(*_FILES)
    found = lexicon.find(heard)
    masks = [m for m in found if m.section == _MASK]
    if masks:
        heard = _without(heard, masks)
        found = lexicon.find(heard)
    not_so = [m for m in found if m.section.startswith(_NOT)]
    mentioned = [
        m
        for m in found
        if m.section in DANGERS
        and not any(n.section == _NOT + m.section and n.start <= m.start < n.end for n in not_so)
    ]
    return heard, mentioned


def _without(heard: Tokens, masks: Sequence[Match]) -> Tokens:
    tokens = list(heard.tokens)
    for mask in masks:
        tokens[mask.start : mask.end] = [_GONE] * (mask.end - mask.start)
    return from_tokens(tokens)


_BEFORE_RELEASE: Final = frozenset(("forcing_doors",))
"""Who tells of their release may tell how the doors were opened."""
_UNDOING: Final = frozenset(("part", "not"))


def all_clear(text: str) -> bool:
    """True when `text` states that everybody is out or free, or that it was a false alarm.

    False where the same breath tells of a danger: who is out of a lift may lie hurt before it.
    """
    heard = tokenize(text)
    if "?" in heard.tokens or len(heard.tokens) < 2:
        return False
    said = load_lexicon("allclear").sections(heard)
    return "out" in said and not said & _UNDOING and not dangers(text, "") - _BEFORE_RELEASE
