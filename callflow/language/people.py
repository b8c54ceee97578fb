"""Counts the people in the lift by what the caller says, and hears how old they are; no guess.

The speaker counts only where the words hold them: "me and my two kids" are three, "there are two
people stuck in there" are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callflow.language.lexicon import Match, load_lexicon
from callflow.language.numbers import Number, corrected, number_at
from callflow.language.text import MARKS, Tokens, is_han, listed, small_words

_MOST: Final = 60


def people(heard: Tokens, asked: bool, *, clause: bool = False) -> int | None:
    """Return the number of people in the lift; None where it is not said.

    `asked`: the caller answers how many there are, so a number alone is one. `clause`: "two people"
    is one where it stands by itself.
    """
    heard = corrected(heard)
    matches = load_lexicon("people").find(heard)
    found = [
        *_totals(heard, matches, asked, clause),
        *_groups(heard, matches),
        *_stated_counts(heard, matches, asked),
    ]
    if asked and not _tells_age(heard.tokens):
        found += _lone_number(heard)
    # A total is said over the parts: "four of us me and my three kids".
    best = max(found, key=lambda item: (item[0], item[1]), default=None)
    return best[2] if best is not None and 0 <= best[2] <= _MOST else None


def ages(heard: Tokens) -> list[int]:
    """Return the ages in whole years that are said of people: "eighty six year old", 六岁.

    A time that has passed ("hace dos años") and the age of a thing ("a ten year old lift") are
    none.
    """
    tokens = heard.tokens
    found: list[int] = []
    for place, word in enumerate(tokens):
        number = _number_before(tokens, place) if word in _YEARS else None
        if number is None:
            continue
        start, value = number
        rest = tokens[place + 1 : place + 3]
        if word in _EN_YEARS and not (
            rest[:1] in (("old",), ("olds",)) or tokens[max(0, start - 1) : start] in (("am",),)
        ):
            continue
        passed = _PASSED.intersection(tokens[max(0, start - 5) : start])
        if not passed and not (len(rest) == 2 and rest[1] in _AGED_THINGS):
            found.append(value)
    return found


_EN_YEARS: Final = frozenset(("year", "years"))
_YEARS: Final = _EN_YEARS | {"anos", "anitos", "岁"}
_PASSED: Final = frozenset(listed("hace hacia desde llevo llevamos lleva durante ultimos for"))
_AGED_THINGS: Final = frozenset(listed("lift elevator building house block machine phone place"))
_LONGEST_AGE: Final = 3


def _number_before(tokens: tuple[str, ...], end: int) -> tuple[int, int] | None:
    """Where the number begins that ends at `end`, and its value; hundreds before it count."""
    for start in range(max(0, end - _LONGEST_AGE), end):
        number = number_at(tokens, start)
        if number is None or number.end != end:
            continue
        before = tokens[max(0, start - 2) : start]
        over = bool(_HUNDRED.intersection(before)) and before[-1] in _AFTER_HUNDRED
        return start, number.value + (100 if over else 0)
    return (end - 1, 100) if end and tokens[end - 1] in _HUNDRED else None


_HUNDRED: Final = frozenset(listed("hundred cien ciento 百"))
_AFTER_HUNDRED: Final = _HUNDRED | {"and", "零"}

# Rank, place, value.
_Count = tuple[int, int, int]


def _totals(heard: Tokens, matches: Sequence[Match], asked: bool, clause: bool) -> list[_Count]:
    """Numbers between words that make them a count: "we are" 3, 3 "of us", 三"个人"."""
    tokens = heard.tokens
    leads = ("before", "before_more", "including")
    before = {m.end: m for lead in leads for m in matches if m.section == lead}
    found: list[_Count] = []
    counted = 0  # the end of the last sum
    for place in range(len(tokens)):
        number = number_at(tokens, place)
        if (
            number is None
            or place < counted
            or _is_inside(tokens, place)
            or _is_range(tokens, number)
            or _is_article(tokens, number, asked)
            or (place and tokens[place - 1] in _OWN)
        ):
            continue
        after = {m.section: m.end for m in matches if m.start == number.end}
        lead = before.get(place)
        if {"not_after", "part"} & after.keys() or _follows(matches, place, "not_before"):
            continue
        if lead and lead.section == "before_more" and after.keys() & {"person", "total", "others"}:
            found.append((3, place, number.value + 1))
        elif "total" in after:
            more, counted = _more(tokens, matches, after["total"])
            found.append((3, place, number.value + more))
        elif lead and lead.section == "including":
            found.append((3, place, number.value))
        elif "more" in after:
            found.append((2, place, number.value + 1))
        elif "person" in after and (
            asked
            or lead
            or _is_in_car(heard, matches, after["person"])
            or (clause and _is_clause(tokens, place, after["person"]))
        ):
            sure = lead is not None or _is_in_car(heard, matches, after["person"])
            more, counted = _more(tokens, matches, after["person"])
            found.append((3 if sure else 0, place, number.value + more))
        elif lead and lead.section == "before" and _ends_count(tokens, number.end):
            found.append((3, place, number.value))
    return found


def _is_clause(tokens: tuple[str, ...], start: int, end: int) -> bool:
    """True where nothing else stands between two pauses: "two people, how long"."""
    return not set(tokens[max(start - 1, 0) : start] + tokens[end : end + 1]) - MARKS


def _more(tokens: tuple[str, ...], matches: Sequence[Match], place: int) -> tuple[int, int]:
    """People added to a count, and their end: "two adults" and "a child", 三个大人 一个小孩."""
    more = 0
    while True:
        start = place
        while start < len(tokens) and tokens[start] in _ADDING:
            start += 1
        joined = start > place or (start < len(tokens) and is_han(tokens[start]))
        number = (number_at(tokens, start) or _article(tokens, start)) if joined else None
        ends = [
            m.end for m in matches if number and m.start == number.end and m.section == "person"
        ]
        if number is None or not ends:
            return more, place
        more, place = more + number.value, max(ends)


_ADDING: Final = frozenset(listed("and y 和 加 plus , 还 有 another"))


def _groups(heard: Tokens, matches: Sequence[Match]) -> list[_Count]:
    """People named one by one, the speaker among them: "me and my wife", 我和我老婆."""
    tokens = heard.tokens
    found: list[_Count] = []
    place = 0
    while place < len(tokens):
        count, end, me, unknown = 0, place, False, False
        while end < len(tokens):
            step = _member(heard, matches, end)
            if step is None:
                if count and tokens[end] in _AND:
                    end += 1
                    continue
                break
            value, end, is_me = step
            if is_me and me:
                break
            me, unknown = me or is_me, unknown or value < 0
            count += max(value, 0)
        if me and count > 1 and not unknown:
            found.append((1, place, count))
        place = max(end, place + 1)
    return found


_AND: Final = frozenset(listed("and y e con with also plus , 和 跟 与 还 有 带 着 加 上 及 us"))


def _member(heard: Tokens, matches: Sequence[Match], place: int) -> tuple[int, int, bool] | None:
    """One person or several at `place`: how many (-1 unknown), the end, whether the speaker."""
    tokens = heard.tokens
    here = {m.section: m.end for m in matches if m.start == place}
    named = _my_people(tokens, matches, here["my"]) if "my" in here else None
    if named is not None or ("my" in here and "me" not in here):
        return named
    if "me" in here:
        return 1, here["me"], True
    number = number_at(tokens, place)
    if number is not None:
        end = max(
            (m.end for m in matches if m.start == number.end and m.section in ("person", "others")),
            default=0,
        )
        return (number.value, end, False) if end else None
    return (1, here["named"], False) if "named" in here else None


def _my_people(
    tokens: tuple[str, ...], matches: Sequence[Match], place: int
) -> tuple[int, int, bool] | None:
    """The people behind "my": how many (-1 unknown), and their end."""
    number = number_at(tokens, place)
    start = number.end if number else place
    ends = {m.section: m.end for m in matches if m.start == start}
    if number and "person" in ends:
        return number.value, ends["person"], False
    if "one" in ends:
        return 1, ends["one"], False
    return (-1, ends["person"], False) if "person" in ends else None


def _stated_counts(heard: Tokens, matches: Sequence[Match], asked: bool) -> list[_Count]:
    """Words that are a count in themselves: "just me", "nobody in here", 我们俩."""
    values = {"alone": 1, "two": 2, "nobody": 0}
    # "Just me and my mum": who is named after it is there, too.
    matches = [m for m in matches if m.section != "alone" or not _goes_on(heard.tokens, m.end)]
    found = [(2, m.start, values[m.section]) for m in matches if m.section in values]
    if asked:
        found += [(-1, m.start, 1) for m in matches if m.section == "asked_one"]
        found += [(-1, m.start, 0) for m in matches if m.section == "asked_nobody"]
    # Who is alone with a baby is not alone.
    if any(m.section in ("my", "named") for m in matches) and not asked:
        found = [item for item in found if item[2] != 1 or not _has_person(matches)]
    return found


def _goes_on(tokens: tuple[str, ...], place: int) -> bool:
    joined = place < len(tokens) and tokens[place] != "," and tokens[place] in _AND
    return joined and tokens[place + 1 : place + 2] not in (("nobody",), ("no",), ("nadie",))


def _has_person(matches: Sequence[Match]) -> bool:
    return any(m.section == "with_person" for m in matches)


def _tells_age(tokens: tuple[str, ...]) -> bool:
    """True for "he is four", which is no count."""
    return any(
        tokens[at : at + 2] in _ARE and number_at(tokens, at + 2) for at in range(len(tokens))
    )


_ARE: Final = (("he", "is"), ("she", "is"))


def _lone_number(heard: Tokens) -> list[_Count]:
    """A number alone answers; two different ones ("five or six") do not."""
    values = []
    place = 0
    while place < len(heard.tokens):
        number = number_at(heard.tokens, place)
        if number is not None:
            if not (_counts_things(heard.tokens, number.end) or _of_a_house(heard.tokens, number)):
                values.append(number.value)
            place = number.end
        else:
            place += 1
    return [(0, 0, values[0])] if len(set(values)) == 1 else []


_STREETS: Final = frozenset(
    listed(
        "road street avenue lane drive close way square place court terrace gardens hill crescent "
        "rd st ave row mews park house boulevard parade calle avenida plaza paseo carretera camino"
    )
)


def _of_a_house(tokens: tuple[str, ...], number: Number) -> bool:
    """True for the number of a house: "14 Park Road", "calle Mayor 14", 人民路14号."""
    near = {*tokens[max(0, number.start - 3) : number.start], *tokens[number.end : number.end + 3]}
    return not _STREETS.isdisjoint(near) or tokens[number.end : number.end + 1] == ("号",)


_AFTER_COUNT: Final = small_words("after a count")


def _ends_count(tokens: tuple[str, ...], place: int) -> bool:
    """True where nothing else is counted: "we are three", but not "there is one light"."""
    if place < len(tokens) and tokens[place] in ("个", "人", "位"):
        place += 1
    return place >= len(tokens) or tokens[place] in _AFTER_COUNT


def _article(tokens: tuple[str, ...], place: int) -> Number | None:
    word = tokens[place] if place < len(tokens) else ""
    return Number(1, place, place + 1) if word in ("a", "an", "another", "otro", "otra") else None


# "My two kids" are not all; who they are with is counted in a group.
_OWN: Final = frozenset(listed("my our mis nuestros nuestras"))


def _is_article(tokens: tuple[str, ...], number: Number, asked: bool) -> bool:
    """True for "una señora" and 一个老人, who may not be the only one."""
    if asked or number.value != 1 or tokens[number.start] not in ("un", "una", "一"):
        return False
    before = tokens[max(number.start - 2, 0) : number.start]
    return not any(word in ("solo", "solamente", "只", "就") for word in before)


def _is_inside(tokens: tuple[str, ...], place: int) -> bool:
    """True in the middle of a longer number, such as a telephone number."""
    before = number_at(tokens, place - 1) if place else None
    return before is not None and before.end >= place + 1


def _is_range(tokens: tuple[str, ...], number: Number) -> bool:
    """True for "five or six" and 三四个: nobody knows."""
    before = tokens[number.start - 1] if number.start else ""
    after = tokens[number.end] if number.end < len(tokens) else ""
    if before in ("or", "o", "或") or after in ("or", "o", "或"):
        return True
    earlier = number_at(tokens, number.start - 1) if number.start else None
    return earlier is not None and is_han(before)


def _follows(matches: Sequence[Match], place: int, section: str) -> bool:
    return any(m.section == section and m.end == place for m in matches)


def _is_in_car(heard: Tokens, matches: Sequence[Match], place: int) -> bool:
    return any(m.section == "held" and m.start == place for m in matches)


_THINGS: Final = small_words("counted things")


def _counts_things(tokens: tuple[str, ...], place: int) -> bool:
    if place >= len(tokens):
        return False
    if tokens[place] == "个":
        return place + 1 < len(tokens) and tokens[place + 1] in ("小", "钟", "月", "电", "星", "按")
    return tokens[place] in _THINGS or number_at(tokens, place) is not None
