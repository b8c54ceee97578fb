"""A call's language reaches Twilio under the names that Twilio has for it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.locale import relay_tag, say_tag, speech_tag


@pytest.mark.parametrize(
    ("language", "recognised", "spoken"),
    [
        ("en-GB", "en-GB", "en-GB"),
        ("en", "en-GB", "en-GB"),
        ("en_us", "en-US", "en-US"),
        ("es", "es-ES", "es-ES"),
        ("es-MX", "es-MX", "es-MX"),
        ("es-419", "es-ES", "es-ES"),
        ("zh", "cmn-Hans-CN", "zh-CN"),
        ("zh-CN", "cmn-Hans-CN", "zh-CN"),
        ("zh-Hans", "cmn-Hans-CN", "zh-CN"),
        ("zh-SG", "cmn-Hans-CN", "zh-CN"),
        ("cmn-Hans-CN", "cmn-Hans-CN", "zh-CN"),
        ("zh-TW", "cmn-Hant-TW", "zh-TW"),
        ("zh-Hant", "cmn-Hant-TW", "zh-TW"),
        ("zh-HK", "yue-Hant-HK", "zh-HK"),
        ("yue", "yue-Hant-HK", "zh-HK"),
        ("fr", "fr-FR", "fr-FR"),
        ("pt-BR", "pt-BR", "pt-BR"),
        ("sw-KE", "sw-KE", "sw-KE"),
        (" EN-gb ", "en-GB", "en-GB"),
        ("tlh", "en-GB", "en-GB"),
        ("", "en-GB", "en-GB"),
        ("multi lingual", "en-GB", "en-GB"),
    ],
)
def test_each_service_gets_its_own_name(language: str, recognised: str, spoken: str) -> None:
    assert speech_tag(language) == recognised
    assert say_tag(language) == spoken
    assert relay_tag(language) == spoken


@given(st.text())
def test_any_text_gives_a_tag_with_a_region(language: str) -> None:
    for tag in (speech_tag(language), say_tag(language), relay_tag(language)):
        assert re.fullmatch(r"[a-z]{2,3}(-Han[st])?-[A-Z]{2}", tag)
