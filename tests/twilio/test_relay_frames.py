"""Whatever comes through the relay socket is understood or refused in one sentence."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.utterance import clean
from callflow.twilio import relay_frames as frames
from callflow.twilio.relay_frames import (
    Dtmf,
    Frame,
    Interrupt,
    MalformedFrame,
    Other,
    Prompt,
    RelayError,
    Setup,
    parse,
)
from tests.twilio.webhooks import FIXTURES

RECORDED = [
    json.loads(line)
    for line in (FIXTURES / "relay_frames.jsonl").read_text(encoding="utf-8").splitlines()
]
SECRET = "my heart hurts"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)
NAMES = st.sampled_from(
    ["callSid", "customParameters", "voicePrompt", "lang", "last", "utteranceUntilInterrupt",
     "durationUntilInterruptMs", "digit", "description", "from", "sessionId"]
)  # fmt: skip
TYPES = st.sampled_from(["setup", "prompt", "interrupt", "dtmf", "error", "info"])


def sent(**fields: Any) -> Frame:
    return parse(json.dumps(fields))


def test_a_prompt_tells_how_sure_the_recogniser_was_where_the_frame_says_so() -> None:
    given = {0.42: 0.42, "0.42": 0.42, 1: 1.0, 0.0: None, "": None, 2: None}
    heard = {one: sent(type="prompt", voicePrompt="stuck", confidence=one) for one in given}
    assert heard == {one: Prompt("stuck", True, found) for one, found in given.items()}


def test_the_recorded_frames_are_understood() -> None:
    found = [parse(json.dumps(each["frame"])) for each in RECORDED if each["dir"] == "in"]
    assert found == [
        Setup(
            call_sid="CA0000000000000000000000000000000a",
            from_="+441632960999",
            to="+441632960010",
            custom_parameters={"lineId": "L-0042"},
        ),
        Prompt("there's smo", last=False),
        Interrupt("You've reached the lift emer"),
        Prompt("there's smoke coming in"),
        Dtmf("*"),
        RelayError('Invalid message received: { "foo" : "bar" }'),
        Other("speakerEvent-unknown-future-type"),
    ]


def test_our_frames_are_as_recorded() -> None:
    ours = [each["frame"] for each in RECORDED if each["dir"] == "out"]
    _, first, last, _, language, end = ours
    first.pop("interruptible")
    assert json.loads(frames.text(first["token"], last=False)) == first
    assert json.loads(frames.text(last["token"], last=True)) == last
    assert json.loads(frames.language("es")) == language
    ended = json.loads(frames.end({"reasonCode": "human", "scenario": "fire_smoke"}))
    assert ended.keys() == end.keys()
    assert json.loads(ended["handoffData"]) == json.loads(end["handoffData"])


def test_missing_and_null_fields_are_as_none_given() -> None:
    assert sent(type="setup", callSid="CA1") == Setup("CA1")
    assert sent(type="setup", callSid="CA1", callerName=None, customParameters=None) == Setup("CA1")
    assert sent(type="prompt", voicePrompt="") == Prompt("")
    assert sent(type="interrupt") == Interrupt()
    assert sent(type="error") == RelayError()


def test_unknown_fields_are_passed_over_and_odd_ones_read_as_meant() -> None:
    assert sent(type="dtmf", digit=5, new={"a": [1]}) == Dtmf("5")
    assert sent(type="prompt", voicePrompt="hi", last="false") == Prompt("hi", last=False)
    assert sent(type="prompt", voicePrompt="hi", last="perhaps") == Prompt("hi")
    frame = sent(type="setup", callSid="CA1", customParameters={"n": 1, "o": {}, "s": "x"})
    assert isinstance(frame, Setup)
    assert frame.custom_parameters == {"n": "1", "o": "", "s": "x"}


def test_a_torn_emoji_does_not_cost_the_utterance() -> None:
    frame = parse('{"type": "prompt", "voicePrompt": "fire \\ud83d here \\ud83d\\ude92"}')
    assert frame == Prompt("fire \ufffd here 🚒")


MALFORMED = (
    *("", SECRET, "null", "[]", '"x"', "{", f'{{"type": "prompt", "voicePrompt": "{SECRET}"'),
    *(f'{{"voicePrompt": "{SECRET}"}}', f'{{"type": null, "voicePrompt": "{SECRET}"}}'),
    f'{{"type": "prompt", "text": "{SECRET}"}}',
    f'{{"type": "prompt", "voicePrompt": ["{SECRET}"]}}',
    *(f'{{"type": "dtmf", "key": "{SECRET}"}}', f'{{"type": "setup", "from": "{SECRET}"}}'),
    *(f'{{"type": ["{SECRET}"]}}', "[" * 200_000, '{"a":' * 200_000, "9" * 10_000),
    '{"type": "interrupt", "durationUntilInterruptMs": ' + "9" * 10_000 + "}",
)


@given(st.text(st.characters(codec=None) | st.characters(categories=["Cs", "Cc"])))
def test_words_from_a_socket_are_stored_as_from_a_webhook(said: str) -> None:
    frame = parse(json.dumps({"type": "prompt", "voicePrompt": said, "last": True}))
    assert isinstance(frame, Prompt)
    assert clean("CA1", frame.text) == clean("CA1", said)


def test_a_malformed_frame_is_refused_without_showing_it() -> None:
    for text in MALFORMED:
        with pytest.raises(MalformedFrame) as caught:
            parse(text)
        assert caught.value.size == len(text)
        assert SECRET not in repr(caught.getrepr(showlocals=False, style="long"))
        assert SECRET not in str(caught.value)
        # Nothing that a tool which looks at causes would find carries the text.
        assert caught.value.__cause__ is None


@given(st.dictionaries(NAMES, JSON), TYPES | JSON)
def test_any_object_is_understood_or_refused(fields: dict[str, Any], kind: Any) -> None:
    with suppress(MalformedFrame):
        assert repr(parse(json.dumps({**fields, "type": kind}))).encode()


@given(st.text())
def test_any_text_is_understood_or_refused(text: str) -> None:
    with pytest.raises(MalformedFrame):
        parse(text)


@given(st.text(st.characters(exclude_categories=[])))
def test_a_token_keeps_its_spaces_and_can_always_be_written(token: str) -> None:
    frame = json.loads(frames.text(token, last=False).encode().decode())
    assert len(frame["token"].split()) <= len(token.split()) + len(token)
    assert json.loads(frames.text(" next ", last=True)) == {
        "type": "text",
        "token": " next ",
        "last": True,
    }
