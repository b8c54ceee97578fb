"""The signed requests and relay frames of the field, each once, twice, and at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from tests.exchange import Exchange, open_exchange
from tests.parts import Parts
from tests.twilio.webhooks import AUTH_TOKEN, FIXTURES, WEBHOOKS, Webhook

BASE = "https://arc.example"

OURS = ("/voice/inbound", "/voice/turn", "/voice/status", "/voice/relay-ended", "/voice/fallback")

SID = "CA0000000000000000000000000000000a"

BY_NAME = {webhook.name: webhook for webhook in WEBHOOKS}

BEFORE = {
    "gather_speech_no_confidence": ("gather_speech",),
    "gather_empty": ("gather_speech", "gather_speech_no_confidence"),
    "gather_digits": ("gather_speech", "gather_speech_no_confidence", "gather_empty"),
    "retry_of_turn_1": ("gather_speech",),
    "status_out_of_order_inprogress": ("status_completed",),
}


@pytest.fixture
def exchange(parts: Parts, redis_url: str, tmp_path: Path) -> Iterator[Exchange]:
    with open_exchange(
        parts,
        redis_url,
        tmp_path,
        public_url=BASE,
        twilio_auth_token=SecretStr(AUTH_TOKEN),
        reply_wait_s=0.5,
    ) as running:
        yield running


def send(exchange: Exchange, webhook: Webhook) -> int:
    url = urlsplit(webhook.url)
    path = f"{url.path}?{url.query}" if url.query else url.path
    return httpx.post(
        f"http://127.0.0.1:{exchange.port}{path}",
        content=webhook.body,
        headers=webhook.headers,
        timeout=20,
    ).status_code


def known(exchange: Exchange, sid: str) -> dict[str, Any] | None:
    """The record without its times."""
    record = exchange.parts.snapshots.find(sid)
    if record is None:
        return None
    shown = record.model_dump(
        exclude={"created_at", "updated_at", "owed_since", "last_heartbeat", "fence", "alert_due"}
    )
    shown["assigned_worker"] = None
    for entry in shown["conversation_thread"]:
        entry["at"] = 0
    return shown


def played(exchange: Exchange, webhook: Webhook, again: Callable[[], object]) -> Any:
    """The record after what must come before, and then `again`."""
    sid = dict(webhook.params).get("CallSid", "")
    with exchange.worker("Stay inside."):
        for name in ("inbound_call", *BEFORE.get(webhook.name, ())):
            if name != webhook.name:
                send(exchange, BY_NAME[name])
        again()
        record = known(exchange, sid)
    exchange.parts.client.flushdb()
    return record


@pytest.mark.parametrize("name", [w.name for w in WEBHOOKS if urlsplit(w.url).path in OURS])
def test_a_request_of_the_field_is_taken_as_marked_and_twice_or_at_once_is_once(
    exchange: Exchange, name: str
) -> None:
    webhook = BY_NAME[name]
    assert send(exchange, webhook) == (200 if webhook.genuine else 403)
    exchange.parts.client.flushdb()

    def at_once() -> None:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: send(exchange, webhook), range(4)))

    once = played(exchange, webhook, lambda: send(exchange, webhook))
    twice = played(exchange, webhook, lambda: (send(exchange, webhook), send(exchange, webhook)))
    assert once is not None
    assert twice == once
    assert played(exchange, webhook, at_once) == once


@pytest.mark.parametrize("name", [w.name for w in WEBHOOKS if urlsplit(w.url).path not in OURS])
def test_a_request_for_what_we_do_not_have_touches_nothing(exchange: Exchange, name: str) -> None:
    assert send(exchange, BY_NAME[name]) == 404
    assert exchange.parts.client.dbsize() == 0


def frames() -> list[str]:
    """What came in on the relay socket of the field, and no setup of its own."""
    lines = (FIXTURES / "relay_frames.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    return [json.dumps(one["frame"]) for one in told if one["dir"] == "in"]


def replayed(exchange: Exchange, copies: int, sockets: int) -> Any:
    """The record after the frames, each sent so often on so many sockets."""
    import websockets.sync.client as ws
    from twilio.request_validator import RequestValidator

    from tests.waiting import wait_until

    signature = RequestValidator(AUTH_TOKEN).compute_signature("wss://arc.example/voice/relay", {})

    def connect() -> Any:
        return ws.connect(
            f"ws://127.0.0.1:{exchange.port}/voice/relay",
            additional_headers={"X-Twilio-Signature": signature},
            close_timeout=1,
        )

    with exchange.worker("Stay inside."), ExitStack() as opened:
        send(exchange, BY_NAME["inbound_call"])
        lines = [opened.enter_context(connect()) for _ in range(sockets)]
        for frame in frames():
            for _ in range(copies):
                for line in lines:
                    line.send(frame)
        wait_until(
            lambda: (
                (found := exchange.parts.snapshots.find(SID)) is not None
                and found.heard == found.answered == 2
            ),
            "the frames were not all answered",
            within_s=10,
        )
        record = known(exchange, SID)
    exchange.parts.client.flushdb()
    assert record is not None
    # How much of the speech a socket had sent when it closed is no part of the conversation.
    return {name: value for name, value in record.items() if name != "sent"}


def test_relay_frames_twice_or_on_two_sockets_at_once_are_once(exchange: Exchange) -> None:
    once = replayed(exchange, 1, 1)
    said = [(e["role"], e["text"], e["digits"]) for e in once["conversation_thread"]]
    assert ("caller", "there's smoke coming in", None) in said
    assert ("caller", "", "*") in said
    assert once["conversation_thread"][0]["heard"] == "You've reached the lift emer"
    assert replayed(exchange, 2, 1) == once
    assert replayed(exchange, 1, 2) == once
