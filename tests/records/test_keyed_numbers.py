"""A number that was keyed on a relay line comes key by key, a turn each: it is a number still."""

from __future__ import annotations

from typing import Any

from callflow.language.redact import find_private_terms, redact

NUMBER = "07700900123"


def pressed(keys: str) -> list[dict[str, Any]]:
    return [{"role": "caller", "text": "", "digits": key} for key in keys]


def shown(thread: list[dict[str, Any]]) -> list[str | None]:
    record = {"facts": {}, "conversation_thread": thread}
    told = redact({"record": record}, find_private_terms(record))
    return [one.get("digits") for one in told["record"]["conversation_thread"]]


def test_a_number_that_was_keyed_key_by_key_is_a_number() -> None:
    thread = pressed(NUMBER)
    assert find_private_terms({"conversation_thread": thread}).numbers == {NUMBER}
    assert shown(thread) == ["[number]"] * len(NUMBER)


def test_a_reply_or_a_silence_between_two_keys_does_not_part_them() -> None:
    thread = pressed(NUMBER)
    thread.insert(4, {"role": "agent", "text": "One moment."})
    thread.insert(8, {"role": "caller", "text": " "})
    assert find_private_terms({"conversation_thread": thread}).numbers == {NUMBER}
    assert [one for one in shown(thread) if one] == ["[number]"] * len(NUMBER)


def test_keys_that_answer_questions_stay() -> None:
    words = {"role": "caller", "text": "there are two of us"}
    thread = [*pressed("12#12"), words, *pressed("120")]
    assert [one for one in shown(thread) if one] == [*"12#12120"]
    assert find_private_terms({"conversation_thread": thread}).numbers == frozenset()


def test_a_number_that_was_keyed_in_parts_goes_in_parts() -> None:
    thread = [*pressed("")]
    for part in ("07700", "900123", "1"):
        thread.append({"role": "caller", "text": "", "digits": part})
    assert shown(thread) == ["[number]", "[number]", "1"]
