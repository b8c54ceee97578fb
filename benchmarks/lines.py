"""The carrier's end of lines to a web process, and a process that plays the worker of all of them.

Webhooks are signed before the clock runs and go on a connection of their own each.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode
from uuid import uuid4

from twilio.request_validator import RequestValidator
from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as connect_socket

from benchmarks.waiting import wait_until
from callflow.redis.client import Client
from callflow.store.calls import CallStore
from callflow.store.keys import ALL_SHARDS
from callflow.store.result import Claimed, Lease, Result

PUBLIC_URL = "https://benchmark.callflow.example"
SOCKET_URL = "wss://benchmark.callflow.example/voice/relay"
TOKEN = "0123456789abcdef0123456789abcdef"
CALLING, BY_GATHER, BY_RELAY = "+441632960999", "+441632960010", "+441632960020"
"""The numbers of `lab/chaos/demo_sites.yaml`. No REST credentials are set, so nobody is rung."""

SAID = "the doors have closed and it does not move, I am in here alone"
REPLY = "Thank you, I have understood. Help is on its way to you, stay where you are."
BEGINNING = "Thank you, "


@dataclass(slots=True)
class Worker:
    """This process as the worker of all calls."""

    store: CallStore
    client: Client
    produced_at: dict[str, float] = field(default_factory=dict)
    """When a reply left the worker, by CallSid: before the store is asked. Monotonic, s."""

    def claim_all(self, sids: Sequence[str]) -> dict[str, Lease]:
        """Wait until every call is owed a turn, and take them."""
        wait_until(lambda: self._owed() >= len(sids), "every caller's words are stored")
        claims = {sid: self.store.claim(sid, "benchmark", uuid4().hex) for sid in sids}
        leases = {sid: one.lease for sid, one in claims.items() if isinstance(one, Claimed)}
        assert len(leases) == len(sids), claims
        return leases

    def _owed(self) -> int:
        return sum(self.client.zcard(shard.owed) for shard in ALL_SHARDS)

    def commit_all(self, leases: dict[str, Lease], turn: int, text: str) -> None:
        """Answer every call, as fast as one connection can."""
        for sid, lease in leases.items():
            self.produced_at[sid] = time.monotonic()
            assert self.store.commit(lease, turn, text).result is Result.OK

    def draft_all(self, leases: dict[str, Lease], turn: int, text: str, over_s: float) -> None:
        """Word the beginning of every reply, evenly within `over_s` (0: back to back)."""
        began = time.monotonic()
        for number, (sid, lease) in enumerate(leases.items()):
            due = began + over_s * number / len(leases)
            time.sleep(max(0.0, due - time.monotonic()))
            self.produced_at[sid] = time.monotonic()
            assert self.store.save_draft(lease, turn, text) is Result.OK


@dataclass(frozen=True, slots=True)
class Request:
    """One webhook, signed before the clock runs."""

    sid: str
    data: bytes

    @classmethod
    def of(cls, sid: str, path: str, **more: str) -> Request:
        """As the carrier sends it, on a connection of its own."""
        fields = {"CallSid": sid, "From": CALLING, "To": BY_GATHER, "CallStatus": "in-progress"}
        fields |= more
        signature = RequestValidator(TOKEN).compute_signature(f"{PUBLIC_URL}{path}", fields)
        body = urlencode(fields)
        head = (
            f"POST {path} HTTP/1.1\r\nHost: benchmark.callflow.example\r\nConnection: close\r\n"
            f"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {len(body)}\r\n"
            f"X-Twilio-Signature: {signature}\r\n\r\n"
        )
        return cls(sid, f"{head}{body}".encode())


@dataclass(frozen=True, slots=True)
class Answer:
    """When a request began to connect and when its answer was complete, monotonic s."""

    sid: str
    began_at: float
    came_at: float
    text: str


async def ask_all(port: int, requests: Sequence[Request]) -> list[Answer]:
    """All at once, each on its own connection. Raises AssertionError for what is not 200."""
    return await asyncio.gather(*(_ask(port, one) for one in requests))


async def _ask(port: int, request: Request) -> Answer:
    began_at = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.data)
    text = (await reader.read(-1)).decode()
    came_at = time.monotonic()
    writer.close()
    assert text.startswith("HTTP/1.1 200"), text
    return Answer(request.sid, began_at, came_at, text)


@dataclass(frozen=True, slots=True)
class Socket:
    """One relay socket of one call."""

    sid: str
    connection: ClientConnection

    @classmethod
    async def open(cls, port: int) -> Socket:
        """A new call, set up."""
        headers = {"X-Twilio-Signature": RequestValidator(TOKEN).compute_signature(SOCKET_URL, {})}
        url = f"ws://127.0.0.1:{port}/voice/relay"
        line = cls(new_sid(), await connect_socket(url, additional_headers=headers))
        numbers = {"from": CALLING, "to": BY_RELAY, "direction": "inbound"}
        await line.send(type="setup", callSid=line.sid, sessionId=f"VX{'0' * 32}", **numbers)
        return line

    async def send(self, **frame: Any) -> None:
        """One frame to the web process."""
        await self.connection.send(json.dumps(frame))

    async def first_token(self) -> float:
        """When the beginning of the reply came, monotonic s."""
        frame = json.loads(await self.connection.recv())
        came_at = time.monotonic()
        assert frame["token"] == BEGINNING, frame
        return came_at

    async def rest(self) -> None:
        """Hear the reply to its end."""
        while not json.loads(await self.connection.recv())["last"]:
            """More of the same reply."""


def new_sid() -> str:
    """A call that there has never been."""
    return f"CA{uuid4().hex}"
