"""Hears that a caller asks for a person, whatever the language of the call.

A request is rather heard once too often: the person who is rung for it can say so. What must not
pass for one is a report about people: somebody is hurt, somebody is in the lift.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import groupby

from callflow.language.text import join_han, lexicon_lines, listed, without_accents

# What people and recognisers put between words, in front of a person as often as anywhere.
_FILLERS = frozenset(listed("ah eh em er erm hm hmm mm uh uhm um"))
_SECTION = re.compile(r"\[[a-z]+\]")
_FIELD = re.compile(r"\{([a-z]\w*)\}")


@lru_cache(maxsize=64)
def asks_for_human(text: str) -> bool:
    """True when a caller asks for a person, in English, Spanish or Chinese.

    Case, accents, punctuation, words said twice, and the spaces that recognisers put between
    Chinese letters do not matter.
    """
    bare = re.sub(r"['’]", "", without_accents(text.casefold()))
    heard = re.sub(r"[^\w]+", " ", bare).split()
    words = " ".join(word for word, _ in groupby(w for w in heard if w not in _FILLERS))
    said = join_han(words)
    return any(pattern.search(said) for pattern in _patterns())


@cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    fields: dict[str, str] = {}
    found = []
    for line in lexicon_lines("requests"):
        whole = _FIELD.sub(lambda name: fields.get(name[1], name[0]), line)
        if whole.startswith("{"):
            name, _, regex = whole.partition("} = ")
            fields[name[1:]] = regex
        elif whole and not _SECTION.fullmatch(whole):
            found.append(re.compile(whole))
    return tuple(found)
