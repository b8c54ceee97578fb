"""Reads numbers as people say them: digits, English and Spanish words, Chinese characters.

Where a speaker corrects a number ("two no three"), the later one stands. Telephone numbers are
dictated digit by digit: "oh seven double four", 幺三八, "seis cero nueve".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from callflow.language.text import Tokens, from_tokens, is_han, listed

_EN: Final = listed(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
_ES: Final = listed(
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince "
    "dieciseis diecisiete dieciocho diecinueve veinte veintiuno veintidos veintitres "
    "veinticuatro veinticinco veintiseis veintisiete veintiocho veintinueve"
)
_EN_TENS: Final = listed("twenty thirty forty fifty sixty seventy eighty ninety")
_ES_TENS: Final = listed("treinta cuarenta cincuenta sesenta setenta ochenta noventa")
SMALL: Final[dict[str, int]] = {
    **{word: value for value, word in enumerate(_EN)},
    **{word: value for value, word in enumerate(_ES)},
    "un": 1, "una": 1, "veintiun": 21,
}  # fmt: skip
"""Words for numbers below thirty."""
TENS: Final[dict[str, int]] = {
    **{word: 20 + 10 * place for place, word in enumerate(_EN_TENS)},
    **{word: 30 + 10 * place for place, word in enumerate(_ES_TENS)},
}
HAN: Final[dict[str, int]] = {
    **{word: value for value, word in enumerate("零一二三四五六七八九")},
    "〇": 0, "两": 2, "俩": 2, "仨": 3, "幺": 1, "叁": 3,
}  # fmt: skip
ORDINALS: Final[dict[str, int]] = {
    **{
        word: value
        for value, word in enumerate(
            listed(
                "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth "
                "thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth "
                "twentieth"
            ),
            1,
        )
    },
    **{
        word[:-1] + ending: value
        for value, word in enumerate(
            listed("primero segundo tercero cuarto quinto sexto septimo octavo noveno decimo"), 1
        )
        for ending in "oa"
    },
    "primer": 1, "tercer": 3, "undecimo": 11, "duodecimo": 12, "bajo": 0,
}  # fmt: skip
"""Words for places in a row; "bajo" is the ground floor of a Spanish house."""

_SPELLED: Final = frozenset((*SMALL, *TENS, "couple", "par"))

_CORRECTIONS: Final = frozenset(
    listed(
        "no sorry wait actually rather mean meant i make that correction oops hang on not "
        "perdon digo bueno espera mejor dicho quiero decir miento perdone there is are were "
        "it we somos son hay des well ay"
    )
) | set("不对是应该错了啊说抱歉等")
_CORRECTING: Final = frozenset(
    listed("no sorry wait actually rather mean correction oops perdon digo miento mejor")
) | set("不错")
_UNITS: Final = frozenset(listed("people of us persons personas gente guys 个 人 位 floor th"))
_MOST_BETWEEN: Final = 7


@dataclass(frozen=True, slots=True)
class Number:
    """A number in speech: its value, and the tokens `start` to `end` (exclusive)."""

    value: int
    start: int
    end: int


def number_at(tokens: tuple[str, ...], start: int) -> Number | None:
    """Return the number that begins at `start`, the longest one; None where there is none."""
    word = tokens[start] if start < len(tokens) else ""
    if word not in _SPELLED and word.isalpha() and not is_han(word):
        return None
    after = tokens[start + 1] if start + 1 < len(tokens) else ""
    if word.isascii() and word.isdigit():
        return Number(int(word), start, start + 1) if len(word) <= 6 else None
    if is_han(word):
        return _han_at(tokens, start)
    if word in TENS:
        if after == "y" and SMALL.get(_get(tokens, start + 2), 99) < 10:
            return Number(TENS[word] + SMALL[tokens[start + 2]], start, start + 3)
        if 0 < SMALL.get(after, 0) < 10 and after in _EN:
            return Number(TENS[word] + SMALL[after], start, start + 2)
        return Number(TENS[word], start, start + 1)
    if word in ("un", "una") and number_at(tokens, start + 1) is not None:
        return None  # "pone un cuatro"
    if word in ("couple", "par"):
        return Number(2, start, start + 1)
    return Number(SMALL[word], start, start + 1) if word in SMALL else None


@lru_cache(maxsize=16)
def numbers(tokens: tuple[str, ...]) -> tuple[Number, ...]:
    """Return all numbers, in the order of speech; none within another."""
    found: list[Number] = []
    place = 0
    while place < len(tokens):
        number = number_at(tokens, place)
        if number is None:
            place += 1
        else:
            found.append(number)
            place = number.end
    return tuple(found)


@lru_cache(maxsize=16)
def corrected(heard: Tokens) -> Tokens:
    """Return speech without the numbers that the speaker took back, and their excuses."""
    tokens = heard.tokens
    found = numbers(tokens)
    gone: set[int] = set()
    for first, second in pairwise(found):
        between = range(first.end, second.start)
        words = [tokens[place] for place in between]
        excuses = [word for word in words if word not in _UNITS and word != ","]
        if (
            words
            and len(words) <= _MOST_BETWEEN
            and all(word in _CORRECTIONS for word in excuses)
            and any(word in _CORRECTING for word in excuses)
        ):
            gone.update(range(first.start, second.start))
    if not gone:
        return heard
    return from_tokens([token for place, token in enumerate(tokens) if place not in gone])


def _get(tokens: tuple[str, ...], place: int) -> str:
    return tokens[place] if place < len(tokens) else ""


def _han_at(tokens: tuple[str, ...], start: int) -> Number | None:
    """Chinese numbers up to ninety-nine: 三, 十二, 二十, 二十三."""
    place, value, seen_ten = start, 0, False
    if tokens[place] in HAN:
        value, place = HAN[tokens[place]], place + 1
    elif tokens[place] != "十":
        return None
    if _get(tokens, place) == "十":
        value, place, seen_ten = (value or 1) * 10, place + 1, True
    if seen_ten and 0 < HAN.get(_get(tokens, place), 0) < 10:
        value, place = value + HAN[tokens[place]], place + 1
    return Number(value, start, place)


_LEAST, _MOST = 7, 15
_LEAST_UNASKED: Final = 10
_TIMES: Final = {"double": 2, "triple": 3, "treble": 3, "doble": 2}
_HUNDREDS: Final = {
    word: 100 * value
    for value, word in enumerate(
        listed(
            "cien doscientos trescientos cuatrocientos quinientos seiscientos setecientos "
            "ochocientos novecientos"
        ),
        1,
    )
} | {"ciento": 100}
_ZEROS: Final = frozenset(("oh", "o", "nought", "naught", "nil"))
# Between the groups of one number.
_LINKS: Final = frozenset(listed(", then and y luego then again"))
_DIGIT_CORRECTIONS: Final = frozenset(
    listed("no sorry wait actually correction oops perdon digo miento 不 错 mean")
)
_AFTER_CORRECTION: Final = frozenset(listed("no sorry wait i mean actually es is it that 对 是 了"))


def phone_number(heard: Tokens, expected: bool) -> str | None:
    """Return the last number of 7 to 15 digits, with `+` where it was said; None without one.

    Unless one is `expected`, asked for or announced, it takes ten digits to be one.
    """
    best: str | None = None
    for run in _runs(heard.tokens):
        digits = run.removeprefix("+")
        if (_LEAST if expected else _LEAST_UNASKED) <= len(digits) <= _MOST:
            best = run
    return best


def begun_number(heard: Tokens) -> str:
    """Return the digits of a telephone number that may go on; "" where more is said than digits."""
    digits, others, place = "", 0, 0
    while place < len(heard.tokens):
        found, used = digits_at(heard.tokens, place)
        digits += found
        others += not used and heard.tokens[place] not in _LINKS
        place += used or 1
    return digits if len(digits) > 1 and others <= _MOST_BESIDE else ""


def is_whole_number(digits: str, in_parts: bool) -> bool:
    """True when nothing seems to be missing from a telephone number.

    Behind a trunk 0 or a country code there are ten digits at least. `in_parts`: it was said over
    several turns, and local numbers, which are shorter, are said in one breath.
    """
    if in_parts or digits[:1] in ("0", "+"):
        return len(digits) >= _LEAST_UNASKED
    return len(digits) >= _LEAST


_MOST_BESIDE: Final = 5


def _runs(tokens: tuple[str, ...]) -> list[str]:
    """Runs of digits, corrections applied: what follows "no sorry" replaces as much as it says."""
    runs: list[str] = []
    current, place, correcting = "", 0, False
    before = ""
    while place < len(tokens):
        word = tokens[place]
        digits, used = digits_at(tokens, place)
        if used:
            current += digits
            place += used
            continue
        if current and word in _DIGIT_CORRECTIONS:
            runs.append(_joined(before, current) if correcting else current)
            before, current, correcting = runs[-1], "", True
        elif word == "plus" and not current:
            current = "+"
        elif current and not (word in _LINKS and digits_at(tokens, place + 1)[1]):
            runs.append(_joined(before, current) if correcting else current)
            current, correcting, before = "", False, ""
        elif correcting and not current and word not in _AFTER_CORRECTION:
            correcting, before = False, ""
        place += 1
    if current:
        runs.append(_joined(before, current) if correcting else current)
    return runs


def _joined(before: str, corrected: str) -> str:
    """A number said anew stands alone; a shorter one replaces the end of what it corrects."""
    if len(corrected) >= _LEAST or len(corrected) >= len(before):
        return corrected
    return before[: len(before) - len(corrected)] + corrected


def digits_at(tokens: tuple[str, ...], place: int) -> tuple[str, int]:
    """Return the digits that begin at `place`, and how many tokens they take (0: none)."""
    word = tokens[place] if place < len(tokens) else ""
    if word.isascii() and word.isdigit():
        return word, 1
    if word in _TIMES:
        digits, used = digits_at(tokens, place + 1)
        return (digits * _TIMES[word], used + 1) if len(digits) == 1 else ("", 0)
    if word in _ZEROS:
        return "0", 1
    if is_han(word):
        return (str(HAN[word]), 1) if word in HAN and word not in "两俩仨" else ("", 0)
    if word in ("un", "una"):
        return "", 0
    if word in _HUNDREDS:
        after, used = digits_at(tokens, place + 1)
        below = int(after) if used and 0 < len(after) <= 2 else 0
        return str(_HUNDREDS[word] + below), 1 + (used if below else 0)
    if word in SMALL:
        return _with_zeros(str(SMALL[word]), tokens, place)
    if word in TENS:
        return _tens_at(tokens, place)
    return "", 0


def _with_zeros(digits: str, tokens: tuple[str, ...], place: int) -> tuple[str, int]:
    after = tokens[place + 1] if place + 1 < len(tokens) else ""
    zeros = {"hundred": "00", "thousand": "000", "mil": "000"}.get(after, "")
    return digits + zeros, 2 if zeros else 1


def _tens_at(tokens: tuple[str, ...], place: int) -> tuple[str, int]:
    value = TENS[tokens[place]]
    after = tokens[place + 1 : place + 3]
    if len(after) == 2 and after[0] == "y" and 0 < SMALL.get(after[1], 0) < 10:
        return str(value + SMALL[after[1]]), 3
    if after and 0 < SMALL.get(after[0], 0) < 10 and tokens[place].endswith("ty"):
        return str(value + SMALL[after[0]]), 2
    return str(value), 1
