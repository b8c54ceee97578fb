"""Judges answers that say nothing by themselves: "Sure, go ahead", "Ten", "不会的".

Such an answer means what was asked. It is written out ("you can pull the doors open", "they will
be there in ten minutes") and judged like any other sentence, so that "No" is good advice to who
wants to open the doors, and "Yes, they are" is true once the fire brigade has been called. What an
answer means stands in the lexicon, by the names of the questions.

What callers ask in other words than language/questions.py knows, and what they say they are about
to do, is neither confirmed nor denied by a mere yes or no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal

from callflow.responder.guard.sentence import Reading, normalised

# Written in front of the name of a rule: this answer is never right, whatever is known.
_NEVER: Final = "!"
_UNNAMED: Final = "other"
_GAP: Final = "{}"
_MARKS: Final = re.compile(r"[,.?]")

_Kind = Literal["yes", "no", "amount"]
_OPPOSITE: Final[dict[_Kind, _Kind]] = {"yes": "no", "no": "yes", "amount": "amount"}


def unfit_answer(
    reading: Reading, said: str, asked: Sequence[str], judge: Callable[[str], str | None]
) -> str | None:
    """Return the rule that forbids a sentence as an answer, or None.

    `said` are the caller's last words and `asked` the names of the questions in them; `judge` says
    which rule forbids a sentence that is written out.
    """
    answer = _short_answer(reading)
    if answer is None:
        return None
    kind, alone = answer
    for meaning in _meanings(reading, kind, said, asked, alone):
        if meaning.startswith(_NEVER):
            return meaning[1:]
        if found := judge(meaning):
            return found
    return None


def _short_answer(reading: Reading) -> tuple[_Kind, bool] | None:
    """Return what a sentence answers and whether that is all it says; None for no short answer."""
    words = reading.known.answers
    text = reading.text
    light = words.light.fullmatch(text.lstrip(".").lstrip())
    first = next((part for part in _MARKS.split(text) if part.strip()), "").lstrip()
    agrees = words.yes.fullmatch(first) is not None
    if not (light or agrees or words.no_only.fullmatch(first)):
        return None
    if any(pattern.regex.search(text) for pattern in words.unknowing):
        return None
    denies = words.no.search(text) is not None and not words.assent.search(text)
    if light:
        if agrees:
            return "yes", True
        if denies:
            return "no", True
        return ("amount" if words.amount.search(text) else "yes"), True
    if agrees:
        # "Yes, I know, but please do not": it is taken back. "All right, I am listening" assents
        # to nothing.
        return None if denies or words.mild.fullmatch(first) else ("yes", False)
    return "no", False


def _meanings(
    reading: Reading, kind: _Kind, said: str, asked: Sequence[str], alone: bool
) -> Iterator[str]:
    """Yield what the answer means, by each of the questions, written out."""
    known = reading.known
    words = known.answers
    heard = normalised(said, known)
    if not asked and alone and any(pattern.regex.search(heard) for pattern in words.asks):
        asked = (_UNNAMED,)
    for name in asked:
        means = words.means.get(name, {})
        turned = name in words.reversible and words.reversed.search(heard)
        # "Is it dangerous?" – "No problem": that denies.
        answer = kind if not turned or words.assent.search(reading.text) else _OPPOSITE[kind]
        meaning = means.get(answer, means.get("yes", "") if answer == "amount" else "")
        if _GAP in meaning:
            for amount in words.amount.findall(reading.text):
                yield meaning.replace(_GAP, amount)
        elif meaning:
            yield meaning
