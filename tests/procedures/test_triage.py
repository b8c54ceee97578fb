"""What an utterance makes of a call: the gravest scenario first, and no way down by hints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.call.facts import DANGERS
from callflow.call.urgency import Urgency
from callflow.procedures.document import DEFAULT_SCENARIO, SILENT_SCENARIO
from callflow.procedures.library import SopLibrary
from callflow.procedures.triage import (
    HINTED,
    RELEASED,
    SCENARIO_OF,
    Scored,
    Signs,
    Triage,
    procedures,
    triage,
)

URGENCIES: dict[str, Urgency] = {
    document.id: document.front.urgency for document in SopLibrary.load().documents.values()
}
SCENARIOS = sorted(URGENCIES)


def _scored(*likely: tuple[str, float], danger: float = 0.0) -> Signs:
    return Signs(Scored(likely, danger))


def _after(signs: Signs, *open_now: str) -> Triage:
    before = Triage()
    for name in reversed(open_now):
        before = triage(_scored((name, 1.0)), before, URGENCIES)
    return triage(signs, before, URGENCIES)


def test_nothing_known_is_a_result_and_asks_what_must_be_known_of_anybody() -> None:
    found = _after(_scored(("panic_claustrophobia", 0.1), ("earthquake", 0.05)))
    assert found == Triage()
    assert procedures(found) == (DEFAULT_SCENARIO,)


def test_a_likely_scenario_is_what_the_call_is_about() -> None:
    assert _after(_scored(("power_failure", 0.6))) == Triage(
        "power_failure", ("power_failure",), "P3"
    )


def test_a_graver_scenario_comes_first_and_the_other_stays_open() -> None:
    found = _after(_scored(("medical", 0.8)), "entrapment_standard")
    assert found == Triage("medical", ("medical", "entrapment_standard"), "P1")


def test_what_was_spoken_of_last_comes_first_among_equals() -> None:
    found = _after(_scored(("eta_callback", 0.9)), "power_failure")
    assert found.open == ("eta_callback", "power_failure")
    again = triage(_scored(("power_failure", 0.9)), found, URGENCIES)
    assert again.open == ("power_failure", "eta_callback")


def test_stray_words_in_the_middle_of_a_call_open_nothing() -> None:
    assert _after(_scored(("vandalism_prank", 0.4)), "medical").open == ("medical",)


def test_a_word_for_a_danger_opens_its_procedure_on_little_other_evidence() -> None:
    for danger, scenario in SCENARIO_OF.items():
        likely = (("test_call_engineer", 0.9), (scenario, HINTED))
        heard = Signs(Scored(likely, HINTED), frozenset({danger}))
        found = _after(heard, "entrapment_standard")
        assert scenario in found.open
        assert found.urgency == min(URGENCIES[scenario], "P3")
        assert scenario not in _after(Signs(Scored(likely, HINTED)), "entrapment_standard").open
    assert set(SCENARIO_OF) == set(DANGERS)


def test_a_word_for_a_danger_alone_is_none() -> None:
    heard = Signs(Scored((("test_call_engineer", 0.99),), 0.01), frozenset(DANGERS))
    assert _after(heard, "entrapment_standard").urgency == "P3"


def test_a_likely_danger_to_life_opens_the_likeliest_of_them() -> None:
    found = _after(
        _scored(("door_malfunction", 0.45), ("limb_or_clothing_trapped", 0.4), danger=0.6)
    )
    assert found.scenario == "limb_or_clothing_trapped"
    assert found.urgency == "P1"


def test_only_an_all_clear_lowers_the_urgency_and_never_that_of_a_danger_to_life() -> None:
    lower = _scored(("accidental_press", 1.0))
    assert _after(lower, "entrapment_partial_opening").urgency == "P2"
    out = Signs(Scored(), released=True)
    assert _after(out, "entrapment_partial_opening") == Triage(RELEASED, (RELEASED,), "P4")
    hurt = _after(out, "medical", "entrapment_standard")
    assert hurt == Triage("medical", ("medical", RELEASED), "P1")


def test_silence_changes_nothing_but_an_open_line() -> None:
    silence = Signs(Scored(), silent=True)
    assert _after(silence).scenario == SILENT_SCENARIO
    assert _after(silence, "medical").open == ("medical",)
    voice = triage(_scored(("power_failure", 0.9)), _after(silence), URGENCIES)
    assert voice.open == ("power_failure",)


def test_a_scenario_that_an_operator_has_no_procedure_for_is_never_opened() -> None:
    few: dict[str, Urgency] = {DEFAULT_SCENARIO: "P3"}
    signs = Signs(Scored((("medical", 0.9),), 0.9), frozenset({"fire"}))
    assert triage(signs, Triage(), few) == Triage()


def shares_of(each: list[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """What a search may give: best first, together at most 1."""
    total = max(1.0, sum(share for _, share in each))
    ranked = sorted(each, key=lambda one: -one[1])
    return tuple((name, share / total) for name, share in ranked)


SIGNS = st.builds(
    Signs,
    st.builds(
        Scored,
        st.lists(
            st.tuples(st.sampled_from([*SCENARIOS, "gone"]), st.floats(0, 1)),
            max_size=4,
            unique_by=lambda each: each[0],
        ).map(shares_of),
        st.floats(0, 1),
    ),
    dangers=st.frozensets(st.sampled_from(DANGERS), max_size=3),
    answered=st.frozensets(st.sampled_from(DANGERS), max_size=1),
    released=st.booleans(),
    silent=st.booleans(),
)


@given(st.lists(SIGNS, max_size=6))
def test_urgency_falls_by_an_all_clear_alone_and_the_same_words_open_nothing_twice(
    heard: list[Signs],
) -> None:
    now = Triage()
    for signs in heard:
        then = triage(signs, now, URGENCIES)
        again = triage(signs, then, URGENCIES)
        assert (set(again.open), again.urgency) == (set(then.open), then.urgency)
        if now.urgency is not None and not (signs.released and not signs.silent):
            assert then.urgency is not None
            assert then.urgency <= now.urgency
        if now.urgency == "P1" and any(URGENCIES[name] == "P1" for name in now.open):
            assert then.urgency == "P1"
        assert list(then.open) == sorted(then.open, key=lambda name: URGENCIES[name])
        assert then.scenario == (then.open[0] if then.open else None)
        assert "gone" not in then.open
        now = then


def test_a_key_phrase_and_a_word_for_a_danger_raise_whatever_else_was_said_around_them() -> None:
    scored = Scored((("entrapment_standard", 0.98),), 0.01, frozenset({"fire_smoke"}))
    assert _after(Signs(scored, frozenset({"smoke"}))).urgency == "P1"
    assert _after(Signs(scored)).urgency == "P3"


def test_a_danger_that_answers_our_question_needs_no_other_evidence() -> None:
    found = _after(Signs(Scored(), answered=frozenset({"medical"})), "entrapment_standard")
    assert found == Triage("medical", ("medical", "entrapment_standard"), "P1")


def test_who_says_that_it_was_a_mistake_is_not_told_how_to_leave() -> None:
    mistake = Signs(Scored((("accidental_press", 0.9),)), released=True)
    assert _after(mistake, "entrapment_standard") == Triage(
        "accidental_press", ("accidental_press",), "P5"
    )


def test_who_is_out_and_hurt_is_not_over() -> None:
    out = Signs(Scored((("medical", 0.6), ("self_released", 0.3)), 0.6), released=True)
    assert _after(out, "entrapment_standard") == Triage("medical", ("medical", RELEASED), "P1")
