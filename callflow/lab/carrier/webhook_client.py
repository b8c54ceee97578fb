"""Sends webhooks and status callbacks: signed, tried again as told, and disturbed on request.

Below is a small HTTP client, over connections that are kept: the usual ones take 2 to 6 ms of CPU
for a request when hundreds wait at once, this one 0.1 ms, and a load generator that is slower than
what it loads measures itself. A repeat is a second request with the same body whose answer counts
for nothing. A retry carries `I-Twilio-Idempotency-Token`, which is another one each time: nobody
may rely on it. Status callbacks are numbered, in order unless one is overtaken, best effort.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final, Self
from urllib.parse import urlencode
from uuid import uuid4

import h11
from twilio.request_validator import RequestValidator

from callflow.errors import CallflowError
from callflow.lab.carrier.app_network import (
    NO_ANSWER,
    AppAddress,
    ApplicationFailed,
    Network,
    Target,
)
from callflow.lab.carrier.background_tasks import Background
from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.network_faults import CallFaults, RequestFault

KEPT_S: Final = 2.0
"""Servers close connections that have been idle for some seconds (uvicorn: 5): a request that
meets the closing would fail for a reason that no carrier has."""

_CHUNK: Final = 65_536


class NotConnected(CallflowError):
    """No connection within the time given, or it was refused: the request was not sent."""


class NoResponse(CallflowError):
    """The connection broke, or went silent for too long: whether it arrived is not known."""


@dataclass(frozen=True, slots=True)
class Response:
    """What came back."""

    status: int
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """What is sent, as often as it has to be."""

    address: AppAddress
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(slots=True)
class _KeptConnection:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    machine: h11.Connection = field(default_factory=lambda: h11.Connection(h11.CLIENT))
    idle_since: float = 0.0

    @property
    def usable(self) -> bool:
        """True if the other side has not hung up and will not do so at any moment."""
        closed = self.reader.at_eof() or self.writer.is_closing()
        return not closed and time.monotonic() - self.idle_since < KEPT_S

    async def ask(self, head: h11.Request, body: bytes, read_s: float) -> Response:
        machine = self.machine
        sent = (machine.send(head), machine.send(h11.Data(body)), machine.send(h11.EndOfMessage()))
        self.writer.write(b"".join(part or b"" for part in sent))
        response: h11.Response | None = None
        answer = bytearray()
        while True:
            event = machine.next_event()
            match event:
                case h11.NEED_DATA:
                    async with asyncio.timeout(read_s):
                        machine.receive_data(await self.reader.read(_CHUNK))
                case h11.Response():
                    response = event
                case h11.Data():
                    answer += event.data
                case h11.EndOfMessage():
                    assert response is not None, "h11 ends no message before its head"
                    return Response(response.status_code, _content_type(response), bytes(answer))
                case h11.ConnectionClosed():
                    raise NoResponse("the connection was closed without an answer")

    def reusable(self) -> bool:
        """Make ready for the next request; False when the server wants to close."""
        if self.machine.our_state is not h11.DONE or self.machine.their_state is not h11.DONE:
            return False
        self.machine.start_next_cycle()
        self.idle_since = time.monotonic()
        return True


class HttpClient:
    """Sends POST requests; leave it as a context to close what is kept."""

    def __init__(self) -> None:
        self._idle: defaultdict[Target, list[_KeptConnection]] = defaultdict(list)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.writer.close()
        self._idle.clear()

    async def post(
        self, target: Target, request: WebhookRequest, *extra: tuple[str, str]
    ) -> Response:
        """The answer; `read_s` of its patience is the longest pause between two pieces of it.

        Raises NotConnected and NoResponse; never sends twice.
        """
        patience = request.address.patience
        connection = await self._connection(target, patience.connect_s)
        kept = False
        try:
            headers = [*request.headers, ("Content-Length", str(len(request.body))), *extra]
            head = h11.Request(method="POST", target=request.address.path, headers=headers)
            response = await connection.ask(head, request.body, patience.read_s)
            kept = connection.reusable()
            return response
        except TimeoutError as error:
            raise NoResponse(f"no answer within {patience.read_s:g} s") from error
        except (OSError, h11.RemoteProtocolError) as error:
            raise NoResponse(f"the connection broke: {error or type(error).__name__}") from error
        finally:
            if kept:
                self._idle[target].append(connection)
            else:
                connection.writer.close()

    async def _connection(self, target: Target, connect_s: float) -> _KeptConnection:
        idle = self._idle[target]
        while idle:
            kept = idle.pop()
            if kept.usable:
                return kept
            kept.writer.close()
        try:
            async with asyncio.timeout(connect_s):
                reader, writer = await asyncio.open_connection(
                    target.host, target.port, ssl=target.tls or None
                )
        except TimeoutError as error:
            raise NotConnected(f"no connection within {connect_s:g} s") from error
        except OSError as error:
            raise NotConnected(f"no connection: {error.strerror or error}") from error
        return _KeptConnection(reader, writer)


def _content_type(response: h11.Response) -> str:
    found = (value for name, value in response.headers if name == b"content-type")
    return next(found, b"").decode("latin-1")


class Webhooks:
    """Sends the webhooks of all calls, signed as the account whose token this is."""

    def __init__(
        self, network: Network, client: HttpClient, auth_token: str, background: Background
    ) -> None:
        self._network = network
        self._client = client
        self._validator = RequestValidator(auth_token)
        self._background = background

    def sign(self, url: str, fields: Mapping[str, str]) -> str:
        """The value of `X-Twilio-Signature`."""
        return str(self._validator.compute_signature(url, fields))

    async def ask(
        self,
        address: AppAddress,
        fields: Mapping[str, str],
        fault: RequestFault,
        report: CallReport,
    ) -> Response:
        """The application's answer, 2xx. Attempts and delays are counted in `report`.

        Raises ApplicationFailed when there is none after all retries.
        """
        headers = (
            ("Host", self._network.host),
            ("X-Forwarded-Proto", self._network.scheme),
            ("User-Agent", "TwilioProxy/1.1"),
            ("Accept", "*/*"),
            ("Content-Type", "application/x-www-form-urlencoded; charset=UTF-8"),
            ("X-Twilio-Signature", self.sign(address.url, fields)),
        )
        request = WebhookRequest(address, headers, urlencode(fields).encode())
        report.requests += 1
        report.mischief_s += fault.delay_s
        await asyncio.sleep(fault.delay_s)
        if fault.repeat_after_s is not None:
            self._background.start(self._repeat(request, fault.repeat_after_s))
        total_s = address.patience.total_s
        try:
            async with asyncio.timeout(total_s):
                return await self._attempt(request, fault, report)
        except TimeoutError as error:
            reason = f"no answer within {total_s:g} s"
            raise ApplicationFailed(NO_ANSWER, address.url, reason) from error

    async def _attempt(
        self, request: WebhookRequest, fault: RequestFault, report: CallReport
    ) -> Response:
        patience = request.address.patience
        target: Target | None = None
        reason = ""
        for attempt in range(patience.retries + 1):
            target = self._network.target(other_than=target)
            token = [("I-Twilio-Idempotency-Token", str(uuid4()))] if attempt else []
            report.retries += attempt > 0
            try:
                if attempt == 0 and fault.lost is not None:
                    await self._lose(request, target, fault, report)
                response = await self._client.post(target, request, *token)
            except NotConnected as error:
                kind, reason = "ct", str(error)
            except NoResponse as error:
                kind, reason = "rt", str(error)
            else:
                if 200 <= response.status < 300:
                    return response
                kind, reason = f"{response.status // 100}xx", f"it answered {response.status}"
            if not patience.tries_again(kind):
                break
        raise ApplicationFailed(NO_ANSWER, request.address.url, reason)

    async def _lose(
        self, request: WebhookRequest, target: Target, fault: RequestFault, report: CallReport
    ) -> None:
        """An attempt that comes to nothing: raises what its sender sees of it."""
        began = time.monotonic()
        try:
            if fault.lost == "answer":
                await self._client.post(target, request)
                raise NoResponse("the answer was lost, on purpose")
            await asyncio.sleep(request.address.patience.connect_s)
            raise NotConnected("the request was lost, on purpose")
        finally:
            report.mischief_s += time.monotonic() - began

    async def _repeat(self, request: WebhookRequest, after_s: float) -> None:
        await asyncio.sleep(after_s)
        try:
            await self._client.post(self._network.target(), request)
        except (NotConnected, NoResponse):
            """Nobody looks at the answer of a repeat, so nobody misses it."""


_COUNTRIES: Final = {"+1": "US", "+34": "ES", "+44": "GB", "+49": "DE", "+86": "CN"}
_PLACES: Final = ("Called", "Caller", "From", "To")


@dataclass(frozen=True, slots=True)
class CallIdentity:
    """Who a line is, for as long as it lasts."""

    account_sid: str
    call_sid: str
    caller: str
    called: str
    direction: str = "inbound"
    parent_sid: str | None = None

    def new_report(self, language: str) -> CallReport:
        """An empty report of a call that begins now."""
        return CallReport(self.call_sid, self.caller, self.called, language, time.time())

    def form(self, status: str) -> dict[str, str]:
        """The fields of a webhook now, CallStatus being `status`."""
        fields = {
            "AccountSid": self.account_sid,
            "ApiVersion": "2010-04-01",
            "CallSid": self.call_sid,
            "CallStatus": status,
            "Called": self.called,
            "Caller": self.caller,
            "Direction": self.direction,
            "From": self.caller,
            "To": self.called,
        }
        fields |= {f"{who}{what}": "" for who in _PLACES for what in ("City", "State", "Zip")}
        caller, called = _country(self.caller), _country(self.called)
        fields |= {"CalledCountry": called, "CallerCountry": caller}
        fields |= {"FromCountry": caller, "ToCountry": called}
        if self.parent_sid is not None:
            fields["ParentCallSid"] = self.parent_sid
        if self.direction == "inbound":
            fields["StirVerstat"] = "No-TN-Validation"
        return fields


def _country(number: str) -> str:
    return next((code for prefix, code in _COUNTRIES.items() if number.startswith(prefix)), "")


FINAL: Final = frozenset({"completed", "busy", "failed", "no-answer", "canceled"})

EVENTS: Final = {"initiated": "initiated", "ringing": "ringing", "in-progress": "answered"}
"""What a status is called where events are chosen; all final ones are `completed`."""

ALL: Final = ("initiated", "ringing", "answered", "completed")

_Callback = tuple[dict[str, str], RequestFault]


@dataclass(slots=True)
class StatusCallbacks:
    """Tells `address` of the chosen `events`. A failure is written into `report`."""

    webhooks: Webhooks
    background: Background
    identity: CallIdentity
    report: CallReport
    faults: CallFaults
    address: AppAddress | None
    events: Collection[str] = ALL
    _number: int = 0
    _queue: asyncio.Queue[_Callback | None] = field(default_factory=asyncio.Queue)
    _sending: asyncio.Task[None] | None = None
    _picked_up_at: float | None = None

    def send(self, status: str) -> None:
        """The line has come to `status`; what is told later is sent later."""
        if status == "in-progress":
            self._picked_up_at = time.monotonic()
        event = "completed" if status in FINAL else EVENTS[status]
        if self.address is None:
            return
        if event in self.events:
            fields = self._fields(status)
            fault = self.faults.next(self.address.path, status, final=status in FINAL)
            self._queue.put_nowait((fields, fault))
        if status in FINAL:
            self._queue.put_nowait(None)
        if self._sending is None:
            self._sending = self.background.start(self._send_all(self.address))

    async def sent(self) -> None:
        """Return when the final one has arrived, or has failed to."""
        if self._sending is not None:
            await self._sending

    def _fields(self, status: str) -> dict[str, str]:
        fields = self.identity.form(status) | {
            "Timestamp": format_datetime(datetime.now(UTC)),
            "CallbackSource": "call-progress-events",
            "SequenceNumber": str(self._number),
        }
        self._number += 1
        if status in FINAL:
            since = self._picked_up_at
            lasted_s = 0 if since is None else max(1, round(time.monotonic() - since))
            fields |= {"CallDuration": str(lasted_s), "Duration": str(-(-lasted_s // 60))}
        return fields

    async def _send_all(self, address: AppAddress) -> None:
        """Until the last one: in order, but one that is to be overtaken lets the next one pass."""
        held: list[_Callback] = []
        while (callback := await self._queue.get()) is not None:
            fields, fault = callback
            if fault.overtaken and not held and fields["CallStatus"] not in FINAL:
                held.append(callback)
                continue
            for each in (callback, *held):
                await self._send_one(address, *each)
            held = []
        for each in held:
            await self._send_one(address, *each)

    async def _send_one(
        self, address: AppAddress, fields: dict[str, str], fault: RequestFault
    ) -> None:
        uncounted = CallReport("", "", "", "", 0.0)
        try:
            await self.webhooks.ask(address, fields, fault, uncounted)
        except ApplicationFailed as error:
            self.report.failures.append(str(error))
