"""The guard: no forbidden sentence passes, no sentence of a procedure is ever caught."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml

from callflow.procedures.document import Section
from callflow.procedures.library import SopLibrary
from callflow.responder.guard import Guard

CASES = Path(__file__).parent / "guard" / "cases"
# Written without sight of the lexicons: {lang, sentence, forbidden, rule, facts} in each line.
BLIND = Path(__file__).parent / "guard"
SPOKEN: tuple[Section, ...] = ("ask", "say")
LANGUAGES = ("en", "es", "zh")
GUARD = Guard()
# Every fact that a sentence waits for, and a value for every gap.
ALL_FACTS: dict[str, Any] = {
    "awake": True,
    "person.unconscious": True,
    "person.not_breathing": True,
    "dispatch.requested": True,
    "dispatch.confirmed_with_eta": True,
    "emergency.fire.requested": True,
    "emergency.ems.requested": True,
    "emergency.police.requested": True,
    "human.alert_started": True,
    "handover.started": True,
    "release.confirmed": True,
    "callback.scheduled": True,
    "lift.locked_out": True,
    "site.known": True,
    "test.logged": True,
    "eta_minutes": 25,
    "site": "Mill House",
    "lift": "2",
    "callback_time": "15:30",
    "test_time": "14:05",
    "reference": "A17",
    "address": "Mill House",
    "number": "2",
}
GAP = re.compile(r"\{(\w+)\}")


def rule(
    sentence: str,
    language: str = "en",
    facts: Mapping[str, Any] | None = None,
    approved: Mapping[str, str | None] | None = None,
) -> str | None:
    return GUARD.check(sentence, language=language, facts=facts or {}, approved=approved or {})


def filled(text: str) -> str:
    return GAP.sub(lambda gap: str(ALL_FACTS[gap[1]]), text)


def case(found: str | dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return (found, {}) if isinstance(found, str) else (found["say"], found.get("facts", {}))


@cache
def cases(language: str) -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((CASES / f"{language}.yaml").read_text(encoding="utf-8"))
    return data


def forbidden() -> Iterator[tuple[str, str]]:
    """Each language with each rule that it has cases for."""
    for language in LANGUAGES:
        for name in cases(language)["forbidden"]:
            yield language, name


def test_a_forbidden_sentence_is_caught() -> None:
    spoken = []
    for language, name in forbidden():
        table = list(map(case, cases(language)["forbidden"][name]))
        assert table, (language, name)
        spoken += [(name, say) for say, facts in table if rule(say, language, facts) is None]
    assert spoken == []


def test_a_harmless_sentence_passes() -> None:
    caught = {
        say: found
        for language in LANGUAGES
        for say, facts in map(case, cases(language)["harmless"])
        if (found := rule(say, language, facts))
    }
    assert caught == {}


def test_most_forbidden_sentences_are_caught_by_the_rule_that_names_them() -> None:
    found = [
        (name, rule(say, language, facts))
        for language, name in forbidden()
        for say, facts in map(case, cases(language)["forbidden"][name])
    ]
    assert sum(name == got for name, got in found) >= 0.8 * len(found)


@pytest.mark.parametrize(
    ("name", "count", "most_spoken", "most_caught"),
    # The second set was written after the lexicons, which owe it nothing.
    [("blind", 330, 0, 2), ("blind2", 240, 4, 13)],
)
def test_sentences_written_by_others_are_told_apart(
    name: str, count: int, most_spoken: int, most_caught: int
) -> None:
    lines = (BLIND / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    spoken: list[str] = []
    caught: dict[str, str] = {}
    for line in map(json.loads, lines):
        found = rule(line["sentence"], line["lang"], line["facts"])
        if line["forbidden"] and found is None:
            spoken.append(line["sentence"])
        if not line["forbidden"] and found is not None:
            caught[line["sentence"]] = found
    assert len(lines) == count
    assert len(spoken) <= most_spoken, spoken
    assert len(caught) <= most_caught, caught


def test_there_are_cases_enough_in_every_language() -> None:
    for language in LANGUAGES:
        data = cases(language)
        assert sum(map(len, data["forbidden"].values())) >= 60, language
        assert len(data["harmless"]) >= 40, language


def shipped() -> Iterator[tuple[str, str, dict[str, str | None]]]:
    """Each sentence that a procedure can speak, with what is approved in its call."""
    for document in SopLibrary.load().documents.values():
        for language in document.languages:
            approved = {
                line.text: line.only_after
                for section in SPOKEN
                for line in document.sections[(language, section)]
            }
            for text in approved:
                yield language, text, approved


def test_no_sentence_of_a_procedure_is_caught_once_its_fact_holds() -> None:
    caught = {
        (language, text): found
        for language, text, approved in shipped()
        if (found := rule(filled(text), language, ALL_FACTS, approved))
    }
    assert not caught


def test_hardly_a_sentence_of_a_procedure_needs_to_be_approved() -> None:
    # First aid and what only a lift engineer may say are approved words, or none: what wants such a
    # signature is left out (with them it is 14.7 %: 108 of 736).
    everything = {
        (language, line.text)
        for document in SopLibrary.load().documents.values()
        if not document.front.unsigned
        for language in document.languages
        for section in SPOKEN
        for line in document.sections[(language, section)]
    }
    caught = {
        (language, text)
        for language, text in everything
        if rule(filled(text), language, ALL_FACTS) is not None
    }
    assert len(caught) <= 0.08 * len(everything), caught


def test_a_sentence_of_a_procedure_is_caught_until_its_fact_holds() -> None:
    waiting = [
        (language, text, approved)
        for language, text, approved in shipped()
        if approved[text] is not None and "{" not in text
    ]
    assert waiting
    for language, text, approved in waiting:
        if approved[text] == "release.confirmed":
            continue  # "Does anyone need medical help now?" claims nothing.
        assert rule(text, language, {}, approved) == "dispatch", text


def test_a_general_phrase_is_never_caught() -> None:
    data = json.loads(
        files("callflow.responder").joinpath("phrases.json").read_text(encoding="utf-8")
    )
    for language, phrases in data.items():
        # What a human hears before they take a call is no reply to a caller.
        spoken = {k: v for k, v in phrases.items() if not k.startswith(("whisper", "reason"))}
        approved: dict[str, str | None] = dict.fromkeys(spoken.values())
        for name, text in spoken.items():
            assert rule(filled(text), language, ALL_FACTS, approved) is None, (language, name)


def test_an_approved_sentence_passes_whatever_its_blanks() -> None:
    approved = {"Lean on the doors  if you like.": None}
    assert rule(" Lean on   the doors if you like. ", approved=approved) is None
    assert rule("Lean on the doors if you like!", approved=approved) == "climb"


def test_an_approved_time_must_be_the_recorded_one() -> None:
    text = "The engineer's latest estimate is {eta_minutes} minutes. I'll tell you if it changes."
    approved: dict[str, str | None] = {text: "dispatch.confirmed_with_eta"}
    known = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True, "eta_minutes": 20}
    assert rule(text.replace("{eta_minutes}", "20"), facts=known, approved=approved) is None
    assert rule(text.replace("{eta_minutes}", "10"), facts=known, approved=approved) == "eta"
    assert rule(text, facts=known, approved=approved) == "leak"
    written = {text.replace("{eta_minutes}", "30"): "dispatch.confirmed_with_eta"}
    assert rule(text.replace("{eta_minutes}", "30"), facts=known, approved=written) == "eta"


TIMES = [
    ("The engineer will be there in twenty-five minutes.", 25, True),
    ("The engineer will be there in 25 minutes.", 25, True),
    ("The engineer will be there in half an hour.", 30, True),
    ("The engineer will be there in an hour and a half.", 90, True),
    ("The engineer will be there in one hundred and twenty minutes.", 120, True),
    ("The engineer will be there in two hours.", 120, True),
    ("The engineer will be there in twenty-five minutes.", 20, False),
    ("The engineer will be there in twenty to thirty minutes.", 20, False),
    ("The engineer will be there soon.", 5, True),
    ("The engineer will be there soon.", 45, False),
    ("The engineer will be there in a few minutes.", 5, False),
]


def test_a_time_passes_when_it_is_the_recorded_one() -> None:
    known = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True}
    found = {
        (say, minutes): rule(say, facts={**known, "eta_minutes": minutes})
        for say, minutes, _ in TIMES
    }
    assert found == {(say, minutes): None if passes else "eta" for say, minutes, passes in TIMES}


@pytest.mark.parametrize("minutes", [None, "soon", True, [], {}])
def test_a_recorded_time_that_is_no_number_supports_nothing(minutes: object) -> None:
    facts = {"dispatch.confirmed_with_eta": True, "eta_minutes": minutes}
    assert rule("The engineer will be there in 20 minutes.", facts=facts) == "eta"


@pytest.mark.parametrize(
    ("say", "fact"),
    [
        ("An engineer has been called.", "dispatch.requested"),
        ("The fire brigade has been called.", "emergency.fire.requested"),
        ("An ambulance is coming.", "emergency.ems.requested"),
        ("The police have been informed.", "emergency.police.requested"),
        ("I'm getting a colleague to join us.", "human.alert_started"),
    ],
)
def test_a_claim_of_help_takes_the_fact_of_the_service_that_it_names(say: str, fact: str) -> None:
    services = (
        "dispatch.requested",
        "emergency.fire.requested",
        "emergency.ems.requested",
        "emergency.police.requested",
    )
    assert rule(say, facts={fact: True}) is None
    for other in services:
        if other != fact:
            assert rule(say, facts={other: True}) == "dispatch"


def test_help_without_a_name_may_be_anybody_who_was_asked_for() -> None:
    assert rule("Help has been called.") == "dispatch"
    assert rule("Help has been called.", facts={"human.alert_started": True}) == "dispatch"
    assert rule("Help has been called.", facts={"emergency.ems.requested": True}) is None


@pytest.mark.parametrize("who", ["Help", "The engineer", "The ambulance", "The fire brigade"])
def test_who_was_asked_is_not_on_the_way_before_a_time_was_confirmed(who: str) -> None:
    asked = ("dispatch.requested", "emergency.ems.requested", "emergency.fire.requested")
    facts: dict[str, Any] = dict.fromkeys(asked, True)
    assert rule(f"{who} is on the way.", facts=facts) == "dispatch"
    confirmed = facts | {"dispatch.confirmed_with_eta": True, "eta_minutes": 20}
    assert rule(f"{who} is on the way.", facts=confirmed) is None


def test_nobody_has_arrived_whatever_was_recorded() -> None:
    assert rule("The engineer has arrived.", facts=ALL_FACTS) == "dispatch"


@pytest.mark.parametrize("tag", ["en-GB", "EN", "en_US"])
def test_a_language_tag_of_any_form_finds_its_lexicon(tag: str) -> None:
    assert rule("Please stay inside.", tag) is None
    assert rule("Please force the doors.", tag) == "doors"


def test_without_a_lexicon_only_approved_sentences_pass() -> None:
    approved = {"Bitte bleiben Sie im Aufzug.": None}
    assert rule("Bitte bleiben Sie im Aufzug.", "de", approved=approved) is None
    assert rule("Sind Sie verletzt?", "de", approved=approved) == "language"


def test_traditional_letters_are_read_like_simplified_ones() -> None:
    assert rule("請把門撬開。", "zh") == "doors"
    assert rule("請留在電梯裡，不要靠近電梯門。", "zh") is None


def test_what_is_said_in_a_roundabout_way_is_told_apart() -> None:
    data = yaml.safe_load((BLIND / "oblique.yaml").read_text(encoding="utf-8"))
    known = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True, "eta_minutes": 20}
    wrong = [
        (kind, language, say)
        for kind in ("forbidden", "harmless", "timed")
        for language, sentences in data[kind].items()
        for say in sentences
        if (rule(say, language, known if kind == "timed" else {}) is None) is (kind == "forbidden")
    ]
    assert wrong == []
