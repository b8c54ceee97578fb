"""Tells what a caller states from what they deny, suppose, ask, or tell of other days.

A denial reaches forward over small words to the first cue ("no smoke", "nobody is hurt", 没有烟),
and from a cue that it denied over "or" to the next. It ends with its clause, and before any word
that is not small: "no he is bleeding" denies something else, and reports.

Recognition seldom hears where a clause ends, so a clause that states nothing goes on to the next
mark, or to words that begin a statement ("… we are", "… there is").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callflow.language.lexicon import Match, load_lexicon
from callflow.language.text import MARKS, Tokens, from_tokens, listed, small_words

_SAME: Final = {
    "never": "not", "none": "nobody", "nothing": "nobody", "without": "no", "neither": "no",
    "nor": "no", "ni": "no", "tampoco": "no", "ningun": "sin", "ninguna": "sin", "ninguno": "nadie",
    "nada": "sin", "无": "没", "未": "没", "别": "不", "非": "不",
}  # fmt: skip
# What may come true is none of it: "what if there is a fire".
_SUPPOSED: Final = (
    ("if",), ("in", "case"), ("y", "si"), ("pasa", "si"), ("en", "caso"), ("por", "si"),
    ("如", "果"), ("万", "一"), ("要", "是"), ("假", "如"), ("会", "不", "会"),
)  # fmt: skip
_REACH_SUPPOSED: Final = small_words("reach of if")
_THINKING: Final = frozenset(("think", "believe"))
_AFTER_THINKING: Final = frozenset(listed("there is are it he she they we i anyone anybody am"))
_JOINING: Final = frozenset(("or", "nor", "ni", "o", "u", "或", "者", "和", "跟", "也", "、"))
# After "no" they begin a statement: "no we are stuck", 没有我们被困了.
_SUBJECTS: Final = frozenset(listed("i we they he she it")) | set("我他她")
# "No he sangrado" is Spanish; "no he collapsed" is English, and reports.
_PARTICIPLES: Final = ("ado", "ido", "cho", "to")
_MOST: Final = 7

_REACHES: Final = {
    word: small_words(f"reach of {word}")
    for word in ("no", "not", "nobody", "nadie", "sin", "没", "不")
}


SMALL_WORDS: Final = frozenset().union(*_REACHES.values(), _REACHES, _SAME, _REACH_SUPPOSED, MARKS)
"""Words that say nothing without another beside them."""


def affirmed(heard: Tokens, matches: Iterable[Match]) -> list[Match]:
    """Return the matches that no denial and no supposition takes back."""
    found = list(matches)
    if not found:
        return []
    denied = denied_places(heard, found)
    return [match for match in found if match.start not in denied]


def denied_places(heard: Tokens, matches: Iterable[Match]) -> set[int]:
    """Return the tokens that a denial takes back, of `matches` and all that begin within them."""
    ends: dict[int, int] = {}
    inside: set[int] = set()
    for match in matches:
        ends[match.start] = max(ends.get(match.start, 0), match.end)
        inside.update(range(match.start, match.end))
    denied: set[int] = set()
    for index, word in enumerate(heard.tokens):
        reach = _REACHES.get(_SAME.get(word, word))
        # 能不能 asks; it denies nothing.
        asks = (
            word == "不"
            and index > 0
            and heard.tokens[index - 1 : index + 2 : 2].count(heard.tokens[index - 1]) == 2
        )
        if reach is not None and index not in inside and not asks:
            denied |= _walk(heard.tokens, index + 1, reach, ends)
        for words in _SUPPOSED:
            if word == words[0] and heard.tokens[index : index + len(words)] == words:
                denied |= _walk(heard.tokens, index + len(words), _REACH_SUPPOSED, ends)
    return denied


def denial_before(heard: Tokens, place: int) -> int:
    """Return where the words begin that deny what stands at `place`; `place` without any."""
    for before in range(place - 1, max(place - _MOST - 2, -1), -1):
        word = heard.tokens[before]
        if _SAME.get(word, word) in _REACHES:
            return before
    return place


def _walk(
    tokens: tuple[str, ...], place: int, reach: frozenset[str], ends: dict[int, int]
) -> set[int]:
    denied: set[int] = set()
    thinking = False
    steps = 0
    while place < len(tokens) and steps < _MOST:
        word = tokens[place]
        if place in ends:
            if word in _SUBJECTS and not thinking and reach is not _REACH_SUPPOSED:
                break
            after = ends[place]
            denied.update(range(place, after))
            if after < len(tokens) and tokens[after] in _JOINING:
                place, steps = after + 1, 0
                continue
            if after in ends and _is_listed(tokens, after, ends):
                place, steps = after, 0
                continue
            break
        if word in MARKS:
            break
        thinking = thinking or word in _THINKING
        if (
            word == "he"
            and reach is _REACHES["no"]
            and not "".join(tokens[place + 1 : place + 2]).endswith(_PARTICIPLES)
        ):
            break
        if word not in reach and not (thinking and word in _AFTER_THINKING):
            break
        place += 1
        steps += 1
    return denied


def _is_listed(tokens: tuple[str, ...], place: int, ends: dict[int, int]) -> bool:
    """True when cue follows cue up to an "or": "no smoke fire or water"."""
    while place in ends:
        place = ends[place]
        if place < len(tokens) and tokens[place] in _JOINING:
            return True
    return False


def stated(heard: Tokens) -> Tokens:
    """Return what is stated, with a mark where something was left out."""
    matches = load_lexicon("statements").find(heard)
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
    return from_tokens(_merged(kept)) if gone else heard


def _merged(tokens: list[str]) -> list[str]:
    return [
        t for place, t in enumerate(tokens) if t != "," or place == 0 or tokens[place - 1] != ","
    ]
