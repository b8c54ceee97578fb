"""Documents are valid whatever is in them, within Twilio's limits, and never lose the caller."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.phone_numbers import NumberRefused
from callflow.twilio.speech import clean
from callflow.twilio.twiml import Twiml, TwimlError, TwimlTooLong

ANYTHING = st.text(st.characters(exclude_categories=[]), max_size=600)
ACTION = "https://h.example/voice/turn?n=2&u=%3C%26%22#ct=1000&rp=all"


def read(twiml: Twiml) -> ET.Element:
    """The document as Twilio's parser has it."""
    root = ET.fromstring(twiml.xml().encode())
    assert root.tag == "Response"
    return root


def only(twiml: Twiml, path: str) -> ET.Element:
    found = read(twiml).findall(path)
    assert len(found) == 1
    return found[0]


def words(element: ET.Element) -> list[str]:
    return " ".join(each.text or "" for each in element.iter("Say")).split()


@given(ANYTHING)
def test_what_is_said_comes_through_word_for_word(text: str) -> None:
    for twiml in (
        Twiml("en").say(text),
        Twiml("en").gather(text, action=ACTION),
        Twiml("en").key(text, action=ACTION),
    ):
        assert words(read(twiml)) == clean(text).split()


def test_hard_text_is_spoken_as_it_is_written() -> None:
    for text in (
        "Is there <smoke> & fire? \"yes\" 'no' ]]> <!-- -->",
        "🚒 🧑‍🚒 👩🏽‍🦽",
        "לא לפתוח את הדלתות \u200f(123)\u200e",
        "请不要扒门，也不要往外爬。",
        "&lt;Hangup/&gt;",
        "{{From}}",
    ):
        assert only(Twiml("en").say(text), "Say").text == text


@given(st.lists(st.sampled_from(["word ", "字。", "🚒"]), max_size=400))
def test_no_say_is_longer_than_twilio_takes(parts: list[str]) -> None:
    root = read(Twiml("zh").say("".join(parts) * 10))
    assert all(0 < len(say.text or "") <= 4_096 for say in root.iter("Say"))
    assert {say.get("language") for say in root.iter("Say")} <= {"zh-CN"}


def test_a_gather_hears_speech_and_a_key_and_silence() -> None:
    gather = only(Twiml("zh").gather("您好", action=ACTION, timeout_s=7), "Gather")
    assert gather.attrib == {
        "input": "speech dtmf",
        "action": ACTION,
        "timeout": "7",
        "speechTimeout": "auto",
        "language": "cmn-Hans-CN",
        "profanityFilter": "false",
        "actionOnEmptyResult": "true",
        "numDigits": "1",
        "finishOnKey": "",
    }
    assert [child.tag for child in gather] == ["Say"]


def test_a_human_is_asked_for_one_key() -> None:
    gather = only(Twiml("en-GB").key("Press 1.", action=ACTION, timeout_s=8), "Gather")
    assert gather.attrib == {
        "input": "dtmf",
        "action": ACTION,
        "timeout": "8",
        "actionOnEmptyResult": "true",
        "numDigits": "1",
        "finishOnKey": "",
    }


def test_verbs_stand_in_the_order_in_which_they_were_added() -> None:
    twiml = Twiml("en").say("One.").pause(2).gather("Two?", action=ACTION).redirect(ACTION)
    root = read(twiml.hangup())
    assert [verb.tag for verb in root] == ["Say", "Pause", "Gather", "Redirect", "Hangup"]
    assert root[1].get("length") == "2"
    assert root[3].text == ACTION


def test_nothing_to_say_leaves_no_empty_say() -> None:
    assert list(read(Twiml("en").say(" \x00"))) == []
    assert list(only(Twiml("en").gather("", action=ACTION), "Gather")) == []


def test_a_conference_ends_with_either_of_the_two_and_is_silent() -> None:
    for twiml in (
        Twiml("en").conference("CA1", action=ACTION),
        Twiml("en").conference("CA1", human=True),
    ):
        assert only(twiml, "Dial/Conference").text == "CA1"
        assert only(twiml, "Dial/Conference").attrib == {
            "startConferenceOnEnter": "true",
            "endConferenceOnExit": "true",
            "beep": "false",
            "waitUrl": "",
        }
    assert only(Twiml("en").conference("CA1", action=ACTION), "Dial").get("action") == ACTION
    assert only(Twiml("en").conference("CA1", human=True), "Dial").attrib == {}


def test_a_caller_is_never_left_without_a_way_back_from_a_conference() -> None:
    with pytest.raises(TwimlError, match="would be lost"):
        Twiml("en").conference("CA1")


def test_a_number_is_rung_with_a_whisper_for_who_picks_up() -> None:
    twiml = Twiml("en").dial(
        "+441632960999",
        action=ACTION,
        timeout_s=20,
        caller_id="+441632960010",
        whisper_url="https://h.example/voice/human?call=CA1",
    )
    dial = {"action": ACTION, "timeout": "20", "callerId": "+441632960010"}
    assert only(twiml, "Dial").attrib == dial
    number = only(twiml, "Dial/Number")
    assert number.text == "+441632960999"
    assert number.attrib == {"url": "https://h.example/voice/human?call=CA1"}


def test_no_document_dials_an_emergency_number() -> None:
    for number in ("999", "+44999", "01632960999", "anonymous"):
        with pytest.raises(NumberRefused):
            Twiml("en").dial(number, action=None, timeout_s=20)


def test_a_relay_speaks_and_hears_the_language_of_the_call() -> None:
    twiml = Twiml("zh").relay(
        "wss://h.example/voice/relay",
        action=ACTION,
        greeting="您好 <1>",
        parameters={"site": "L-1", "note": "a & \x00b"},
    )
    assert only(twiml, "Connect").attrib == {"action": ACTION}
    assert only(twiml, "Connect/ConversationRelay").attrib == {
        "url": "wss://h.example/voice/relay",
        "language": "zh-CN",
        "ttsLanguage": "zh-CN",
        "transcriptionLanguage": "zh-CN",
        "profanityFilter": "false",
        "dtmfDetection": "true",
        "interruptible": "any",
        "reportInputDuringAgentSpeech": "any",
        "partialPrompts": "true",
        "events": "tokens-played",
        "welcomeGreeting": "您好 <1>",
        "welcomeGreetingInterruptible": "any",
    }
    parameters = read(twiml).findall("Connect/ConversationRelay/Parameter")
    assert [each.attrib for each in parameters] == [
        {"name": "site", "value": "L-1"},
        {"name": "note", "value": "a &  b"},
    ]


def test_a_relay_that_goes_on_with_a_call_does_not_greet_again() -> None:
    twiml = Twiml("en").relay("wss://h/r", action=ACTION, greeting=None, parameters={})
    assert not any(
        name.startswith("welcome") for name in only(twiml, "Connect/ConversationRelay").attrib
    )


@given(ANYTHING, ANYTHING)
def test_attributes_take_any_text(greeting: str, value: str) -> None:
    twiml = Twiml("en").relay(
        "wss://h/r", action=ACTION, greeting=greeting, parameters={"value": value}
    )
    assert only(twiml, "Connect/ConversationRelay").get("welcomeGreeting") == clean(greeting)
    assert only(twiml, "Connect/ConversationRelay/Parameter").get("value") == clean(value)


def test_a_document_can_go_on_with_itself() -> None:
    assert "action" not in only(Twiml("en").again(), "Gather").attrib
    assert only(Twiml("en").again(), "Gather").get("actionOnEmptyResult") == "true"


def test_a_document_that_twilio_would_refuse_is_not_sent() -> None:
    assert Twiml("en").say("word " * 500).xml()
    with pytest.raises(TwimlTooLong) as caught:
        Twiml("en").say("word " * 13_000).xml()
    assert caught.value.limit == 64_000 < caught.value.size
    assert "word" not in str(caught.value)


def test_a_second_document_of_the_same_is_the_same() -> None:
    twiml = Twiml("en").gather("Hello?", action=ACTION).redirect(ACTION)
    assert twiml.xml() == twiml.xml()
