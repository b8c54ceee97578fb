"""Telephone numbers as people dictate them: "oh seven double four", 幺三八, "seis cero nueve"."""

from __future__ import annotations

from typing import Final

from callflow.language.numbers import HAN, SMALL, TENS
from callflow.language.text import Heard, is_han, listed

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
_CORRECTIONS: Final = frozenset(
    listed("no sorry wait actually correction oops perdon digo miento 不 错 mean")
)
_AFTER_CORRECTION: Final = frozenset(listed("no sorry wait i mean actually es is it that 对 是 了"))


def phone_number(heard: Heard, expected: bool) -> str | None:
    """Return the last number of 7 to 15 digits, with `+` where it was said; None without one.

    Unless one is `expected`, asked for or announced, it takes ten digits to be one.
    """
    best: str | None = None
    for run in _runs(heard.tokens):
        digits = run.removeprefix("+")
        if (_LEAST if expected else _LEAST_UNASKED) <= len(digits) <= _MOST:
            best = run
    return best


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
        if current and word in _CORRECTIONS:
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
