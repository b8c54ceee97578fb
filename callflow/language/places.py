"""Reads floors, lift numbers and callers' names."""

from __future__ import annotations

import re
from typing import Final

from callflow.language.lexicon import load_lexicon
from callflow.language.numbers import ORDINALS, Number, corrected, number_at
from callflow.language.text import Tokens, is_han, listed, small_words

_HIGHEST: Final = 200
_LONGEST_ID: Final = 12
# Above this an utterance tells more than what the display shows.
_SHORT: Final = 8
# Articles and "a couple" count what follows; "the only one" counts nobody.
_NO_NUMBERS: Final = frozenset(listed("un una couple par"))
_BEFORE_ONE: Final = frozenset(listed("only this that another every any some which other each"))


def floor(heard: Tokens, asked: bool) -> str | None:
    """Return the floor: "3", "3-4" for between two, "G" for the ground floor, "B2" below it.

    The last one said stands. Where the caller lives, works or wanted to go is not where they are.
    `asked`: what the display shows was asked, so a number alone is the floor.
    """
    heard = corrected(heard)
    matches = load_lexicon("places").find(heard)
    leads = ("on", "floor", "below", "between")
    ends = {m.end: m.section for lead in leads for m in matches if m.section == lead}
    starts = {m.start: m.section for m in matches if m.section in ("floor_after", "ground")}
    elsewhere = [m.end for m in matches if m.section == "elsewhere"]
    found: str | None = None
    second = -1  # the end of the last pair; its other floor is no floor of its own
    for place in range(len(heard.tokens)):
        if place < second or any(0 <= place - end <= 1 for end in elsewhere):
            continue
        if starts.get(place) == "ground" and not any(place - 1 == end for end in elsewhere):
            found = "G"
        number = _level_at(heard.tokens, place)
        if number is None or number.value > _HIGHEST:
            continue
        lead, after = ends.get(place), starts.get(number.end)
        if lead == "between" and (other := _other_level(heard.tokens, number.end)):
            found, second = f"{number.value}-{other.value}", other.end
            continue
        second = number.end
        if lead == "between" and heard.tokens[place] in ("two", "dos", "两"):
            continue  # "Between two floors" counts them.
        if lead == "below":
            found = f"B{number.value or 1}"
        elif (
            after == "floor_after"
            or lead == "floor"
            or (lead == "on" and _is_ordinal(heard, place))
        ):
            found = _named(number.value)
            if after == "floor_after" and _is_ordinal(heard, place):
                second += 2  # "Third floor forty Mill Lane": what follows is of the street.
    if found is None:
        found = _lettered(heard)
    return found or (_shown(heard) if asked else None)


def lift_id(heard: Tokens, asked: bool) -> str | None:
    """Return the number or letter by which a caller names the lift: "4", "B", "L204"."""
    heard = corrected(heard)
    matches = load_lexicon("places").find(heard)
    found: str | None = None
    for match in matches:
        if match.section == "lift" or (asked and match.section == "lift_asked"):
            found = _identity(heard.tokens, match.end) or found
    if found is None and asked and not _is_refused(heard):
        found = _spelled(heard)
    return found


def name(heard: Tokens, asked: bool) -> str | None:
    """Return how the caller is called, in capitals and small letters; None unless they say it."""
    matches = load_lexicon("places").find(heard)
    strangers = load_lexicon("names").find(heard)
    common = {place for m in strangers for place in range(m.start, m.end)}
    for match in matches:
        if match.section == "name" or (asked and match.section == "name_asked"):
            words = _name_words(heard, match.end, common)
            if words:
                return words
    return _name_words(heard, 0, common) if asked and not matches else None


def _level_at(tokens: tuple[str, ...], place: int) -> Number | None:
    word = tokens[place]
    if word in ORDINALS:
        return Number(ORDINALS[word], place, place + 1)
    if (short := re.fullmatch(r"(\d{1,3})(?:st|nd|rd|th|a|o)", word)) is not None:
        return Number(int(short[1]), place, place + 1)
    if word in ("twenty", "thirty", "forty") and place + 1 < len(tokens):
        after = ORDINALS.get(tokens[place + 1], 99)
        if after < 10:
            tens = {"twenty": 20, "thirty": 30, "forty": 40}[word]
            return Number(tens + after, place, place + 2)
    return number_at(tokens, place)


def _is_ordinal(heard: Tokens, place: int) -> bool:
    word = heard.tokens[place]
    return word in ORDINALS or re.fullmatch(r"\d{1,3}(?:st|nd|rd|th)", word) is not None


_PAIRING: Final = frozenset(listed("and y 和 到 与 跟"))
_BESIDE: Final = frozenset(listed("floor floors the el la piso planta 楼 层 level"))


def _other_level(tokens: tuple[str, ...], place: int) -> Number | None:
    """The second floor of "three and four", from behind the first."""
    paired = False
    while place < len(tokens) and (tokens[place] in _PAIRING or tokens[place] in _BESIDE):
        paired = paired or tokens[place] in _PAIRING
        place += 1
    return _level_at(tokens, place) if paired and place < len(tokens) else None


def _named(value: int) -> str:
    return "G" if value == 0 else str(value)


def _lettered(heard: Tokens) -> str | None:
    for place, word in enumerate(heard.tokens):
        if (level := re.fullmatch(r"(?:b|p|l)(\d{1,2})", word)) is not None:
            after = heard.tokens[place + 1] if place + 1 < len(heard.tokens) else ""
            if after in ("floor", "level", "层", "楼") or word[0] == "b":
                return f"{word[0].upper()}{level[1]}"
    return "B" if "below_one" in load_lexicon("places").sections(heard) else None


def _shown(heard: Tokens) -> str | None:
    """The floor by a number alone; a number that counts something else is none."""
    tokens = heard.tokens
    units = [m.start for m in load_lexicon("places").find(heard) if m.section == "unit"]
    if any(word in ("g", "ground", "lobby", "baja", "bajo") for word in tokens):
        return "G"
    values = [n for p in range(len(tokens)) if (n := _level_at(tokens, p)) is not None]
    distinct = {
        n.value
        for n in values
        if n.end not in units
        and tokens[n.start] not in _NO_NUMBERS
        and (n.start == 0 or not is_han(tokens[n.start - 1]))
        and not (n.start and tokens[n.start] == "one" and tokens[n.start - 1] in _BEFORE_ONE)
    }
    counts = any(unit > 0 and number_at(tokens, unit - 1) for unit in units)
    if len(distinct) != 1 or (counts and len(tokens) > _SHORT):
        return None
    value = distinct.pop()
    return _named(value) if value <= _HIGHEST else None


_COUNTED: Final = small_words("no lift")


def _identity(tokens: tuple[str, ...], place: int) -> str | None:
    """Letters and digits from `place` on: "l two oh four" is L204."""
    found, start = "", place
    while place < len(tokens) and len(found) < _LONGEST_ID:
        word = tokens[place]
        number = number_at(tokens, place)
        if word in ("oh", "zero", "o"):
            found, place = found + "0", place + 1
        elif word in ("a", "y", "i") and place > start:
            break
        elif number is not None and word not in ("un", "una", "couple", "par"):
            text = word if word.isdigit() else str(number.value)
            found, place = found + text, number.end
        elif re.fullmatch(r"[a-z]|(?=.*\d)[a-z\d]{1,8}", word):
            found, place = found + word.upper(), place + 1
        else:
            break
    after = tokens[place] if place < len(tokens) else ""
    if not found or after in _COUNTED or found in ("I", "Y"):
        return None
    return found


def _spelled(heard: Tokens) -> str | None:
    best = ""
    for place in range(len(heard.tokens)):
        if heard.tokens[place] not in ("a", "i", "y", "e", "o", "s", "no", "un", "una", "oh"):
            found = _identity(heard.tokens, place) or ""
            best = found if len(found) > len(best) and re.search(r"\d", found) else best
    return best or None


def _is_refused(heard: Tokens) -> bool:
    return "no_number" in load_lexicon("places").sections(heard)


def _name_words(heard: Tokens, place: int, common: set[int]) -> str | None:
    words: list[str] = []
    while place < len(heard.tokens) and len(words) < 4:
        word = heard.tokens[place]
        if place in common or not word.isalpha() or number_at(heard.tokens, place):
            break
        words.append(word)
        place += 1
    if words and is_han(words[0]):
        return "".join(words) if len(words) <= 4 else None
    longest = max((len(word) for word in words), default=0)
    return " ".join(word.capitalize() for word in words[:3]) if longest > 1 else None
