"""Learns the facts that a caller's words tell about themselves and their lift, and nothing else.

What is supposed, asked, or told of another day is left out before anything is read. A plain "no"
or "three" is read as the answer to the question that was asked last: a "no" answers where it stands
by itself at the beginning, before a pause, a repetition, or a few words that fit the question.
"There is no fire" and "no respira" deny something of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from callflow.call.facts import DANGERS, VULNERABLE
from callflow.language.danger import all_clear, dangers, denies_danger, mentioned_dangers
from callflow.language.lexicon import Match, load_lexicon
from callflow.language.negation import denied_places, stated
from callflow.language.numbers import begun_number, phone_number
from callflow.language.people import ages, people
from callflow.language.places import floor, lift_id, name
from callflow.language.text import MARKS, Tokens, listed, tokenize

INJURIES: Final = (
    "unconscious", "breathing", "chest", "seizure", "bleeding", "crushed", "head", "fracture",
    "labour", "burn", "sick", "pain",
)  # fmt: skip
"""What `injury` may say, the gravest first."""

_COUNTING: Final = frozenset(("ask_count", "ask_how_many", "ask_how_many_out", "ask_breathe"))
_HURTING: Final = frozenset(
    listed(
        "ask_injury ask_injured ask_hurt ask_hurt_yes_no ask_safe ask_one_voice ask_symptoms "
        "ask_worse ask_unwell ask_done aftercare_now"
    )
)
_WHERE_TO_CALL: Final = frozenset(("ask_callback", "ask_reporter"))
_NAMING: Final = frozenset((*_WHERE_TO_CALL, "ask_name", "ask_who"))
_FLOOR: Final = frozenset(("ask_floor", "ask_landing", "ask_going_down"))
_DANGER: Final = frozenset(("ask_danger", "ask_smoke_yes_no"))
# The question, the fact, and what "yes" and "no" say of it; None: nothing.
_ANSWERED: Final[dict[str, tuple[str, Any, Any]]] = {
    **dict.fromkeys(_HURTING, ("injured", True, False)),
    **dict.fromkeys(_DANGER, ("danger", None, [])),
    "ask_inside": ("inside", True, False),
    "ask_in_lift_yes_no": ("inside", True, False),
    "ask_lights": ("lights", True, False),
    "ask_light": ("lights", True, False),
    "ask_doors": ("doors_open", True, False),
    "ask_step_out": ("doors_open", True, None),
    "ask_vulnerable": ("vulnerable", None, []),
    "ask_with": ("people", None, 1),
    "ask_alone": ("people", None, 1),
    "ask_safe_now": ("people", 1, None),
    "ask_breathe": ("injured", False, True),
    "ask_breathe_all": ("injured", False, True),
    "ask_empty": ("people", 0, None),
    "ask_location": ("location_confirmed", True, False),
    "confirm_location": ("location_confirmed", True, False),
    "ask_awake": ("awake", True, False),
    "ask_breathing": ("breathing", True, False),
}
# What is a denial, an answer, or no statement of its own; a denial before it takes nothing back.
_WORDED: Final = frozenset(
    listed(
        "hurt_no trapped_no lights_no doors_no awake_no breathing_no place_wrong outside hedged "
        "fine calm limb callback somebody_else"
    )
)
_SHORT: Final = 8
_DIALLED: Final = 6  # so many digits are of a telephone number, and count nobody
_ENDS: Final = ((), (",",), ("?",))
# What tells of something else when another fact was asked about.
_TELLING: Final = frozenset(("lights", "lights_no", "doors", "doors_no"))
_ABOUT: Final = {
    "injured": frozenset(("hurt", "medical", "limb", "violence")),
    "danger": frozenset((*DANGERS, "hurt")),
    "lights": frozenset(("lights", "lights_no")),
    "doors_open": frozenset(("doors", "doors_no", "forcing_doors")),
}
_FLAGS: Final = (
    ("lights", "lights", "lights_no"),
    ("doors_open", "doors", "doors_no"),
    ("location_confirmed", "place_ok", "place_wrong"),
    ("inside", "inside", "outside"),
    ("trapped", "trapped", "trapped_no"),
    ("awake", "awake", "awake_no"),
    ("breathing", "breathing", "breathing_no"),
)


def learn(text: str, language: str, asked: str | None) -> dict[str, Any]:
    """Return what `text` tells, by the keys of `callflow.call.facts.CALLER_FACTS`.

    `asked` is the id of the question that was asked last (`ask_count`). Empty where nothing is
    told; a list of no words answers that there is none. The words of all three languages count,
    whatever `language`.
    """
    heard = stated(tokenize(text))
    learned: dict[str, Any] = {}
    if heard.tokens:
        states = load_lexicon("states").find(heard)
        learned = _answered(heard, states, asked)
        hurt_only = learned.get("injured") is True and len(heard.tokens) <= _SHORT
        denied_at = denied_places(heard, [m for m in states if m.section not in _WORDED])
        learned |= _flags(states, denied_at)
        learned |= _health(heard, states, denied_at, asked)
        learned |= _values(heard, states, asked)
        if hurt_only:
            learned.pop("people", None)  # "yes two of us" counts who is hurt
    if all_clear(text):
        learned |= {"trapped": False, "inside": False}
    if found := sorted(dangers(text, language)):
        learned["danger"] = found
    return learned


def _values(heard: Tokens, states: Sequence[Match], asked: str | None) -> dict[str, Any]:
    dialled = len(begun_number(heard)) >= _DIALLED
    announced = any(m.section == "callback" for m in states)
    number = phone_number(heard, announced or asked in _WHERE_TO_CALL)
    values: dict[str, Any] = {
        # "Two people" may be those who are hurt, where that was asked.
        "people": None
        if dialled
        else people(heard, asked in _COUNTING, clause=asked not in _HURTING),
        "floor": floor(heard, asked in _FLOOR),
        "callback_number": number,
        "lift_id": None if number else lift_id(heard, asked == "ask_lift_id"),
        "name": name(heard, asked in _NAMING),
    }
    return {fact: value for fact, value in values.items() if value is not None}


def _answered(heard: Tokens, said: Sequence[Match], asked: str | None) -> dict[str, Any]:
    """What a plain yes or no says; a doubt says nothing."""
    if asked not in _ANSWERED or any(m.section == "hedged" for m in said):
        return {}
    fact, yes, no = _ANSWERED[asked]
    answer = plain_answer(heard, fact, _elsewhere(heard, said, fact))
    if answer is None:
        well = (
            _is_well(heard, said)
            if fact == "injured"
            else fact == "danger" and denies_danger(heard)
        )
        answer = False if well else None
    if (
        answer
        and fact == "injured"
        and any(m.section in ("inside", "trapped", "present") and m.start <= 2 for m in said)
    ):
        answer = (
            None  # "Yes we are inside" tells of no injury; one that it names counts all the same.
        )
    value = None if answer is None else (yes if answer else no)
    return {} if value is None else {fact: value}


def _elsewhere(heard: Tokens, said: Sequence[Match], fact: str) -> set[int]:
    """The tokens that tell of other things than `fact`; who is where and with whom fits any."""
    own = _ABOUT.get(fact, frozenset())
    told = [m for m in said if m.section in _TELLING or m.section.startswith("hurt:")]
    return {
        m.start
        for m in (*told, *mentioned_dangers(heard))
        if m.section not in own and m.section.split(":")[0] not in own
    }


def _is_well(heard: Tokens, said: Sequence[Match]) -> bool:
    """True for "i am okay thanks" and a calm word alone: "okay there is smoke" is none."""
    tokens = heard.tokens
    return any(
        (m.section == "fine" and m.start <= 2)
        or (m.section == "calm" and m.start <= 2 and tokens[m.end : m.end + 1] in _ENDS)
        for m in said
    )


def _flags(states: Sequence[Match], denied: set[int]) -> dict[str, bool]:
    """Flags by what was said last; what denies a state outright is worded in the lexicon."""
    found: dict[str, bool] = {}
    limbs = [m for m in states if m.section == "limb"]
    sections = {m.section for m in states}
    if "inside_bare" in sections and not sections & {"outside", "inside", "somebody_else"}:
        found["inside"] = True
    for fact, yes, no in _FLAGS:
        last = -1
        for match in states:
            if match.section not in (yes, no) or any(
                fact == "trapped" and limb.start <= match.start < limb.end for limb in limbs
            ):
                continue
            if match.section == yes and match.start in denied and fact in ("doors_open", "lights"):
                continue
            if match.end > last or match.section == no:
                last = match.end
                found[fact] = (match.section == yes) and match.start not in denied
    if "outside" in sections:
        found["inside"] = False
    return found


def _health(
    heard: Tokens, states: Sequence[Match], denied: set[int], asked: str | None
) -> dict[str, Any]:
    learned: dict[str, Any] = {}
    hurts = [m for m in states if m.section.startswith("hurt:")]
    kinds = {m.section.removeprefix("hurt:") for m in hurts if m.start not in denied}
    if kinds:
        learned["injured"] = True
        learned["injury"] = next(kind for kind in INJURIES if kind in kinds)
    elif hurts or any(m.section == "hurt_no" for m in states):
        learned["injured"] = False
    weak = {m.section for m in states if m.section in VULNERABLE and m.start not in denied}
    weak |= {age_group for age in ages(heard) if (age_group := _age_group(age))}
    if weak or (asked == "ask_vulnerable" and any(m.section in VULNERABLE for m in states)):
        learned["vulnerable"] = sorted(weak)  # none: they denied whom they named
    return learned


def _age_group(age: int) -> str | None:
    if age < _GROWN_UP:
        return "child"
    return "elderly" if age >= _OLD else None


_GROWN_UP, _OLD = 16, 65

# Nobody and nothing answer where people or things were asked about; not "are you inside?".
_OF_THINGS: Final = frozenset(("injured", "danger", "vulnerable", "people", "lights"))
_OF_PEOPLE: Final = frozenset(("injured", "vulnerable", "people"))
_SAID: Final = {
    "yes": True, "yes_phrase": True,
    "no": False, "no_phrase": False, "no_thing": False, "no_body": False,
}  # fmt: skip
_LONGEST: Final = 8

_Cues = dict[int, dict[str, int]]  # by first token: the section and its end


def plain_answer(heard: Tokens, fact: str, elsewhere: set[int]) -> bool | None:
    """Return what a yes or no at the beginning of `heard` answers to a question about `fact`.

    Where the speaker corrects it ("no, yes"), the last one stands. `elsewhere`: the tokens that
    tell of other things; a "no" that runs into them says nothing, nor does a "yes" of injuries.
    None where nothing is answered.
    """
    cues: _Cues = {}
    for match in load_lexicon("answers").find(heard):
        cues.setdefault(match.start, {})[match.section] = match.end
    reader = _PlainAnswer(heard, fact, elsewhere, cues)
    said: bool | None = None
    place = reader.after_openers(0)
    while (word := reader.word_at(place)) is not None and reader.stands(word):
        if said is False and word.section == "yes_phrase":
            break  # "no estoy" and "no, we are …" take nothing back
        said = _SAID[word.section]
        place = reader.after_openers(word.end)
    return said


class _PlainAnswer:
    def __init__(self, heard: Tokens, fact: str, elsewhere: set[int], cues: _Cues) -> None:
        self._tokens, self._fact = heard.tokens, fact
        self._elsewhere, self._cues = elsewhere, cues

    def after_openers(self, place: int) -> int:
        """The first token from `place` on that is no opener, or that may be an answer alone."""
        while place < len(self._tokens):
            if self._tokens[place] in MARKS:
                place += 1
                continue
            word, end = self.word_at(place), self._cues.get(place, {}).get("opener", 0)
            if not end or (word is not None and self.stands(word)):
                return place
            place = end
        return place

    def word_at(self, place: int) -> Match | None:
        """The longest word at `place` that may answer this question."""
        found = [
            Match(section, place, end)
            for section, end in self._cues.get(place, {}).items()
            if section in _SAID and self._may_answer(section)
        ]
        return max(found, key=lambda match: match.end, default=None)

    def stands(self, word: Match) -> bool:
        """True when nothing behind `word` makes it a part of another statement."""
        end = self._clause_end(word.end)
        rest = range(word.end, end)
        if not rest:
            return True
        again = self.word_at(word.end)
        turned = _SAID[word.section] is False and again and again.section == "yes_phrase"
        if again is not None and not turned and self.stands(again):
            return True
        if word.section == "yes":
            return self._fact != "injured" or self._elsewhere.isdisjoint(rest)
        if len(rest) <= _LONGEST and self._fits(word.end, end):
            return True
        return (
            word.section == "no"
            and "subject" in self._cues.get(word.end, {})
            and self._elsewhere.isdisjoint(rest)
            and not any(self._denies(place) for place in rest)
        )

    def _may_answer(self, section: str) -> bool:
        if section == "no_body":
            return self._fact in _OF_PEOPLE
        return section != "no_thing" or self._fact in _OF_THINGS

    def _denies(self, place: int) -> bool:
        return any(section.startswith("no") for section in self._cues.get(place, {}))

    def _fits(self, place: int, end: int) -> bool:
        """True when the tokens from `place` to `end` are small words and words of the question."""
        reached = {place}
        for at in range(place, end):
            here = self._cues.get(at, {})
            if at in reached:
                reached |= {here[kind] for kind in ("close", f"fit:{self._fact}") if kind in here}
        return end in reached

    def _clause_end(self, place: int) -> int:
        while place < len(self._tokens) and self._tokens[place] not in MARKS:
            place += 1
        return place
