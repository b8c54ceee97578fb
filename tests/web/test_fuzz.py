"""Whatever comes in, signed or not: never a 500, no exception in the log, no dead process."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import httpx
import pytest
import websockets.sync.client as ws
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from twilio.request_validator import RequestValidator
from websockets.exceptions import ConnectionClosed

from callflow.web.app import ROUTES
from tests.exchange import GATHER, PUBLIC, RELAY, TOKEN, Exchange
from tests.parts import SID

ANYTHING = settings(
    max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)

TEXT = st.text(st.characters(codec="utf-8"), max_size=60)

NAMES = st.sampled_from(
    [
        *("SpeechResult", "Digits", "Confidence", "CallStatus", "DialCallStatus", "DialBridged"),
        *(
            "SessionStatus",
            "HandoffData",
            "ErrorCode",
            "To",
            "From",
            "Called",
            "Caller",
            "Nonsense",
        ),
    ]
)

VALUES = st.one_of(
    TEXT,
    st.sampled_from(
        [
            *(
                "",
                "completed",
                "in-progress",
                "no-answer",
                "failed",
                "0",
                "1",
                "nan",
                "1e999",
                "-1",
            ),
            *(GATHER, RELAY, "anonymous", "sip:x@y", '{"reason":"outage","n":"1","u":"x"}'),
            *(
                '{"reason":"outage","n":"99999999999999999999"}',
                "[1]",
                "x" * 25_000,
                "\x00",
                "👨‍👩‍👧",
            ),
        ]
    ),
)

QUERY = st.dictionaries(
    st.sampled_from(
        ["n", "k", "u", "d", "c", "since", "rung", "call", "ring", "asked", "out", "g"]
    ),
    st.one_of(st.sampled_from(["0", "1", "2", "-1", "٣", "1e3", SID, "99999999999", ""]), TEXT),
    max_size=6,
)


@contextmanager
def no_error_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.clear()
    yield
    errors = [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR]
    assert not errors


@ANYTHING
@given(
    path=st.sampled_from(sorted(ROUTES)),
    query=QUERY,
    fields=st.dictionaries(NAMES, VALUES, max_size=8),
    sid=st.sampled_from([SID, "CAother", "", "CA{1}", "é"]),
    signed=st.booleans(),
)
@example("/voice/turn", {"n": "1"}, {"SpeechResult": "x" * 25_000}, SID, True)
@example("/voice/turn", {"n": "9" * 5_000}, {}, SID, True)
@example("/voice/wait", {"n": "1", "since": "9" * 5_000, "u": "x"}, {}, SID, True)
@example("/voice/wait", {"n": "1", "since": "1", "u": "x" * 20_001}, {}, SID, True)
@example("/voice/relay-ended", {"g": "1", "a": "9" * 5_000}, {}, SID, True)
@example(
    "/voice/relay-ended",
    {},
    {"HandoffData": '{"reason":"outage","u":"x","since":"1","n":"' + "9" * 5_000 + '"}'},
    SID,
    True,
)
def test_no_webhook_is_an_error_of_ours(
    exchange: Exchange,
    caplog: pytest.LogCaptureFixture,
    path: str,
    query: dict[str, str],
    fields: dict[str, str],
    sid: str,
    signed: bool,
) -> None:
    form = {"CallSid": sid, **fields}
    asked = f"?{urlencode(query)}" if query else ""
    signature = RequestValidator(TOKEN).compute_signature(f"{PUBLIC}{path}{asked}", form)
    with no_error_logged(caplog):
        answer = httpx.post(
            f"http://127.0.0.1:{exchange.port}{path}{asked}",
            content=urlencode(form),
            headers={"X-Twilio-Signature": signature if signed else "AAAA"},
            timeout=20,
        )
    assert answer.status_code in ((200, 400) if signed else (403,)), answer.text
    if answer.status_code == 200:
        for say in ElementTree.fromstring(answer.text).iter("Say"):
            assert len(say.text or "") <= 4096
    exchange.parts.store.end(SID, "hung_up")
    exchange.parts.client.flushdb()


FRAME = st.fixed_dictionaries(
    {"type": st.sampled_from(["setup", "prompt", "interrupt", "dtmf", "error", "info", "new"])},
    optional={
        "callSid": st.sampled_from([SID, "", "CA{1}", 5, None]),
        "voicePrompt": st.one_of(TEXT, st.none(), st.integers()),
        "last": st.one_of(st.booleans(), st.text(max_size=3), st.none()),
        "utteranceUntilInterrupt": st.one_of(TEXT, st.none()),
        "durationUntilInterruptMs": st.one_of(st.integers(), st.text(max_size=5), st.none()),
        "digit": st.one_of(st.sampled_from(["0", "*", "12", "x"]), st.none(), st.integers()),
        "customParameters": st.one_of(
            st.none(), st.dictionaries(st.sampled_from(["saying", "x"]), TEXT, max_size=2)
        ),
        "from": TEXT,
        "to": st.sampled_from([RELAY, ""]),
    },
)

MESSAGE = st.one_of(FRAME.map(json.dumps), TEXT, st.binary(max_size=40))


@settings(ANYTHING, max_examples=25)
@given(messages=st.lists(MESSAGE, max_size=6), begun=st.booleans())
@example([json.dumps({"type": "prompt", "voicePrompt": "x" * 20_001})], True)
@example(
    [
        json.dumps(
            {"type": "setup", "callSid": SID, "customParameters": {"CallSid": "CA{1}", "From": "x"}}
        )
    ],
    False,
)
@example(['{"type": "setup", "callSid": ""}'], False)
@example(['{"type": "setup", "callSid": "CA{1}"}'], False)
def test_no_frame_is_an_error_of_ours(
    exchange: Exchange,
    caplog: pytest.LogCaptureFixture,
    messages: list[Any],
    begun: bool,
) -> None:
    url = PUBLIC.replace("https", "wss") + "/voice/relay"
    signature = RequestValidator(TOKEN).compute_signature(url, {})
    with (
        no_error_logged(caplog),
        ws.connect(
            f"ws://127.0.0.1:{exchange.port}/voice/relay",
            additional_headers={"X-Twilio-Signature": signature},
            close_timeout=1,
        ) as socket,
    ):
        try:
            if begun:
                socket.send(json.dumps({"type": "setup", "callSid": SID, "to": RELAY}))
            for message in messages:
                socket.send(message)
        except ConnectionClosed:
            """It may close a socket that says nothing sensible."""
    assert httpx.get(f"http://127.0.0.1:{exchange.port}/healthz").status_code == 200
    exchange.parts.store.end(SID, "hung_up")
    exchange.parts.client.flushdb()
