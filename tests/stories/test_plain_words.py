"""How people in a lift begin and go on, in words of no list: each kind is heard as it is meant."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from callflow.call.record import CallRecord
from tests.conversations import talk

BEGUN = {
    "en": ("we're stuck in the lift", "two of us"),
    "es": ("estamos atrapados en el ascensor", "somos dos"),
    "zh": ("我们被困在电梯里了", "两个人"),
}


def _lines() -> dict[str, list[tuple[str, str]]]:
    """By kind: language and words."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    kind = ""
    text = (Path(__file__).parent / "data" / "plain_words.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        if line.startswith("["):
            kind = line.strip("[]")
        elif line:
            language, _, words = line.partition("\t")
            found[kind].append((language, words))
    return found


LINES = _lines()


def _first(language: str, words: str) -> CallRecord:
    return talk([words], language if language in BEGUN else "en")[-1][1]


def _later(language: str, words: str) -> tuple[CallRecord, CallRecord]:
    """Before and after the words."""
    *_, (_, before), (_, after) = talk([*BEGUN[language], words], language)
    return before, after


def test_who_tells_no_danger_begins_a_plain_entrapment() -> None:
    wrong = [
        f"{words}: {call.scenario_type} {call.urgency}"
        for language, words in LINES["openings"]
        if (call := _first(language, words)).scenario_type != "entrapment_standard"
        or call.urgency != "P3"
    ]
    assert not wrong


def test_what_is_said_in_mid_call_moves_and_raises_nothing() -> None:
    wrong = []
    for language, words in LINES["midcall"]:
        before, after = _later(language, words)
        if (before.open_scenarios, before.urgency) != (after.open_scenarios, after.urgency):
            wrong.append(f"{words}: {after.open_scenarios} {after.urgency}")
    assert not wrong


def test_who_is_not_out_is_not_taken_to_be_out() -> None:
    wrong = []
    for language, words in LINES["notclear"]:
        _, after = _later(language, words)
        if after.scenario_type == "self_released" or after.facts.get("trapped") is False:
            wrong.append(f"{words}: {after.scenario_type} {after.facts}")
    assert not wrong


def test_who_is_out_is_heard_and_asked_once_more() -> None:
    wrong = []
    for language, words in LINES["clear"]:
        _, after = _later(language, words)
        confirmed = after.analysis is not None and after.analysis.confirm is not None
        if after.scenario_type != "self_released" and not confirmed:
            wrong.append(f"{words}: {after.scenario_type}")
    assert not wrong


def test_dangers_are_heard_at_first_and_in_mid_call() -> None:
    wrong = [
        words for language, words in LINES["danger"] if _first(language, words).urgency != "P1"
    ]
    wrong += [
        f"in mid-call: {words}"
        for language, words in LINES["danger"]
        if language in BEGUN and _later(language, words)[1].urgency != "P1"
    ]
    assert not wrong


def test_dangers_that_are_denied_raise_nothing() -> None:
    wrong = [words for language, words in LINES["safe"] if _first(language, words).urgency == "P1"]
    wrong += [
        f"in mid-call: {words}"
        for language, words in LINES["safe"]
        if _later(language, words)[1].urgency == "P1"
    ]
    assert not wrong
