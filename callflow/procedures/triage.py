"""Decides which scenarios a call is about, in which order, and how urgent it is.

Pure policy over what the classifier scored and which cues of danger were heard. Scenarios are only
added: several may be open at once, the gravest comes first. What takes one away again is an
explicit all-clear, and never where life is at risk, for an open door heals nobody. "A test" or "a
mistake" ends nothing that has begun: somebody may be forced to say it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency, graver, gravest
from callflow.procedures.document import DEFAULT_SCENARIO, SILENT_SCENARIO

LIKELY: Final = 0.30
"""From so likely on, a scenario is what a call is about of which nothing is known yet."""
CLEAR: Final = 0.50
"""From so likely on it is clear of what a few words speak."""
SURE: Final = 0.95
"""From so likely on even a few words tell of what callers seldom begin with."""
MOVED: Final = 0.70
"""From so likely on, one more scenario opens: most of what is said in mid-call is an answer."""
DANGER: Final = 0.25
"""From so likely on, life is taken to be at risk: needless help costs less than late help."""
HINTED: Final = 0.05
"""From so likely on where a word for the danger was heard, too, or even without that where it was a
key phrase of the procedure. A word alone raises nothing: "the fire station is next door"."""

SCENARIO_OF: Final[Mapping[str, str]] = {
    "fire": "fire_smoke",
    "smoke": "fire_smoke",
    "water": "water_flood",
    "medical": "medical",
    "limb": "limb_or_clothing_trapped",
    "violence": "violence_threat",
    "forcing_doors": "forcing_doors",
}
"""The procedure for each danger of which callers give a sign."""

GUESSED: Final = 0.20
"""The gravest scenario must be so likely by itself where no word for a danger was heard, unless
danger as such is clear."""
NEARLY: Final = 0.10
"""So far below CLEAR a scenario that is seldom meant is guessed all the same."""
PLAIN: Final = 0.20
"""From so likely on a first utterance is taken for a plain entrapment, where it is clear of nothing
else: who calls from a lift is taken to be in it and trapped."""

SHORT: Final = 4
"""An utterance of so few words, or twice as many Chinese letters, says little by itself."""
UNLIKELY_AT_FIRST: Final = frozenset(("eta_callback", "door_malfunction"))
"""Of what few words do not speak while nothing is known, since who calls is taken to be trapped."""

NOT_PLAIN: Final = frozenset(
    ("door_malfunction", "panic_claustrophobia", "maintenance_worker", "self_released")
)
"""Of what nobody speaks whose few first words tell only that they cannot leave a lift."""

OUTSIDE: Final = frozenset(
    ("third_party_reporter", "maintenance_worker", "escalator_incident", "refuge_point")
)
"""What a call is not about whose caller is inside a lift and trapped, however much it sounds so."""

SELDOM: Final = frozenset(
    (
        *("open_shaft", "unintended_movement", "self_harm", "labour", "gas_or_spray"),
        *("bomb_threat", "refuge_point", "platform_lift", "animal", "blind_caller"),
        *("overload", "long_wait", "maintenance_worker", "escalator_incident"),
    )
)
"""What a call is seldom about: it takes clear words, or a key phrase where life is at risk."""

DENIED: Final = frozenset(("fire_smoke", "water_flood"))
"""What is not opened by words that deny it, unless they are clear of it all the same."""

NARROWER: Final[Mapping[str, tuple[str, ...]]] = {
    "fire_smoke": ("gas_or_spray", "bomb_threat"),
    "medical": ("labour", "self_harm"),
    "violence_threat": ("gas_or_spray", "bomb_threat"),
}
"""What says better than this procedure what a danger is, where the words speak for that alone."""

BY_MACHINES: Final[Mapping[str, str]] = {
    "test_call_automatic": "test_call_engineer",
    "equipment_fault": "entrapment_standard",
}
"""Scenarios in which nothing is said, since a machine calls: words are no proof of one. Beside each
stands what a voice that speaks of it is taken for."""

RELEASED: Final = "self_released"
"""The procedure for people who are out by themselves."""
EVERYBODY_OUT: Final = "ask_everybody_out"
"""Its first question: until it is answered yes, nobody is out."""

_WITH_PEOPLE_INSIDE: Final = frozenset(
    (
        *("entrapment_standard", "entrapment_partial_opening", "child_alone", "vulnerable_person"),
        *("power_failure", "panic_claustrophobia", "overspeed_freefall", "earthquake"),
        *("forcing_doors", "limb_or_clothing_trapped", "unintended_movement", "labour"),
        *("long_wait", "blind_caller", "platform_lift"),
    )
)

MOST_PROCEDURES: Final = 4
"""A call is answered from so many at once: who speaks of more is long with a human."""


@dataclass(frozen=True, slots=True)
class Scored:
    """What one utterance says by itself, whatever the call was about before.

    `likely`: (scenario id, probability), best first; together at most 1, empty when nothing speaks
    for anything. `danger`: the probability that life is at risk now. `cued`: scenarios with life at
    risk of which a whole key phrase was heard, and not denied.
    """

    likely: tuple[tuple[str, float], ...] = ()
    danger: float = 0.0
    cued: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Triage:
    """What a call is about. `scenario`: what is worked on, None while that is unknown; `open`: all
    that applies, the gravest first."""

    scenario: str | None = None
    open: tuple[str, ...] = ()
    urgency: Urgency | None = None

    def without(self, names: Collection[str], urgencies: Mapping[str, Urgency]) -> Triage:
        """The same without what was only guessed, and its urgency without theirs."""
        if not names:
            return self
        left = [name for name in self.open if name not in names] or [DEFAULT_SCENARIO]
        return _ranked(left, Triage(), urgencies)

    @classmethod
    def of(cls, record: CallRecord) -> Triage:
        """What is known about a call so far."""
        # What a person has made of the urgency is theirs: what was heard goes on from what was.
        heard = record.urgency if record.urgency_set is None else record.urgency_heard
        return cls(record.scenario_type, record.open_scenarios, heard)


@dataclass(frozen=True, slots=True)
class Signs:
    """What one utterance gives. `dangers`: names of `call/facts.py` DANGERS that were heard, and
    not denied; `answered`: those that answer our question, and need no other evidence;
    `released`: an explicit all-clear; `silent`: nothing was said; `in_reply`: the words answer what
    was asked, or ask something themselves, and open nothing that they do not name; `trapped`: the
    caller is known to be in a lift that they cannot leave; `standstill`: the lift is said not to
    move, or not to open; `denied`: fire, smoke or water was denied, and no danger told;
    `machine`: the line has proved that a machine calls; `for_person`: the
    caller asks for a person; `plain`: the words tell only that the caller is in a lift and cannot
    leave it; `words`: how many there were."""

    scored: Scored
    dangers: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    released: bool = False
    silent: bool = False
    in_reply: bool = False
    trapped: bool = False
    standstill: bool = False
    denied: bool = False
    machine: bool = False
    for_person: bool = False
    plain: bool = False
    words: int = 0


def triage(signs: Signs, before: Triage, urgencies: Mapping[str, Urgency]) -> Triage:
    """Return what the call is about once the utterance was heard.

    `urgencies`: of every scenario that there is a procedure for. The same utterance again opens
    nothing more.
    """
    signs = replace(signs, scored=_possible(signs, before, urgencies))
    if signs.silent:
        return before if before.open else _ranked([SILENT_SCENARIO], before, urgencies)
    if before.open and signs.trapped:
        signs = replace(signs, scored=_from_inside(signs.scored, before))
    known = [
        name
        for name in before.open
        if name != SILENT_SCENARIO and not (signs.trapped and urgencies.get(name) == "P5")
    ]
    fresh = _opened(signs, before, urgencies)
    if signs.released:
        # Who is out may bleed all the same.
        grave = [name for name in dict.fromkeys([*fresh, *known]) if urgencies.get(name) == "P1"]
        rest = [name for name in before.open if urgencies.get(name) != "P1"]
        over = rest if all(urgencies.get(name) == "P5" for name in rest) else []
        return _ranked([*(over or [_over(signs, urgencies)]), *grave], Triage(), urgencies)
    # What is worked on and spoken of once more stays before what is as grave.
    first = [name for name in fresh if name == before.scenario]
    return _ranked(list(dict.fromkeys([*first, *fresh, *known])), before, urgencies)


def speaks_of_people_inside(scored: Scored) -> bool:
    """True when the words are clearly about people in a lift: then they tell of no release."""
    name, share = scored.likely[0] if scored.likely else ("", 0.0)
    return name in _WITH_PEOPLE_INSIDE and share >= CLEAR


def _over(signs: Signs, urgencies: Mapping[str, Urgency]) -> str:
    """What a call is about that is over: a mistake, where that is what was said, else a release."""
    name, share = signs.scored.likely[0] if signs.scored.likely else ("", 0.0)
    return name if share >= CLEAR and urgencies.get(name) in ("P4", "P5") else RELEASED


def _possible(signs: Signs, before: Triage, urgencies: Mapping[str, Urgency]) -> Scored:
    """The scores without what the caller cannot mean, given what is known of them."""
    scored = signs.scored
    likely: dict[str, float] = {}
    ruled_out = 0.0
    plain = signs.plain and not before.open and signs.words <= 2 * SHORT
    for name, share in scored.likely:
        if name in BY_MACHINES and not signs.machine:
            other = BY_MACHINES[name]
            likely[other] = likely.get(other, 0.0) + share
        elif (
            signs.trapped and ((name in OUTSIDE and share < CLEAR) or urgencies.get(name) == "P5")
        ) or (plain and name in NOT_PLAIN):
            ruled_out += share if urgencies.get(name) == "P1" else 0.0
        elif signs.for_person and name != DEFAULT_SCENARIO and not signs.dangers:
            ruled_out += share  # Who refuses a machine is neither threatened nor playing.
        else:
            likely[name] = likely.get(name, 0.0) + share
            if name in SELDOM and share < HINTED and urgencies.get(name) == "P1":
                ruled_out += share
    ranked = tuple(sorted(likely.items(), key=lambda each: -each[1]))
    return replace(scored, likely=ranked, danger=max(0.0, scored.danger - ruled_out))


def _from_inside(scored: Scored, before: Triage) -> Scored:
    """The scores in a call whose caller is known to be inside: what goes on outside they hear."""
    likely = tuple(
        (name, share)
        for name, share in scored.likely
        if name not in OUTSIDE or name in before.open or share >= SURE
    )
    return replace(scored, likely=likely)


def _opened(signs: Signs, before: Triage, urgencies: Mapping[str, Urgency]) -> list[str]:
    """The scenarios that the utterance speaks for, open ones among them."""
    likely = [(name, p) for name, p in signs.scored.likely if name in urgencies]
    # From a mistake or a prank a call rises as easily as it began.
    begun = signs.released or any(
        urgencies.get(name, "P3") < "P4" for name in before.open if name != SILENT_SCENARIO
    )
    found = [name for name, p in likely if name in before.open and p >= LIKELY]
    if not begun:
        answers = signs.in_reply and bool(before.open) and not signs.trapped
        found += [
            name
            for name, p in likely
            if p >= (MOVED if answers else _bar_at_first(signs, name, urgencies))
        ]
    elif not signs.in_reply:
        found += [name for name, p in likely if p >= MOVED]
    if signs.for_person and signs.trapped and not begun:
        found.append(DEFAULT_SCENARIO)
    found += [SCENARIO_OF[danger] for danger in sorted(signs.answered)]
    shares = dict(likely)
    hinted = [SCENARIO_OF[danger] for danger in sorted(signs.dangers)]
    for name in hinted:
        grave = urgencies.get(name) == "P1"
        hint = signs.scored.danger if grave else shares.get(name, 0.0)
        if any(better in found for better in NARROWER.get(name, ())) and (
            shares.get(name, 0.0) < HINTED
        ):
            continue
        if hint >= HINTED or name in signs.scored.cued:
            found.append(name)
    found += _guessed(signs, likely, before, begun, urgencies)
    if signs.denied:
        found = [
            name
            for name in found
            if name not in DENIED
            or name in before.open
            or name in signs.scored.cued
            or shares.get(name, 0.0) >= CLEAR
        ]
    if not before.open:
        found = _plain_first(found, shares, signs, urgencies)
    if signs.trapped and all(urgencies.get(name) == "P5" for name in (*found, *before.open)):
        found.append(DEFAULT_SCENARIO)
    # "A test" or "a mistake" is nothing that a call turns to once it has begun.
    told = [name for name in dict.fromkeys(found) if name in urgencies]
    return [name for name in told if not (begun and urgencies.get(name) == "P5")]


def _plain_first(
    found: list[str],
    shares: Mapping[str, float],
    signs: Signs,
    urgencies: Mapping[str, Urgency],
) -> list[str]:
    """A call begins as a plain entrapment, unless it is clear of something else or graver."""
    trapped, share = signs.trapped, shares.get(DEFAULT_SCENARIO, 0.0)
    if not trapped and not signs.standstill and share < PLAIN:
        return found
    lightest = urgencies.get(DEFAULT_SCENARIO, "P3")
    as_light = {name for name in found if urgencies.get(name, "P3") >= lightest}
    clear = {
        name
        for name in as_light
        if shares.get(name, 0.0) >= (SURE if trapped and name in UNLIKELY_AT_FIRST else CLEAR)
    }
    if clear - {DEFAULT_SCENARIO}:
        return found
    least = CLEAR if trapped or signs.standstill else 0.0
    graver_ones = [
        name
        for name in found
        if name not in as_light and (urgencies[name] == "P1" or shares.get(name, 0.0) >= least)
    ]
    plain = DEFAULT_SCENARIO in found or not graver_ones
    return [*graver_ones, *([DEFAULT_SCENARIO] if plain else [])]


def _bar_at_first(signs: Signs, name: str, urgencies: Mapping[str, Urgency]) -> float:
    short = 0 < signs.words <= SHORT
    if _is_unclear(signs, name, 0.0):
        return SURE if short else CLEAR
    if not short:
        return LIKELY
    # Two words without one for a danger tell of none: "no response" may be said of a button.
    told = signs.words > 2 or signs.dangers or name in signs.scored.cued
    guessed = urgencies.get(name) == "P1" and not told
    return SURE if guessed or name in OUTSIDE | UNLIKELY_AT_FIRST else LIKELY


def _is_unclear(signs: Signs, name: str, share: float) -> bool:
    """True for what a call is seldom about, unless the words are clear or a key phrase is there."""
    return name in SELDOM and share < CLEAR and name not in signs.scored.cued


def _guessed(
    signs: Signs,
    likely: list[tuple[str, float]],
    before: Triage,
    begun: bool,
    urgencies: Mapping[str, Urgency],
) -> list[str]:
    """A danger to life of which no word was heard: taken to be there where the words are about
    nothing else, and are enough to tell."""
    grave = [(name, p) for name, p in likely if urgencies.get(name) == "P1"][:1]
    if not grave or signs.scored.danger < DANGER:
        return []
    if _is_unclear(signs, *grave[0]) and max(signs.scored.danger, grave[0][1] + NEARLY) < CLEAR:
        return []
    if any(urgencies.get(SCENARIO_OF[danger]) == "P1" for danger in signs.dangers):
        return [grave[0][0]]
    if grave[0][1] < GUESSED and signs.scored.danger < CLEAR:
        return []
    if begun or (before.open and signs.in_reply):
        least = CLEAR if signs.released else MOVED
        return [] if signs.in_reply or grave[0][1] < least else [grave[0][0]]
    if likely[0][1] > signs.scored.danger:
        return []  # The words are more likely about something else.
    plain = signs.trapped or 0 < signs.words <= SHORT
    least = max(CLEAR, _bar_at_first(signs, grave[0][0], urgencies)) if plain else 0.0
    return [] if grave[0][1] < least else [grave[0][0]]


def _ranked(names: list[str], before: Triage, urgencies: Mapping[str, Urgency]) -> Triage:
    """All of them, the gravest first; among equals, what was spoken of last."""
    ranked = sorted(names, key=lambda name: urgencies.get(name, "P3"))
    urgency = gravest(*(urgencies.get(name) for name in ranked))
    if urgency is None or (before.urgency and graver(before.urgency, urgency)):
        urgency = before.urgency
    return Triage(ranked[0] if ranked else None, tuple(ranked), urgency)


ASKED_ABOUT: Final[Mapping[str, tuple[str, str, object]]] = {
    "medical": ("ask_injury", "injured", False),
    "fire_smoke": ("ask_danger", "danger", []),
    "water_flood": ("ask_danger", "danger", []),
}
"""By procedure with life at risk: the question that settles whether it is meant, the fact that the
question asks for, and what that is where the answer is no."""


def suspects(
    found: Triage, record: CallRecord, signs: Signs, facts: Mapping[str, object]
) -> tuple[str, ...]:
    """Return what is open with life at risk and was guessed: no word for it was heard, no key
    phrase, and the words were not clear of it."""
    told = {SCENARIO_OF[danger] for danger in signs.dangers | signs.answered} | signs.scored.cued
    before = record.analysis.suspected if record.analysis is not None else ()
    shares = dict(signs.scored.likely)
    fresh = [
        name
        for name in found.open
        if name in ASKED_ABOUT
        and name not in record.open_scenarios
        and shares.get(name, 0.0) < SURE
        and ASKED_ABOUT[name][1] not in facts
    ]
    return tuple(name for name in (*before, *fresh) if name in found.open and name not in told)


def cleared(record: CallRecord, learned: Mapping[str, object]) -> frozenset[str]:
    """Return what was guessed and is denied now."""
    before = record.analysis.suspected if record.analysis is not None else ()
    return frozenset(
        name
        for name in before
        if learned.get(ASKED_ABOUT[name][1], None) == ASKED_ABOUT[name][2]
        and ASKED_ABOUT[name][1] in learned
    )


def grounds(
    found: Triage, dangers: Iterable[str], urgencies: Mapping[str, Urgency]
) -> dict[str, Urgency]:
    """What speaks for an urgency: each scenario that applies, and each of the `dangers` that were
    heard (`call/facts.py` DANGERS) whose scenario applies. A word alone speaks for none."""
    heard = {name: name for name in found.open}
    heard |= {f"danger:{one}": SCENARIO_OF[one] for one in dangers if SCENARIO_OF.get(one) in heard}
    found_in = ((ground, urgencies.get(name)) for ground, name in heard.items())
    return {ground: urgency for ground, urgency in found_in if urgency is not None}


def procedures(found: Triage) -> tuple[str, ...]:
    """The scenarios whose procedures the call is answered from, what is worked on first: while
    nothing is known the one that asks what has to be known of anybody in a lift."""
    return found.open[:MOST_PROCEDURES] or (DEFAULT_SCENARIO,)
