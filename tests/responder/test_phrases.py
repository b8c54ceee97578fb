"""The sentences that are said without a procedure: whole in every language, honest and short."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from string import Formatter

import pytest

from callflow.responder import phrases
from callflow.sites.site import LANGUAGES

ALL: dict[str, dict[str, str]] = json.loads(
    files("callflow.responder").joinpath("phrases.json").read_text(encoding="utf-8")
)
REASONS = {
    *("assist", "asked", "pressed_0", "not_understood"),
    *("no_reply", "poison", "outage", "overload", "limit", "taken_over"),
}
LETTERS_A_SECOND = {"en": 15, "es": 15, "zh": 5}
LONGEST_S = 5
AUTOMATED = {"en": "automated assistant", "es": "asistente automático", "zh": "自动语音助手"}
# Nobody on this side knows when anybody comes, whether they do, or how it ends.
PROMISES = {
    "en": r"on (?:the|their|its) way|\bminutes?\b|\bseconds\b|\bsoon\b(?! as)|"
    r"\bwill (?:be|come|arrive|get|help|open|have|free|rescue)\b|\b(?:is|are) coming\b|"
    r"\b(?:promise|guarantee|safe|rescue|fine|immediately|shortly|right away)\b|don't worry",
    "es": r"en camino|\bminutos?\b|\bsegundos\b|\bpronto\b|\b(?:llegará|vendrá|van a|va a)\b|"
    r"\b(?:prometo|garantiz\w+|seguro|a salvo|rescat\w+|enseguida|inmediatamente)\b|"
    r"no se preocupe",
    "zh": "分钟|秒|很快|就到|正在赶|赶来|保证|一定|安全|救您|放心|没事|别担心|立即|立刻",
}
PLACES = {"whisper": {"lift", "address", "reason"}, "whisper_emergency": {"number"}}
SPOKEN = [
    (language, name)
    for language, found in ALL.items()
    for name in found
    if not name.startswith(("whisper", "reason_"))
]


def told(language: str, reason: str = "asked", number: str | None = "999") -> str:
    return phrases.whisper(language, "Lift 4", "1 High Street", reason, number)


def test_every_language_of_the_sites_has_its_sentences() -> None:
    assert set(ALL) == set(LANGUAGES)


@pytest.mark.parametrize("language", ALL)
def test_every_language_has_every_phrase_and_every_reason(language: str) -> None:
    assert set(ALL[language]) == set(ALL["en"])
    assert {f"reason_{reason}" for reason in REASONS | {"scenario"}} == {
        name for name in ALL[language] if name.startswith("reason_")
    }
    assert all(text == text.strip() != "" for text in ALL[language].values())


@pytest.mark.parametrize("language", ALL)
def test_only_what_a_human_hears_has_gaps(language: str) -> None:
    for name, text in ALL[language].items():
        gaps = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
        assert gaps == PLACES.get(name, set()), name


@pytest.mark.parametrize("language", ALL)
def test_no_two_languages_share_a_sentence(language: str) -> None:
    others = {text for other in ALL if other != language for text in ALL[other].values()}
    assert not others & set(ALL[language].values())


@pytest.mark.parametrize("alerting", [False, True])
@pytest.mark.parametrize("language", ALL)
def test_a_greeting_says_at_once_that_a_machine_speaks(language: str, alerting: bool) -> None:
    greeting = phrases.greeting(language, alerting)
    sentences = re.findall(r"[^.。?？]+[.。?？]", greeting)
    assert AUTOMATED[language] in "".join(sentences[:2])
    assert sentences[-1].strip() == ALL[language]["ask_first"]
    assert sum(sentence in greeting for sentence in phrases.disclosures(language)) == 1


@pytest.mark.parametrize("language", ALL)
def test_only_an_alerting_greeting_speaks_of_a_person(language: str) -> None:
    plain, alerting = ALL[language]["disclosure"], ALL[language]["disclosure_alerting"]
    assert plain in phrases.greeting(language, False)
    assert alerting in phrases.greeting(language, True)
    assert alerting not in phrases.greeting(language, False)


@pytest.mark.parametrize("language", ALL)
def test_a_greeting_is_over_in_ten_seconds(language: str) -> None:
    for alerting in (False, True):
        assert len(phrases.greeting(language, alerting)) <= 10 * LETTERS_A_SECOND[language]


@pytest.mark.parametrize(("language", "name"), SPOKEN)
def test_no_phrase_takes_longer_than_a_caller_listens(language: str, name: str) -> None:
    assert len(ALL[language][name]) <= LONGEST_S * LETTERS_A_SECOND[language]


@pytest.mark.parametrize("language", ALL)
def test_no_phrase_promises_anything(language: str) -> None:
    promise = re.compile(PROMISES[language], re.IGNORECASE)
    promised = {name: text for name, text in ALL[language].items() if promise.search(text)}
    assert not promised


@pytest.mark.parametrize("language", ALL)
@pytest.mark.parametrize("reason", [*sorted(REASONS), "fire", "medical-emergency"])
def test_a_whisper_says_who_where_and_why_and_which_key(language: str, reason: str) -> None:
    whisper = told(language, reason)
    known = reason if reason in REASONS else "scenario"
    assert ALL[language][f"reason_{known}"] in whisper
    assert "Lift 4" in whisper
    assert "1 High Street" in whisper
    assert whisper.endswith(ALL[language]["whisper_key"])
    assert not set("{}") & set(whisper)


@pytest.mark.parametrize("language", ALL)
def test_the_emergency_number_is_read_digit_by_digit(language: str) -> None:
    assert "9 9 9" in told(language, number="999")
    assert "+ 4 4 1 1 2" in told(language, number="+44 112")
    assert "999" not in told(language, number="999")


@pytest.mark.parametrize("language", ALL)
def test_without_an_emergency_number_none_is_spoken_of(language: str) -> None:
    spoken = ALL[language]["whisper_emergency"].split("{")[0]
    assert spoken in told(language)
    assert spoken not in told(language, number=None)


def test_braces_in_an_address_are_said_as_they_are() -> None:
    whisper = phrases.whisper("en", "Lift {0}", "{reason} Street", "asked", None)
    assert "Lift {0}, {reason} Street." in whisper


@pytest.mark.parametrize(
    ("tag", "language"),
    [("en-GB", "en"), ("EN", "en"), ("es_MX", "es"), ("zh-Hant-TW", "zh"), ("cmn-Hans-CN", "zh"),
     ("yue-HK", "zh"), ("fr-FR", "en"), ("", "en")],
)  # fmt: skip
def test_a_language_tag_finds_its_sentences(tag: str, language: str) -> None:
    assert phrases.generic(tag) == ALL[language]
