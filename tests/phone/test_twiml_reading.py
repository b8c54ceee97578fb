"""What a carrier reads in a document, and what it refuses, with Twilio's defaults."""

from __future__ import annotations

import pytest
from twilio.twiml.voice_response import VoiceResponse

from callflow.lab.carrier.app_network import AddressRefused, Network, Target, TwimlRefused
from callflow.lab.carrier.phone_line import speech_seconds, spoken_part
from callflow.lab.carrier.twiml_parser import (
    Conference,
    Dial,
    DialledNumber,
    Gather,
    Hangup,
    Pause,
    Redirect,
    Relay,
    Say,
    parse,
)


def verb(text: str) -> object:
    return parse(f"<Response>{text}</Response>", None).verbs[0]


def test_a_gather_has_twilios_defaults() -> None:
    gather = verb("<Gather/>")
    assert isinstance(gather, Gather)
    assert (gather.keys, gather.speech, gather.timeout_s, gather.finish_on) == (True, False, 5, "#")
    assert (gather.empty_too, gather.barge_in, gather.num_digits) == (False, True, None)


def test_without_speech_timeout_each_sentence_is_followed_by_the_whole_timeout() -> None:
    waits, notices = (
        verb(f'<Gather input="speech" {how}/>') for how in ('timeout="3"', 'speechTimeout="auto"')
    )
    assert isinstance(waits, Gather)
    assert isinstance(notices, Gather)
    assert (waits.speech_timeout_s, notices.speech_timeout_s) == (3, None)


def test_what_twilios_own_generator_writes_is_understood() -> None:
    document = VoiceResponse()
    gather = document.gather(input="speech dtmf", action="https://a.example/t?n=1&k=2", timeout=4)
    gather.say("Tom & <Jerry> 你好", language="en-GB")
    gather.pause(length=2)
    document.redirect("https://a.example/t")
    document.dial(action="/d", caller_id="+44").number("+441", url="/w")
    document.dial().conference("CA1", wait_url="", end_conference_on_exit=True, beep=False)
    relay = document.connect(action="/r").conversation_relay(
        url="wss://a.example/s", welcome_greeting="Hi", dtmf_detection=True, language="es-ES"
    )
    relay.parameter(name="a", value="b")
    document.hangup()
    first, redirect, number, conference, connect, hangup = parse(str(document), "u").verbs
    assert isinstance(first, Gather)
    assert first.prompt == (Say("Tom & <Jerry> 你好"), Pause(2))
    assert first.action == "https://a.example/t?n=1&k=2"
    assert redirect == Redirect("https://a.example/t")
    assert number == Dial(DialledNumber("+441", "/w"), "/d", 30, "+44")
    assert isinstance(conference, Dial)
    assert conference.to == Conference("CA1", starts=True, ends=True, music=False)
    assert connect == Relay(
        "wss://a.example/s", "/r", "Hi", True, True, True, False, "es-ES", {"a": "b"}
    )
    assert hangup == Hangup()


REFUSED = [
    ("<Response><Say>a</Response>", "not XML"),
    ("<Answer/>", "root"),
    ("<Response><Sing/></Response>", "<Sing> is no verb"),
    ("<Response><Gather timeOut='3'/></Response>", "no attribute 'timeOut'"),
    ("<Response><Gather><Hangup/></Gather></Response>", "nothing but <Say>"),
    ("<Response><Gather timeout='soon'/></Response>", "no number of seconds"),
    ("<Response><Gather speechTimeout='0'/></Response>", "neither seconds nor auto"),
    ("<Response><Gather speechModel='x' speechTimeout='auto'/></Response>", "speechModel"),
    ("<Response><Redirect method='GET'>/a</Redirect></Response>", "only POST"),
    (f"<Response><Say>{'a' * 4097}</Say></Response>", "4097 characters"),
    (f"<Response><Say>{'a' * 64_000}</Say></Response>", "bytes"),
    ("<Response><Connect/></Response>", "needs one <ConversationRelay>"),
]


def test_what_twilio_would_not_carry_out_is_refused() -> None:
    for text, reason in REFUSED:
        with pytest.raises(TwimlRefused, match=reason):
            parse(text, None)


def test_a_fragment_says_how_patient_the_carrier_is() -> None:
    network = Network("https://lifts.example.org", ["http://127.0.0.1:1"])
    address = network.address(
        "/t?n=1#ct=1000&rt=2500&tt=6000&rc=2&rp=5xx,rt", "https://lifts.example.org/a"
    )
    assert (address.url, address.path) == ("https://lifts.example.org/t?n=1", "/t?n=1")
    patience = address.patience
    assert (patience.connect_s, patience.read_s, patience.total_s) == (1, 2.5, 6)
    assert (patience.retries, patience.tries_again("5xx"), patience.tries_again("ct")) == (
        2,
        True,
        False,
    )
    usual = network.address("https://lifts.example.org/t").patience
    assert (usual.connect_s, usual.read_s, usual.total_s, usual.retries) == (5, 15, 15, 1)


def test_an_address_that_leads_nowhere_is_refused() -> None:
    network = Network("https://lifts.example.org", ["http://127.0.0.1:1"])
    for url in (
        "https://elsewhere.example.org/t",
        "https://lifts.example.org.evil.example/t",
        "/relative",
        "https://lifts.example.org/t#ct=50",
        "https://lifts.example.org/t#rp=always",
        "https://lifts.example.org/t#xx=1",
    ):
        with pytest.raises(AddressRefused):
            network.address(url)


def test_the_path_of_the_public_address_is_for_the_proxy() -> None:
    network = Network("https://example.org/lifts/", ["http://127.0.0.1:1"])
    assert network.address("https://example.org/lifts/voice/turn?n=1").path == "/voice/turn?n=1"
    assert network.socket("wss://example.org/lifts/voice/relay").path == "/voice/relay"


def test_a_socket_with_a_query_is_refused() -> None:
    network = Network("https://example.org", ["http://127.0.0.1:1"])
    with pytest.raises(AddressRefused, match="query"):
        network.socket("wss://example.org/voice/relay?call=1")


def test_a_retry_goes_to_another_process() -> None:
    network = Network("https://example.org", ["http://127.0.0.1:1", "http://127.0.0.1:2"])
    first = network.target()
    assert network.target(other_than=first) != first
    assert {network.target(), network.target()} == {
        Target("127.0.0.1", 1, tls=False),
        Target("127.0.0.1", 2, tls=False),
    }


def test_chinese_takes_longer_to_say() -> None:
    assert speech_seconds("a" * 15, 1) == 1
    assert speech_seconds("电梯停了吗", 1) == 1
    assert speech_seconds("a" * 15, 10) == 0.1


def test_what_was_said_so_far_is_known_to_the_letter() -> None:
    assert spoken_part("hello there everybody", 1.0, 1) == "hello there eve"
    assert spoken_part("hello", 9, 1) == "hello"
    assert spoken_part("hello", 0, 1) == ""
    assert spoken_part("电梯停了吗", 0.5, 1) == "电梯"
