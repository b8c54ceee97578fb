"""A number is set so that its calls reach us; doing it twice changes nothing."""

from __future__ import annotations

import json

import pytest

from callflow.twilio.phone_numbers import NumberRefused
from callflow.twilio.rest import (
    HeldNumber,
    Numbers,
    NumberSettings,
    TelephoneError,
    UnknownNumber,
    UselessFallback,
    wanted_settings,
)
from tests.twilio.rest_api import ACCOUNT, TOKEN, Answer, Asked, RestApi

NUMBER = "+441632960010"
BIN = "https://handler.twilio.com/twiml/EH1"


def holding(api: RestApi, **settings: str | None) -> dict[str, str | None]:
    """Have the account hold NUMBER and one that contains it; return the settings as they change."""
    held: dict[str, str | None] = {"sid": "PN1", "phone_number": NUMBER, **settings}

    def answer(asked: Asked) -> Answer:
        if asked.method == "GET":
            longer = {"sid": "PN2", "phone_number": f"{NUMBER}5"}
            found = [longer, held] if asked.query["PhoneNumber"] == [NUMBER] else []
            return 200, json.dumps({"incoming_phone_numbers": found, "page_size": 20})
        assert asked.path.endswith("/IncomingPhoneNumbers/PN1.json")
        names = {name: "".join(f"_{c.lower()}" if c.isupper() else c for c in name)[1:]
                 for name in asked.form}  # fmt: skip
        held.update({names[name]: value for name, (value,) in asked.form.items()})
        return 200, json.dumps(held)

    api.answer = answer
    return held


@pytest.fixture
def numbers(api: RestApi) -> Numbers:
    return Numbers(ACCOUNT, TOKEN, api.url)


def test_calls_and_their_end_come_to_us_with_overrides() -> None:
    settings = wanted_settings("https://h.example/lifts", BIN)
    assert settings.voice_url == (
        "https://h.example/lifts/voice/inbound#ct=1000&rt=3000&tt=15000&rc=2&rp=all"
    )
    assert settings.status_callback.startswith("https://h.example/lifts/voice/status#ct=")
    assert settings.voice_fallback_url == BIN
    assert (settings.voice_method, settings.status_callback_method) == ("POST", "POST")
    own = wanted_settings("https://h.example").voice_fallback_url
    assert own.startswith("https://h.example/voice/fallback#ct=")


def test_a_fallback_that_twilio_could_not_ask_is_refused() -> None:
    for url in ("", "http://h.example/x", "handler.twilio.com/twiml/EH1", "ftp:x"):
        with pytest.raises(UselessFallback, match="https://"):
            wanted_settings("https://h.example", url)


def test_what_differs_is_set_and_nothing_else(api: RestApi, numbers: Numbers) -> None:
    held = holding(
        api,
        voice_url="https://old.example/voice",
        voice_method="GET",
        status_callback=None,
        status_callback_method="POST",
        voice_fallback_method="POST",
        trunk_sid="TK1",
        friendly_name="Lift 5",
    )
    settings = wanted_settings("https://h.example", BIN)
    found = numbers.read(NUMBER)
    assert found.sid == "PN1"
    assert found.settings.voice_url == "https://old.example/voice"
    changes = numbers.change(found, settings)
    assert changes == settings.other_than(found.settings)
    assert changes.keys() == {
        "voice_url", "voice_method", "status_callback", "voice_fallback_url", "trunk_sid"
    }  # fmt: skip
    # A trunk would keep every call from us, whatever the addresses are.
    assert held["trunk_sid"] == ""
    assert held["voice_url"] == settings.voice_url
    assert held["friendly_name"] == "Lift 5"
    assert set(api.last.form) == {
        "VoiceUrl", "VoiceMethod", "StatusCallback", "VoiceFallbackUrl", "TrunkSid"
    }  # fmt: skip


def test_setting_it_twice_asks_nothing_the_second_time(api: RestApi, numbers: Numbers) -> None:
    holding(api)
    settings = wanted_settings("https://h.example", BIN)
    assert numbers.change(numbers.read(NUMBER), settings)
    asked = len(api.asked)
    assert numbers.change(numbers.read(NUMBER), settings) == {}
    assert [each.method for each in api.asked[asked:]] == ["GET"]


def test_a_number_of_somebody_else_is_named(api: RestApi, numbers: Numbers) -> None:
    holding(api)
    with pytest.raises(UnknownNumber, match=rf"{ACCOUNT} has no number \+441632960011"):
        numbers.read("+441632960011")
    with pytest.raises(NumberRefused):
        numbers.read("01632960010")


def test_a_list_that_is_refused_tells_whether_to_ask_again(api: RestApi, numbers: Numbers) -> None:
    for status, code, retry in ((429, 20429, True), (503, 20503, True), (401, 20003, False)):
        api.refuses(status, code, f"Not so, {TOKEN}")
        with pytest.raises(TelephoneError, match=rf"\({status}, error {code}\)") as caught:
            numbers.read(NUMBER)
        assert (caught.value.status, caught.value.code, caught.value.retry) == (status, code, retry)
        assert TOKEN not in str(caught.value)


def test_what_is_not_set_is_blank() -> None:
    assert NumberSettings().other_than(HeldNumber("PN1", NumberSettings()).settings) == {}
