"""What a caller states as so, now: without suppositions, questions, and tales of other days.

Recognition seldom hears where a clause ends, so a clause that does not count goes on to the next
mark, or to words that begin a statement ("… we are", "… there is").
"""

from __future__ import annotations

from callflow.language.lexicon import shipped
from callflow.language.text import MARKS, Heard, heard_from


def stated(heard: Heard) -> Heard:
    """Return what is stated, with a mark where something was left out."""
    matches = shipped("statements").find(heard)
    if not matches and "?" not in heard.tokens:
        return heard
    begins = {m.start for m in matches if m.section == "begin"}
    openings = {m.start: m for m in matches if m.section == "unsaid"}
    closings = {m.end for m in matches if m.section == "unsaid_before"}
    gone: set[int] = set()
    size = len(heard.tokens)
    for start, opening in openings.items():
        end = opening.end
        while (
            end < size
            and heard.tokens[end] not in MARKS
            and not (end > opening.end and end in begins)
        ):
            end += 1
        gone.update(range(start, end))
    for end in closings:
        start = end - 1
        while start > 0 and heard.tokens[start - 1] not in MARKS and start not in begins:
            start -= 1
        gone.update(range(start, end))
    kept = ["," if place in gone else token for place, token in enumerate(heard.tokens)]
    return heard_from(_merged(kept)) if gone else heard


def _merged(tokens: list[str]) -> list[str]:
    return [
        t for place, t in enumerate(tokens) if t != "," or place == 0 or tokens[place - 1] != ","
    ]
