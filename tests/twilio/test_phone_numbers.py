"""A machine dials people, and never a public emergency number however it is dressed."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.phone_numbers import NumberRefused, diallable, e164

EMERGENCY = ["112", "911", "999", "110", "119", "120", "000", "111", "122", "15", "17", "18", "933"]
COUNTRIES = ["1", "44", "49", "33", "34", "39", "61", "64", "65", "86", "81", "852", "353", "420"]
PEOPLE = [
    "+441632960999",
    "+12025550123",
    "+8613912345678",
    "+861088888888",
    "+34911234567",
    "+6560000123",
    "+85299912345",
    "+33112345678",
    "+61399999999",
    "+493012345678",
    "+390612345678",
    "+18005550911",
    "+441632000999",
    "+2902345678",
]


def refused(number: str) -> str | None:
    """Why a machine does not dial it; None where it does."""
    try:
        assert diallable(number) == number
    except NumberRefused as error:
        return str(error)
    return None


def test_the_numbers_of_people_are_dialled() -> None:
    assert {number: refused(number) for number in PEOPLE} == dict.fromkeys(PEOPLE)


def test_an_emergency_number_is_refused_in_any_dress() -> None:
    dresses = ("{}", "+{}", " {} ", "tel:{}", "sip:{}@h", "+ {}", "{}#", "00{}")
    dressed = [dress.format(number) for number, dress in product(EMERGENCY, dresses)]
    behind = ["+19115550123", "+449991234567", "+4911012345"]  # Digits behind it do not hide it.
    told = {number: refused(number) for number in dressed + behind}
    assert not {n: why for n, why in told.items() if "public emergency number" not in str(why)}


def test_a_country_code_does_not_disguise_it() -> None:
    dresses = ("+{}{}", "{}{}", "00{}{}", "+{}0{}", "+{}000000{}", "+{} ({})")
    dressed = [
        dress.format(country, number)
        for number, country, dress in product(EMERGENCY, COUNTRIES, dresses)
    ]
    assert not [number for number in dressed if refused(number) is None]


def test_what_is_no_number_of_the_whole_world_is_refused() -> None:
    local = (
        "", "+", "anonymous", "01632960999", "441632960999", "+0441632960999", "+44 1632 960999",
     "+4416329", "+4416329609990000", "+441632960999\n", "+44163296O999", "+٤٤١٦٣٢٩٦٠٩٩٩",
    )  # fmt: skip
    for number, check in product(local, (e164, diallable)):
        with pytest.raises(NumberRefused):
            check(number)


@given(st.text())
def test_a_refusal_is_one_line_of_plain_text(number: str) -> None:
    with pytest.raises(NumberRefused) as caught:
        diallable(number)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
