"""Decides which scenarios a call is about, in which order, and how urgent it is.

Pure policy over what the classifier scored and which cues of danger were heard. Scenarios are only
added: several may be open at once, the gravest comes first. What takes one away again is an
explicit all-clear, and never where life is at risk, for an open door heals nobody. "A test" or "a
mistake" ends nothing that has begun: somebody may be forced to say it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.urgency import Urgency, graver, gravest
from callflow.procedures.document import DEFAULT_SCENARIO, SILENT_SCENARIO

LIKELY: Final = 0.30
"""From so likely on, a scenario is what a call is about of which nothing is known yet."""
CLEAR: Final = 0.50
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

RELEASED: Final = "self_released"
"""The procedure for people who are out by themselves."""

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
    `released`: an explicit all-clear; `silent`: nothing was said."""

    scored: Scored
    dangers: frozenset[str] = frozenset()
    answered: frozenset[str] = frozenset()
    released: bool = False
    silent: bool = False


def triage(signs: Signs, before: Triage, urgencies: Mapping[str, Urgency]) -> Triage:
    """Return what the call is about once the utterance was heard.

    `urgencies`: of every scenario that there is a procedure for. The same utterance again opens
    nothing more.
    """
    if signs.silent:
        return before if before.open else _ranked([SILENT_SCENARIO], before, urgencies)
    known = [name for name in before.open if name != SILENT_SCENARIO]
    fresh = _opened(signs, before, urgencies)
    if signs.released:
        # Who is out may bleed all the same.
        grave = [name for name in dict.fromkeys([*fresh, *known]) if urgencies.get(name) == "P1"]
        return _ranked([_over(signs, urgencies), *grave], Triage(), urgencies)
    # What is worked on and spoken of once more stays before what is as grave.
    first = [name for name in fresh if name == before.scenario]
    return _ranked(list(dict.fromkeys([*first, *fresh, *known])), before, urgencies)


def _over(signs: Signs, urgencies: Mapping[str, Urgency]) -> str:
    """What a call is about that is over: a mistake, where that is what was said, else a release."""
    name, share = signs.scored.likely[0] if signs.scored.likely else ("", 0.0)
    return name if share >= CLEAR and urgencies.get(name) in ("P4", "P5") else RELEASED


def _opened(signs: Signs, before: Triage, urgencies: Mapping[str, Urgency]) -> list[str]:
    """The scenarios that the utterance speaks for, open ones among them."""
    likely = [(name, p) for name, p in signs.scored.likely if name in urgencies]
    begun = any(name != SILENT_SCENARIO for name in before.open)
    found = [
        name for name, p in likely if p >= (CLEAR if begun and name not in before.open else LIKELY)
    ]
    found += [SCENARIO_OF[danger] for danger in sorted(signs.answered)]
    shares = dict(likely)
    hinted = [SCENARIO_OF[danger] for danger in sorted(signs.dangers)]
    for name in hinted:
        grave = urgencies.get(name) == "P1"
        hint = signs.scored.danger if grave else shares.get(name, 0.0)
        if hint >= HINTED or name in signs.scored.cued:
            found.append(name)
    if signs.scored.danger >= DANGER:
        found += [name for name, _ in likely if urgencies[name] == "P1"][:1]
    return [name for name in dict.fromkeys(found) if name in urgencies]


def _ranked(names: list[str], before: Triage, urgencies: Mapping[str, Urgency]) -> Triage:
    """All of them, the gravest first; among equals, what was spoken of last."""
    ranked = sorted(names, key=lambda name: urgencies.get(name, "P3"))
    urgency = gravest(*(urgencies.get(name) for name in ranked))
    if urgency is None or (before.urgency and graver(before.urgency, urgency)):
        urgency = before.urgency
    return Triage(ranked[0] if ranked else None, tuple(ranked), urgency)


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
