"""Finds what a caller asks, in English, Spanish and Chinese.

The questions are a closed list: procedures answer them by name, in a section `### Answers`. A
sentence may ask several; what is not in the list is no question here.
"""

from __future__ import annotations

import re
from typing import Final

from callflow.language.lexicon import load_lexicon
from callflow.language.question_topics import NEAR, UNLISTED, topics
from callflow.language.requests import asks_for_human
from callflow.language.text import MARKS, tokenize

QUESTIONS: Final = (
    *("how_long", "help_sent", "fire_sent", "ambulance_sent", "police_sent", "who_calls"),
    *("may_open", "may_climb", "may_press", "door_button", "may_be_pulled", "may_use_key"),
    *("should_leave", "pull_out", "will_fall", "is_air", "is_safe", "why_stopped", "why_moving"),
    *("are_you_human", "who_are_you", "is_recorded", "are_you_there", "what_now", "why_not"),
    *("how_breathing", "how_bleeding", "how_unconscious", "how_fit", "how_choking", "how_birth"),
    *("how_medicine", "how_panic", "phone_dying", "may_sit", "may_stand_on", "may_smoke"),
    *("may_drink", "may_eat", "toilet", "heat", "may_call", "may_hang_up", "tell_somebody"),
    *("when_parent", "late", "complaint", "say_again", "goodbye", UNLISTED),
)
"""Names of the questions, as procedures write them."""

MOST: Final = 2
"""So many are answered in one reply: nobody in distress follows more."""

_COVERS: Final = {
    "fire_sent": {"help_sent", "how_long"},
    "ambulance_sent": {"help_sent", "how_long"},
    "police_sent": {"help_sent", "how_long"},
    "how_long": {"help_sent"},
    "when_parent": {"how_long", "help_sent"},
    "door_button": {"may_press", "may_open"},
    "may_use_key": {"may_open"},
    "may_be_pulled": {"may_climb"},
    "pull_out": {"may_be_pulled"},
    "may_climb": {"should_leave"},
    "may_stand_on": {"may_climb", "may_sit"},
    "why_stopped": {"what_now"},
    "may_call": {"tell_somebody"},
    "who_calls": {"ambulance_sent", "fire_sent", "police_sent", "may_call", "help_sent"},
    "tell_somebody": {"late"},
    "may_hang_up": {"goodbye"},
    **{name: {"what_now"} for name in ("toilet", "heat", "phone_dying", "may_open", "will_fall")},
    **{
        name: {"what_now", "is_air", "why_not", "say_again"}
        for name in (
            *("how_breathing", "how_bleeding", "how_unconscious", "how_fit", "how_choking"),
            *("how_birth", "how_medicine", "how_panic"),
        )
    },
}
"""What is asked besides in other words: the narrower question answers the wider one, too."""


_WHAT: Final = frozenset(
    ("sorry", "what", "pardon", "excuse", "me", "que", "perdon", "como", "dice", "dices")
)
"""Of these alone a short utterance asks to hear it again."""
_WHAT_HAN: Final = frozenset(("什么", "啥", "什么啊", "你说什么"))


def _says_only_what(tokens: tuple[str, ...]) -> bool:
    words = [token for token in tokens if token not in MARKS]
    return bool(words) and (
        (len(words) <= 3 and _WHAT.issuperset(words)) or "".join(words) in _WHAT_HAN
    )


_SOUNDS_LIKE: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), meant)
    for pattern, meant in (
        ("嘛", "吗"),
        ("(?<=[开扒把撬关车])们", "门"),
        ("我门|我闷", "我们"),
        ("安(?=[开钮哪一那红住])", "按"),
        ("还(?:事|是是)", "还是"),
        (r"\b(some|any|every|no) (one|body)\b", r"\1\2"),
        (
            r"(?:(?<=^)|(?<=[.,] ))as (?=(?:she|he|they|there|the|somebody|any)\b)",
            "is ",
        ),
        (r"\bout off\b", "out of"),
        (r"\b(?:ah[ií]|ay) (?=alg|m[aá]s|gente|aire|para)", "hay "),
        (r"\bva ha\b", "va a"),
        (r"\bmi (?=(?:va|van|hago|saca|quedo|oye|dan|puede|est[aá])\b)", "me "),
        (r"\bdel (?=m[ií]\b)", "de "),
    )
)
"""What recognisers write for words that sound the same, where only the others make sense."""


def _as_meant(said: str) -> str:
    for pattern, meant in _SOUNDS_LIKE:
        said = pattern.sub(meant, said)
    return said


def questions(said: str) -> tuple[str, ...]:
    """Return the names of what is asked, in the order of speech, each once and MOST at the most."""
    heard = tokenize(_as_meant(said) + ".")
    found = [
        (match.start, match.section)
        for match in load_lexicon("questions").find(heard)
        # "No puedo salir" tells, and "puedo salir" asks.
        if not (match.start and heard.tokens[match.start - 1] == "no" and "_" in match.section)
    ]
    if not found and _says_only_what(heard.tokens):
        return ("say_again",)
    listed = list(found)
    person = asks_for_human(said)
    for place, name in topics(heard):
        near = [known for at, known in listed if abs(at - place) <= NEAR]
        wider = not near or any(known in _COVERS.get(name, ()) for known in near)
        if wider and not (person and name == UNLISTED):
            found.append((place, name))
    names = [name for _, name in sorted(found, key=lambda each: each[0])]
    if set(names) - {"say_again"}:
        names = [name for name in names if name != "say_again"]
    covered = {wide for name in names for wide in _COVERS.get(name, ())}
    return tuple(dict.fromkeys(name for name in names if name not in covered))[:MOST]
