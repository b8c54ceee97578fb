"""Serves Twilio's REST API as far as calls go: make one, redirect one, end one, look at one.

The same paths, fields, statuses and error bodies, behind the same basic authentication, on loopback
and in the loop of the carrier.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callflow.errors import CallflowError
from callflow.lab.carrier.app_network import TwimlRefused
from callflow.lab.carrier.switchboard import CallBase, CallStep, OutboundRequest, Switchboard
from callflow.lab.carrier.twiml_parser import parse
from callflow.lab.carrier.webhook_client import FINAL


class ApiPortTaken(CallflowError):
    """Another program listens where the REST API should."""

    def __init__(self, port: int, reason: str) -> None:
        self.port = port
        super().__init__(
            f"port {port} cannot be used for the carrier's REST API: {reason}; is another phone "
            "running? End it, or choose another port"
        )


class ApiServer:
    """`port` 0 becomes the one that is listened on."""

    def __init__(self, app: Starlette, port: int) -> None:
        self.port = port
        config = uvicorn.Config(
            app, log_level="critical", access_log=False, lifespan="off", ws="none"
        )
        self._server = _ApiProcess(config)
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises ApiPortTaken."""
        # Named as TCP, or asyncio would leave Nagle's algorithm on: 40 ms for an answer at times.
        bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind(("127.0.0.1", self.port))
            bound.listen(1024)
        except OSError as error:
            bound.close()
            raise ApiPortTaken(self.port, error.strerror or str(error)) from error
        self.port = bound.getsockname()[1]
        self._serving = asyncio.create_task(self._server.serve(sockets=[bound]))
        await self._server.listening.wait()

    async def stop(self) -> None:
        """Listen no more. What is being answered is answered; twice is once."""
        if self._serving is None:
            return
        # uvicorn looks ten times a second whether it is to end, and pauses once more on its way:
        # too long for tests that begin and end a carrier each.
        self._serving.cancel()
        await asyncio.wait({self._serving})
        for listening in self._server.servers:
            listening.close()
        for connection in list(self._server.server_state.connections):
            connection.shutdown()
        self._serving = None


class _ApiProcess(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are the business of the program that this carrier is a part of."""
        yield


MOST_TWIML_CHARS: Final = 4_000
DEFAULT_TIMEOUT_S: Final = 60

_DOCS: Final = "https://www.twilio.com/docs/errors"


class RestApi:
    """The endpoint for one account. `app` is what a server runs."""

    def __init__(self, switchboard: Switchboard, auth_token: str) -> None:
        self._switchboard = switchboard
        credentials = f"{switchboard.account_sid}:{auth_token}".encode()
        self._authorization = b"Basic " + base64.b64encode(credentials)
        self._requests = 0
        account = f"/2010-04-01/Accounts/{switchboard.account_sid}"
        self.app = Starlette(
            routes=[
                self._route(f"{account}/Calls.json", self._create, "POST"),
                self._route(f"{account}/Calls/{{sid}}.json", self._update, "POST"),
                self._route(f"{account}/Calls/{{sid}}.json", self._read, "GET"),
                Route("/{rest:path}", _not_found, methods=["GET", "POST", "DELETE"]),
            ]
        )

    def _route(
        self, path: str, answer: Callable[[Request], Awaitable[Response]], method: str
    ) -> Route:
        async def answer_authorized(request: Request) -> Response:
            return self._refusal(request) or await answer(request)

        return Route(path, answer_authorized, methods=[method])

    async def _create(self, request: Request) -> Response:
        fields = await _form(request)
        to, caller = fields.get("To", ""), fields.get("From", "")
        if not to:
            return _error(400, 21201, "No 'To' number is specified")
        if not _is_number(to):
            return _error(
                400, 21211, f"The phone number you are attempting to call, {to}, is not valid."
            )
        if not _is_number(caller):
            return _error(400, 21212, "The source phone number provided is not valid")
        if (refusal := _refused_document(fields, required=True)) is not None:
            return refusal
        call = self._switchboard.dial(
            OutboundRequest(
                to=to,
                caller=caller,
                url=fields.get("Url"),
                document=fields.get("Twiml"),
                timeout_s=float(fields.get("Timeout", DEFAULT_TIMEOUT_S)),
                status_url=fields.get("StatusCallback"),
                events=fields.get("StatusCallbackEvent", "completed").split(" "),
            )
        )
        return JSONResponse(self._resource(call), status_code=201)

    async def _update(self, request: Request) -> Response:
        call = self._switchboard.calls.get(request.path_params["sid"])
        if call is None:
            return await _not_found(request)
        fields = await _form(request)
        status = fields.get("Status")
        if call.status in FINAL or (status is None and call.status != "in-progress"):
            return _error(400, 21220, "Call is not in-progress. Cannot redirect.")
        if status is not None:
            if status not in ("completed", "canceled"):
                return _error(400, 21218, "Invalid call state specified")
            call.stop()
            return JSONResponse(self._resource(call))
        if (refusal := _refused_document(fields, required=False)) is not None:
            return refusal
        try:
            call.order(self._step(fields))
        except TwimlRefused as error:
            return _error(400, error.code, error.reason)
        return JSONResponse(self._resource(call))

    async def _read(self, request: Request) -> Response:
        call = self._switchboard.calls.get(request.path_params["sid"])
        return await _not_found(request) if call is None else JSONResponse(self._resource(call))

    def _step(self, fields: Mapping[str, str]) -> CallStep:
        if "Twiml" in fields:
            return CallStep(document=parse(fields["Twiml"], None))
        return CallStep(fields["Url"])

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, self._authorization):
            return _error(401, 20003, "Authenticate")
        self._requests += 1
        if self._switchboard.fault_dice.throttled(self._requests):
            return _error(429, 20429, "Too Many Requests")
        return None

    def _resource(self, call: CallBase) -> dict[str, Any]:
        identity = call.identity
        path = f"/2010-04-01/Accounts/{identity.account_sid}/Calls/{identity.call_sid}.json"
        return {
            "sid": identity.call_sid,
            "account_sid": identity.account_sid,
            "parent_call_sid": identity.parent_sid,
            "to": identity.called,
            "to_formatted": identity.called,
            "from": identity.caller,
            "from_formatted": identity.caller,
            "status": call.status,
            "direction": identity.direction,
            "duration": str(round(call.report.duration_s)) if call.status in FINAL else None,
            "api_version": "2010-04-01",
            "answered_by": None,
            "uri": path,
            "subresource_uris": {},
        }


def _refused_document(fields: Mapping[str, str], *, required: bool) -> Response | None:
    """An error when what to do next is missing or too long."""
    if len(fields.get("Twiml", "")) > MOST_TWIML_CHARS:
        return _error(400, 32018, f"Twiml is longer than {MOST_TWIML_CHARS} characters")
    if "Url" not in fields and "Twiml" not in fields:
        return _error(400, 21205, "Url parameter is required." if required else "Nothing to do.")
    return None


async def _form(request: Request) -> dict[str, str]:
    """The fields; one that is given several times has its values in a row."""
    fields = parse_qs((await request.body()).decode(), keep_blank_values=True)
    return {name: " ".join(values) for name, values in fields.items()}


async def _not_found(request: Request) -> Response:
    return _error(404, 20404, f"The requested resource {request.url.path} was not found")


def _error(status: int, code: int, message: str) -> Response:
    body = {"code": code, "message": message, "more_info": f"{_DOCS}/{code}", "status": status}
    return JSONResponse(body, status_code=status)


def _is_number(text: str) -> bool:
    return text.startswith("+") and text[1:].isascii() and text[1:].isdigit()
