"""The sentences that are said without a procedure: whole in every language, honest and short."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from string import Formatter

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
SPOKEN = {
    (language, name): text
    for language, found in ALL.items()
    for name, text in found.items()
    if not name.startswith(("whisper", "reason_"))
}


def told(language: str, reason: str = "asked", number: str | None = "999") -> str:
    return phrases.whisper(language, "Lift 4", "1 High Street", reason, number)


def test_every_language_of_the_sites_has_every_phrase_and_every_reason() -> None:
    assert set(ALL) == set(LANGUAGES)
    for found in ALL.values():
        assert set(found) == set(ALL["en"])
        reasons = {name for name in found if name.startswith("reason_")}
        assert reasons == {f"reason_{reason}" for reason in REASONS | {"scenario"}}
        assert all(text == text.strip() != "" for text in found.values())


def test_a_human_is_told_once_that_the_caller_is_hard_to_understand() -> None:
    for language, found in ALL.items():
        for reason, added in (("asked", True), ("not_understood", False)):
            told_of = phrases.whisper(language, "4", "High Street", reason, None, unclear=True)
            assert (found["whisper_unclear"] in told_of) is added


def test_only_what_a_human_hears_has_gaps() -> None:
    for language, found in ALL.items():
        for name, text in found.items():
            gaps = {field for _, field, _, _ in Formatter().parse(text) if field is not None}
            assert gaps == PLACES.get(name, set()), (language, name)


def test_no_two_languages_share_a_sentence() -> None:
    texts = [text for found in ALL.values() for text in set(found.values())]
    assert len(texts) == len(set(texts))


def test_a_greeting_says_at_once_that_a_machine_speaks_and_is_over_in_ten_seconds() -> None:
    for language, found in ALL.items():
        for alerting in (False, True):
            greeting = phrases.greeting(language, alerting)
            sentences = re.findall(r"[^.。?？]+[.。?？]", greeting)
            assert AUTOMATED[language] in "".join(sentences[:2])
            assert sentences[-1].strip() == found["ask_first"]
            assert sum(sentence in greeting for sentence in phrases.disclosures(language)) == 1
            assert len(greeting) <= 10 * LETTERS_A_SECOND[language]


def test_only_an_alerting_greeting_speaks_of_a_person() -> None:
    for language, found in ALL.items():
        plain, alerting = found["disclosure"], found["disclosure_alerting"]
        assert plain in phrases.greeting(language, False)
        assert alerting in phrases.greeting(language, True)
        assert alerting not in phrases.greeting(language, False)


def test_no_phrase_takes_longer_than_a_caller_listens() -> None:
    most = {language: LONGEST_S * each for language, each in LETTERS_A_SECOND.items()}
    assert [where for where, text in SPOKEN.items() if len(text) > most[where[0]]] == []


def test_no_phrase_promises_anything() -> None:
    promised = [
        (language, name)
        for language, found in ALL.items()
        for name, text in found.items()
        if re.search(PROMISES[language], text, re.IGNORECASE)
    ]
    assert promised == []


def test_a_whisper_says_who_where_and_why_and_which_key() -> None:
    for language, found in ALL.items():
        for reason in (*sorted(REASONS), "fire", "medical-emergency"):
            whisper = told(language, reason)
            known = reason if reason in REASONS else "scenario"
            assert found[f"reason_{known}"] in whisper
            assert "Lift 4" in whisper
            assert "1 High Street" in whisper
            assert whisper.endswith(found["whisper_key"])
            assert not set("{}") & set(whisper)


def test_the_emergency_number_is_read_digit_by_digit_where_there_is_one() -> None:
    for language, found in ALL.items():
        assert "9 9 9" in told(language, number="999")
        assert "+ 4 4 1 1 2" in told(language, number="+44 112")
        assert "999" not in told(language, number="999")
        spoken = found["whisper_emergency"].split("{")[0]
        assert spoken in told(language)
        assert spoken not in told(language, number=None)


def test_braces_in_an_address_are_said_as_they_are() -> None:
    whisper = phrases.whisper("en", "Lift {0}", "{reason} Street", "asked", None)
    assert "Lift {0}, {reason} Street." in whisper


def test_a_language_tag_finds_its_sentences() -> None:
    tags = {
        **{"en-GB": "en", "EN": "en", "es_MX": "es", "zh-Hant-TW": "zh"},
        **{"cmn-Hans-CN": "zh", "yue-HK": "zh", "fr-FR": "en", "": "en"},
    }
    for tag, language in tags.items():
        assert phrases.generic(tag) == ALL[language], tag
