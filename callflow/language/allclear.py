"""Does a caller say that people are out, or that nothing was the matter?

Only an explicit statement counts, for it is what lets urgency fall: no calm word, no question, no
wish, nothing about yesterday, and nothing that holds for a part of the people only.
"""

from __future__ import annotations

from typing import Final

from callflow.language.danger import dangers
from callflow.language.lexicon import shipped
from callflow.language.text import hear

_UNDOING: Final = frozenset(("part", "not"))


def all_clear(text: str) -> bool:
    """True when `text` states that everybody is out or free, or that it was a false alarm.

    False where the same breath tells of a danger: who is out of a lift may lie hurt before it.
    """
    heard = hear(text)
    if "?" in heard.tokens or len(heard.tokens) < 2:
        return False
    said = shipped("allclear").sections(heard)
    return "out" in said and not said & _UNDOING and not dangers(text, "")
