"""Recorded webhooks and relay frames: judged as marked, and repeated without changing anything."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from threading import Barrier
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import websockets.sync.client as ws
from pydantic import SecretStr
from twilio.request_validator import RequestValidator
from websockets.exceptions import InvalidStatus

from callflow.web.app import ROUTES
from callflow.web.webhook import SIGNATURE_HEADER, Signatures
from tests.exchange import SITES, Exchange, WebServer, web_server
from tests.parts import Parts
from tests.twilio.webhooks import (
    AUTH_TOKEN,
    FIXTURES,
    GENUINE,
    SOCKET_SIGNATURE,
    SOCKET_URL,
    WEBHOOKS,
    Webhook,
)
from tests.waiting import wait_until

ARC = "https://arc.example"
SOCKET = "wss://arc.example/voice/relay"
CALL = "CA0000000000000000000000000000000a"
WITHHELD = "CA0000000000000000000000000000000b"

TIMES = frozenset({"at", "created_at", "updated_at", "owed_since", "last_heartbeat"})

NAMED = {webhook.name: webhook for webhook in WEBHOOKS}
TURNS = ("gather_speech", "gather_speech_no_confidence", "gather_empty", "gather_digits")
BEFORE: dict[str, tuple[str, ...]] = {
    "inbound_call": (),
    "inbound_call_withheld_number": (),
    **{turn: ("inbound_call", *TURNS[:place]) for place, turn in enumerate(TURNS)},
    "retry_of_turn_1": ("inbound_call", *TURNS[:1]),
    "status_completed": ("inbound_call", *TURNS[:1]),
    "status_out_of_order_inprogress": ("inbound_call", *TURNS[:1], "status_completed"),
    "relay_action_ended_handoff": ("inbound_call", *TURNS[:1]),
    "relay_action_failed": ("inbound_call", *TURNS[:1]),
    "relay_action_caller_hung_up": ("inbound_call", *TURNS[:1]),
    "fallback_after_timeout": ("inbound_call", *TURNS),
}
"""What happens in a call before each recorded webhook that we have an address for."""

ABSENT = [webhook for webhook in GENUINE if urlsplit(webhook.url).path not in ROUTES]

GREETING = "You've reached the lift emergency line. Are you inside the lift?"

FRAMES: list[dict[str, Any]] = [
    line["frame"]
    for line in map(
        json.loads, (FIXTURES / "relay_frames.jsonl").read_text(encoding="utf-8").splitlines()
    )
    if line["dir"] == "in"
]


@pytest.fixture(scope="module")
def arc_server(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with _serve(server_url, tmp_path_factory.mktemp("arc"), SITES) as running:
        yield running


@pytest.fixture
def arc(parts: Parts, arc_server: WebServer) -> Iterator[Exchange]:
    """A web process that is reached at the address of the recordings."""
    with arc_server.exchange(parts) as running:
        yield running


@pytest.fixture
def relayed(
    parts: Parts, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Exchange]:
    """The same, where the site's calls are spoken over a socket."""
    # The recorded interruption is one of these words.
    monkeypatch.setattr("callflow.web.answers.greeting", lambda *_: GREETING)
    sites = SITES.replace("voice: gather", "voice: relay")
    with _serve(redis_url, tmp_path, sites) as server, server.exchange(parts) as running:
        yield running


def _serve(url: str, folder: Path, sites: str) -> AbstractContextManager[WebServer]:
    return web_server(
        url,
        folder,
        sites_yaml=sites,
        public_url=ARC,
        twilio_auth_token=SecretStr(AUTH_TOKEN),
    )


def _send(exchange: Exchange, webhook: Webhook, **headers: str) -> int:
    target = webhook.url.removeprefix(ARC)
    return httpx.post(
        f"http://127.0.0.1:{exchange.port}{target}",
        content=webhook.body,
        headers={**webhook.headers, **headers},
        timeout=20,
    ).status_code


def _play(exchange: Exchange, *webhooks: Webhook) -> None:
    for webhook in webhooks:
        assert _send(exchange, webhook) == 200


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(v) for name, v in value.items() if name not in TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


def _kept(exchange: Exchange, sid: str) -> dict[str, Any]:
    """The record and its journal, but for the times in them."""
    record = exchange.parts.record(sid)
    journal = [entry.model_dump(mode="json") for entry in exchange.parts.journal(sid)]
    for entry in journal:
        # Names of worker processes are drawn anew.
        del entry["worker"]
    found = {**record.model_dump(mode="json"), "journal": journal}
    without = _without_times(found)
    assert isinstance(without, dict)
    return without


def _answered(exchange: Exchange, sid: str) -> None:
    def nothing_is_owed() -> bool:
        record = exchange.parts.record(sid)
        return record.outcome is not None or not record.owed

    wait_until(nothing_is_owed, "a reply is still owed")


def _after(
    exchange: Exchange, webhook: Webhook, sending: Callable[[Exchange, Webhook], None]
) -> dict[str, Any]:
    """What is kept of a new call in which `webhook` was sent in this way."""
    exchange.parts.client.flushdb()
    sid = dict(webhook.params)["CallSid"]
    with exchange.worker("Stay inside."):
        for name in BEFORE[webhook.name]:
            _play(exchange, NAMED[name])
            _answered(exchange, sid)
        sending(exchange, webhook)
        _answered(exchange, sid)
    return _kept(exchange, sid)


def _once(exchange: Exchange, webhook: Webhook) -> None:
    _play(exchange, webhook)


def _twice(exchange: Exchange, webhook: Webhook) -> None:
    _play(exchange, webhook, webhook)


def _at_once(exchange: Exchange, webhook: Webhook) -> None:
    together = Barrier(4)

    def one(_: int) -> int:
        together.wait(10)
        return _send(exchange, webhook)

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(one, range(4))) == [200] * 4


def test_every_recorded_webhook_is_played_or_has_no_address_of_ours() -> None:
    names = {webhook.name for webhook in GENUINE}
    assert names == BEFORE.keys() | {webhook.name for webhook in ABSENT}


@pytest.mark.parametrize("name", BEFORE)
def test_a_recorded_webhook_sent_twice_or_at_once_is_kept_as_sent_once(
    request: pytest.FixtureRequest, name: str
) -> None:
    kind = "relayed" if name.startswith("relay") else "arc"
    exchange: Exchange = request.getfixturevalue(kind)
    webhook = NAMED[name]
    once = _after(exchange, webhook, _once)
    assert once["site"] == "tower"
    assert _after(exchange, webhook, _twice) == once
    assert _after(exchange, webhook, _at_once) == once


def test_the_whole_recorded_call_in_order_is_one_call(arc: Exchange) -> None:
    with arc.worker("Stay inside."):
        _play(arc, NAMED["inbound_call"], *(NAMED[name] for name in TURNS))
        _play(arc, NAMED["retry_of_turn_1"], NAMED["fallback_after_timeout"])
        _play(arc, NAMED["status_completed"], NAMED["status_out_of_order_inprogress"])
    record = arc.parts.record(CALL)
    assert (record.heard, record.answered, record.outcome) == (4, 4, "hung_up")
    assert record.said(1, "caller") == "hi um we're stuck in the lift there's three of us"
    assert [record.said(turn, "caller") for turn in (2, 3, 4)] == ["yes", "", ""]
    assert [e.digits for e in record.conversation_thread if e.role == "caller"][-1] == "1"
    assert arc.parts.events(CALL).count("ended") == 1


def test_a_webhook_that_is_marked_as_forged_is_refused_and_touches_nothing(arc: Exchange) -> None:
    forged = [webhook for webhook in WEBHOOKS if not webhook.genuine]
    before = arc.parts.client.dbsize()
    assert [_send(arc, webhook) for webhook in forged] == [403]
    assert arc.parts.client.dbsize() == before


def test_no_recorded_webhook_is_believed_without_its_signature(arc: Exchange) -> None:
    _play(arc, NAMED["inbound_call"], NAMED["inbound_call_withheld_number"])
    before = [_all(arc, sid) for sid in (CALL, WITHHELD)]
    sent = {
        (name, signature): _send(arc, NAMED[name], **{SIGNATURE_HEADER: signature})
        for name in BEFORE
        for signature in ("", "AAAA")
    }
    assert not {one: status for one, status in sent.items() if status != 403}
    assert [_all(arc, sid) for sid in (CALL, WITHHELD)] == before


def test_an_address_that_we_do_not_have_is_not_found_and_changes_nothing(arc: Exchange) -> None:
    _play(arc, NAMED["inbound_call"])
    before, keys = _all(arc, CALL), arc.parts.client.dbsize()
    for webhook in ABSENT:
        assert _send(arc, webhook) == 404
        assert _send(arc, webhook, **{SIGNATURE_HEADER: "AAAA"}) == 404
    assert (_all(arc, CALL), arc.parts.client.dbsize()) == (before, keys)


def _all(exchange: Exchange, sid: str) -> tuple[Any, Any]:
    return exchange.parts.record(sid), exchange.parts.journal(sid)


def _handshake(exchange: Exchange, signature: str) -> ws.ClientConnection:
    return ws.connect(
        f"ws://127.0.0.1:{exchange.port}/voice/relay",
        additional_headers={"X-Twilio-Signature": signature},
        close_timeout=1,
    )


def test_the_recorded_handshake_opens_its_own_address_and_not_ours(relayed: Exchange) -> None:
    headers = {SIGNATURE_HEADER: SOCKET_SIGNATURE}
    assert Signatures([AUTH_TOKEN]).valid(SOCKET_URL, (), headers)
    with pytest.raises(InvalidStatus), _handshake(relayed, SOCKET_SIGNATURE):
        """Never opened."""
    ours = RequestValidator(AUTH_TOKEN).compute_signature(SOCKET, {})
    with _handshake(relayed, ours) as connection:
        connection.send(json.dumps(FRAMES[0]))


def _replayed(relayed: Exchange, sockets: int, times: int) -> dict[str, Any]:
    """What is kept of a new call whose frames came on so many sockets at once, each so often."""
    relayed.parts.client.flushdb()
    _play(relayed, NAMED["inbound_call"])
    signature = RequestValidator(AUTH_TOKEN).compute_signature(SOCKET, {})
    together = Barrier(sockets)

    def one(_: int) -> None:
        with _handshake(relayed, signature) as connection:
            together.wait(10)
            for frame in FRAMES:
                for _ in range(times):
                    connection.send(json.dumps(frame))
            # All frames of every socket are in before one is closed: closing may drop some.
            heard = lambda: relayed.parts.record(CALL).answered >= 2  # noqa: E731
            wait_until(heard, "not everything was heard and answered")
            _answered(relayed, CALL)
            together.wait(10)

    with relayed.worker("Stay inside."), ThreadPoolExecutor(sockets) as threads:
        list(threads.map(one, range(sockets)))
        _answered(relayed, CALL)
    record = relayed.parts.record(CALL)
    return {
        "heard": (record.heard, record.answered, record.unclear, record.lost),
        "thread": sorted(
            (e.turn, e.role, e.text, e.digits, e.heard) for e in record.conversation_thread
        ),
        "events": sorted(set(relayed.parts.events(CALL)) - {"claimed", "released"}),
    }


def test_the_recorded_frames_are_kept_once_however_often_they_come(relayed: Exchange) -> None:
    once = _replayed(relayed, sockets=1, times=1)
    assert once["heard"] == (2, 2, 0, 0)
    assert [(turn, text or digits, heard) for turn, _, text, digits, heard in once["thread"]] == [
        (0, GREETING, "You've reached the lift emer"),
        (1, "Stay inside.", None),
        (1, "there's smoke coming in", None),
        (2, "Stay inside.", None),
        (2, "*", None),
    ]
    assert _replayed(relayed, sockets=1, times=2) == once
    assert _replayed(relayed, sockets=2, times=1) == once
    assert _replayed(relayed, sockets=2, times=2) == once
