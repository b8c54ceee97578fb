"""Dangers that are named are heard; those that are denied are taken out of what was said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.procedures.library import SopLibrary
from callflow.retrieval.corpus import of_library
from callflow.retrieval.evidence import DangerCues

DANGERS = DangerCues(of_library(SopLibrary.load()))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("we are stuck there is no smoke", "we are stuck there is"),
        ("no smoke or fire down there", "down there"),
        ("no smoke and nobody is bleeding", ""),
        ("no hay humo pero no se mueve", "pero no se mueve"),
        ("没有烟门打不开", "门打不开"),
        ("there is smoke", "there is smoke"),
        ("no, there is smoke", "no, there is smoke"),
    ],
)
def test_a_denied_danger_is_taken_out(said: str, left: str) -> None:
    assert DANGERS.without_denied(said) == left


@pytest.mark.parametrize(
    "said",
    [
        "he is not breathing",
        "she isn't breathing properly",
        "there is no pulse",
        "i have no insulin with me",
        "i can't breathe in here",
        "no respira",
        "no le encuentro el pulso",
        "没有呼吸",
        "人没反应了",
        "we can't stop the bleeding",
    ],
)
def test_what_is_dangerous_because_it_is_not_there_stays(said: str) -> None:
    assert DANGERS.without_denied(said) == said


@pytest.mark.parametrize(
    ("said", "topics"),
    [
        ("there is smoke in here", {"fire_smoke"}),
        ("she is not breathing", {"medical"}),
        ("电梯里冒烟了", {"fire_smoke"}),
        ("entra agua y hay humo", {"fire_smoke", "water_flood"}),
        ("no smoke no fire", set()),
        ("we are stuck", set()),
        ("", set()),
    ],
)
def test_whole_key_phrases_of_danger_are_heard(said: str, topics: set[str]) -> None:
    assert set(DANGERS.heard(said)) == topics


@given(st.text(max_size=300))
def test_any_words_lose_nothing_but_words(said: str) -> None:
    left = DANGERS.without_denied(said)
    assert len(left) <= max(len(said), 1) * 18  # a compatibility character may stand for many
    assert DANGERS.heard(said) == DANGERS.heard(said)
