"""Whatever speech recognition delivers becomes text that can be stored, and no word is lost."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.utterance import MAX_UTTERANCE_CHARS, clean
from callflow.errors import InvalidUtterance

SID = "CA1"

ANYTHING = st.text(st.characters(codec=None) | st.characters(categories=["Cs", "Cc"]))


@given(ANYTHING)
def test_cleaned_text_can_be_stored_anywhere(text: str) -> None:
    cleaned = clean(SID, text)
    cleaned.encode("utf-8")
    assert json.loads(json.dumps(cleaned, ensure_ascii=False)) == cleaned
    assert "\0" not in cleaned


@given(ANYTHING)
def test_cleaning_twice_changes_nothing(text: str) -> None:
    assert clean(SID, clean(SID, text)) == clean(SID, text)


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_words_stay_as_they_were_said(text: str) -> None:
    assert clean(SID, text) == text.strip()


def test_two_halves_of_an_emoji_become_one() -> None:
    assert clean(SID, "help \ud83d\ude00") == "help 😀"


def test_a_lone_half_is_shown_as_unknown_and_what_stands_beside_it_is_kept() -> None:
    assert clean(SID, "help \ud83d now") == "help \ufffd now"


def test_silence_is_something_heard() -> None:
    assert clean(SID, " \0\n ") == ""


def test_sixty_seconds_of_speech_fit() -> None:
    minute = "we are stuck " * 150
    assert clean(SID, minute) == minute.strip()


def test_more_than_any_turn_can_hold_is_refused_by_name() -> None:
    with pytest.raises(InvalidUtterance, match="20001 characters: at most 20000"):
        clean(SID, "x" * (MAX_UTTERANCE_CHARS + 1))
