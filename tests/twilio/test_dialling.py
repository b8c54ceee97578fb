"""A machine dials people, and never a public emergency number however it is dressed."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.dialling import NumberRefused, diallable, e164

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


@pytest.mark.parametrize("number", PEOPLE)
def test_the_numbers_of_people_are_dialled(number: str) -> None:
    assert diallable(number) == number


@pytest.mark.parametrize("number", EMERGENCY)
def test_an_emergency_number_is_refused_in_any_dress(number: str) -> None:
    for dress in ("{}", "+{}", " {} ", "tel:{}", "sip:{}@h", "+ {}", "{}#", "00{}"):
        with pytest.raises(NumberRefused, match="public emergency number"):
            diallable(dress.format(number))


@pytest.mark.parametrize("number", EMERGENCY)
def test_a_country_code_does_not_disguise_it(number: str) -> None:
    for country, dress in product(
        COUNTRIES, ("+{}{}", "{}{}", "00{}{}", "+{}0{}", "+{}000000{}", "+{} ({})")
    ):
        with pytest.raises(NumberRefused):
            diallable(dress.format(country, number))


@pytest.mark.parametrize("number", ["+19115550123", "+449991234567", "+4911012345"])
def test_digits_behind_it_do_not_disguise_it_either(number: str) -> None:
    with pytest.raises(NumberRefused, match="public emergency number"):
        diallable(number)


@pytest.mark.parametrize(
    "number",
    ["", "+", "anonymous", "01632960999", "441632960999", "+0441632960999", "+44 1632 960999",
     "+4416329", "+4416329609990000", "+441632960999\n", "+44163296O999", "+٤٤١٦٣٢٩٦٠٩٩٩"],
)  # fmt: skip
def test_what_is_no_number_of_the_whole_world_is_refused(number: str) -> None:
    for check in (e164, diallable):
        with pytest.raises(NumberRefused):
            check(number)


@given(st.text())
def test_a_refusal_is_one_line_of_plain_text(number: str) -> None:
    with pytest.raises(NumberRefused) as caught:
        diallable(number)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
