"""Names and telephone numbers are taken out in every language, and little else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.language.redact import (
    PrivateTerms,
    digits_said,
    find_private_terms,
    redact,
    redact_text,
)


def call(*said: tuple[str, str], **facts: object) -> dict[str, Any]:
    thread = [{"role": role, "text": text} for role, text in said]
    return {"facts": facts, "conversation_thread": thread}


def shown(record: dict[str, Any]) -> list[str]:
    told = find_private_terms(record)
    return [entry["text"] for entry in redact(record, told)["conversation_thread"]]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("call me on 07700 900123 please", "call me on [number] please"),
        ("it's +44 (0)7700-900.123", "it's [number]"),
        ("oh double seven double oh nine oh oh one two three", "[number]"),
        ("seven seven hundred no sorry seven seven zero zero nine", "[number]"),
        ("mi número es seis cero nueve, doce treinta y cuatro", "mi número es [number]"),
        ("电话是一三八零零一三八零零零，我在三楼", "电话是[number]，我在三楼"),
        ("我的号码 １３８００１３８", "我的号码 [number]"),
    ],
)
def test_a_number_goes_however_it_was_said(said: str, expected: str) -> None:
    assert redact_text(said, PrivateTerms()) == expected


@pytest.mark.parametrize(
    "said",
    [
        "lift 204 stuck between 3 and 4 with two people since 9 15",
        "there are twenty of us on floor twelve",
        "estamos dos personas en el piso quince desde las nueve",
        "我们三个人在十二楼，电梯二零四",
        "",
    ],
)
def test_floors_people_and_lifts_stay(said: str) -> None:
    assert redact_text(said, PrivateTerms()) == said


def test_a_name_goes_wherever_it_stands_once_it_was_told() -> None:
    assert shown(
        call(
            ("caller", "my name is Maria Lopez"),
            ("agent", "Thank you, Maria. MARIA, are you hurt?"),
            ("caller", "no, Lopez is my surname, and Mariana is fine"),
        )
    ) == [
        "my name is [name]",
        "Thank you, [name]. [name], are you hurt?",
        "no, [name] is my surname, and Mariana is fine",
    ]
    assert shown(
        call(("agent", "¿Cómo se llama?"), ("caller", "José García"), ("agent", "Gracias, Jose."))
    ) == ["¿Cómo se llama?", "[name]", "Gracias, [name]."]
    assert shown(call(("caller", "我叫王小明"), ("agent", "小明您好"))) == [
        "我叫[name]",
        "[name]您好",
    ]


def test_an_answer_that_is_no_name_stays() -> None:
    said = [("agent", "May I have your name?"), ("caller", "I am stuck please hurry")]
    assert shown(call(*said)) == [text for _, text in said]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("my number is 07700 900123 and I am Leo Smith", "my number is [number] and I am [name]"),
        ("I'm Leo Smith", "I'm [name]"),
        ("this is Leo Smith speaking", "this is [name] speaking"),
        ("soy Juan Pérez y estoy atrapado", "soy [name] y estoy atrapado"),
        ("Me llamo Ana de la Cruz, ayuda", "Me llamo [name], ayuda"),
        ("我是王小明", "我是[name]"),
        ("你好，我是欧阳小明，被困了", "你好，我是[name]，被困了"),
        ("我是张先生", "我是[name]"),
        ("get Dr Anne-Marie van der Berg, please", "get Dr [name], please"),
        ("I'm Dr. Anne-Marie van der Berg", "I'm Dr. [name]"),
    ],
)
def test_a_name_goes_though_nobody_asked_for_it(said: str, expected: str) -> None:
    assert shown(call(("caller", said))) == [expected]


@pytest.mark.parametrize(
    "said",
    [
        "I am stuck",
        "I am scared, this is urgent",
        "I'm in Lift 4, this is Tower B",
        "this is Lift 4 speaking",
        "soy el vecino del piso tres de la torre",
        "我是被困的人",
        "我是高血压",
    ],
)
def test_what_follows_i_am_and_is_no_name_stays(said: str) -> None:
    assert shown(call(("caller", said))) == [said]


def test_small_words_of_a_name_stay_where_they_stand_alone() -> None:
    said = call(("caller", "soy Ana de la Cruz"), ("agent", "Cruz, la puerta de la torre"))
    assert shown(said) == ["soy [name]", "[name], la puerta de la torre"]


def test_names_of_people_of_ours_go_from_all_that_was_written() -> None:
    deed = {"at": 1, "by": "ana.diaz", "n": 5}
    record = {
        "acts": {"urgency": deed, "say": deed},
        "urgency": "P1",
        "notes": [{"id": "1", "by": "bo", "text": "Ana.Diaz rang 07700 900123, this is Lena Roth"}],
        "sayings": [{"id": "2", "by": "bo", "text": "I am Bo, Lena"}],
        "urgency_set": {
            "to": "P1",
            "by": "bo",
            "reason": "bo says",
            "reasons": ["Roth, 07700900123"],
        },
        "alert": {"reason": "asked", "to": "+44 7700 900999", "asked_by": "bo"},
        "retrieved_sop_chunks": [{"sop": "medical", "version": "2026-11-29"}],
        "versions": {"procedures": {"medical": "2026-11-29"}},
    }
    hidden = {"at": 1, "by": "[name]", "n": 5}
    assert redact(record, find_private_terms(record)) == {
        "acts": {"urgency": hidden, "say": hidden},
        "urgency": "P1",
        "notes": [{"id": "1", "by": "[name]", "text": "[name] rang [number], this is [name]"}],
        "sayings": [{"id": "2", "by": "[name]", "text": "I am [name], [name]"}],
        "urgency_set": {
            "to": "P1", "by": "[name]", "reason": "[name] says", "reasons": ["[name], [number]"],
        },
        "alert": {"reason": "asked", "to": "[number]", "asked_by": "[name]"},
        "retrieved_sop_chunks": [{"sop": "medical", "version": "2026-11-29"}],
        "versions": {"procedures": {"medical": "2026-11-29"}},
    }  # fmt: skip


def test_a_number_that_was_told_in_parts_goes_in_parts() -> None:
    record = call(
        ("caller", "oh seven seven"),
        ("caller", "nine hundred one two three four five"),
        ("agent", "So it ends in 345?"),
        callback_number="07790012345",
    )
    assert shown(record) == ["[number]", "[number]", "So it ends in [number]?"]


def test_what_callflow_has_written_itself_stays() -> None:
    record = {
        "site": "tower-1234567",
        "created_at": 1_800_000_000_000,
        "assigned_worker": "w1@host/1234567-aa",
        "facts": {"name": "Ana", "callback_number": "07700900123", "people": 2, "floor": "3"},
        "notes": [{"id": "12345678", "by": "Bo", "at": 1, "text": "Ana called from 07700 900123"}],
        "alert": {"reason": "asked", "to": "+447700900999", "who": "Bo"},
        "urgency_set": {"to": "P1", "by": "Bo"},
        "conversation_thread": [
            {"role": "caller", "text": "", "digits": "12345678", "at": 1},
            {"role": "caller", "text": "", "digits": "1#", "at": 1},
        ],
    }
    assert redact(record, find_private_terms(record)) == {
        "site": "tower-1234567",
        "created_at": 1_800_000_000_000,
        "assigned_worker": "w1@host/1234567-aa",
        "facts": {"name": "[name]", "callback_number": "[number]", "people": 2, "floor": "3"},
        "notes": [
            {"id": "12345678", "by": "[name]", "at": 1, "text": "[name] called from [number]"}
        ],
        "alert": {"reason": "asked", "to": "[number]", "who": "[name]"},
        "urgency_set": {"to": "P1", "by": "[name]"},
        "conversation_thread": [
            {"role": "caller", "text": "", "digits": "[number]", "at": 1},
            {"role": "caller", "text": "", "digits": "1#", "at": 1},
        ],
    }


@given(st.text(max_size=60), st.text("0123456789", min_size=7, max_size=15), st.text(max_size=60))
def test_no_text_hides_a_written_number(before: str, number: str, after: str) -> None:
    assert number not in redact_text(f"{before} {number} {after}", PrivateTerms())


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    digits_said(text)
    told = find_private_terms(call(("caller", text), ("agent", "your name?"), ("caller", text)))
    redact_text(text, told)
