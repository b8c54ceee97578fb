"""Dangers are heard in every language by words and symptoms, and calm sentences raise nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.facts import DANGERS
from callflow.language.danger import dangers, foreign_dangers

CASES = Path(__file__).with_name("danger_cases.txt").read_text(encoding="utf-8").splitlines()
ROWS = [line.split(": ", 1) for line in CASES if line and not line.startswith("#")]


def test_reported_dangers_are_heard() -> None:
    missed = [
        (wanted, said, dangers(said, "en"))
        for wanted, said in ROWS
        if wanted != "-" and not dangers(said, "en") & set(wanted.split("|"))
    ]
    assert not missed


def test_ordinary_sentences_raise_nothing() -> None:
    raised = [(said, found) for w, said in ROWS if w == "-" and (found := dangers(said, "en"))]
    assert not raised


@pytest.mark.parametrize("language", ["en", "zh-CN", "es", "xx", ""])
def test_a_wrong_language_tag_hides_no_danger(language: str) -> None:
    assert dangers("着火了", language) == {"fire"}
    assert dangers("hay humo", language) == {"smoke"}
    assert dangers("he has a knife", language) == {"violence"}


@pytest.mark.parametrize(
    ("said", "danger"),
    [
        ("불이 났어요", "fire"),
        ("연기가 나요", "smoke"),
        ("숨을 안 쉬어요", "medical"),
        ("आग लग गई", "fire"),
        ("det brinner här", "fire"),
        ("der er brand her", "fire"),
    ],
)
def test_a_danger_is_heard_in_a_language_that_we_do_not_speak(said: str, danger: str) -> None:
    assert danger in foreign_dangers(said)


def test_a_denial_takes_back_what_it_denies_and_no_more() -> None:
    assert not dangers("no smoke no fire or water nothing like that", "en")
    assert dangers("no fire, there is smoke", "en") == {"smoke"}
    assert dangers("no. he is bleeding", "en") == {"medical"}
    assert dangers("No, hay humo", "es") == {"smoke"}
    assert dangers("没有火，有烟", "zh") == {"smoke"}
    assert dangers("no smoke at first but now there is smoke", "en") == {"smoke"}


def test_several_dangers_in_one_breath_are_all_heard() -> None:
    found = dangers("there's smoke and my wife has fainted and we're prying the doors open", "en")
    assert found == {"smoke", "medical", "forcing_doors"}


@given(st.text())
def test_any_text_is_understood_without_an_error(text: str) -> None:
    assert dangers(text, "en") <= set(DANGERS)


@given(st.lists(st.sampled_from(" ".join(said for _, said in ROWS).split()), max_size=40))
def test_any_jumble_of_words_is_understood_without_an_error(words: list[str]) -> None:
    assert dangers(" ".join(words), "en") <= set(DANGERS)
