"""Tells words that a speech recogniser has made of silence or noise from words of a caller.

Recognisers are trained on films: where nobody speaks they write "thank you for watching", the
credits of subtitles, or "you". Such words are no answer and no goodbye.
"""

from __future__ import annotations

from typing import Final

from callflow.language.lexicon import load_lexicon
from callflow.language.text import MARKS, tokenize


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
