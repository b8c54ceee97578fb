"""Twilio's REST API as far as calls go: make one, redirect one, end one, look at one.

The same paths, fields, statuses and error bodies, behind the same basic authentication.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callflow.lab.carrier.exchange import Exchange, Outbound
from callflow.lab.carrier.failure import TwimlRefused
from callflow.lab.carrier.leg import Leg, Step
from callflow.lab.carrier.outbound import OutboundLeg
from callflow.lab.carrier.status import FINAL
from callflow.lab.carrier.twiml import parse

MOST_TWIML_CHARS: Final = 4_000
DEFAULT_TIMEOUT_S: Final = 60

_DOCS: Final = "https://www.twilio.com/docs/errors"


class RestApi:
    """The endpoint for one account. `app` is what a server runs."""

    def __init__(self, exchange: Exchange, auth_token: str) -> None:
        self._exchange = exchange
        credentials = f"{exchange.account_sid}:{auth_token}".encode()
        self._authorization = b"Basic " + base64.b64encode(credentials)
        self._requests = 0
        account = f"/2010-04-01/Accounts/{exchange.account_sid}"
        self.app = Starlette(
            routes=[
                Route(f"{account}/Calls.json", self._create, methods=["POST"]),
                Route(f"{account}/Calls/{{sid}}.json", self._update, methods=["POST"]),
                Route(f"{account}/Calls/{{sid}}.json", self._read, methods=["GET"]),
                Route("/{rest:path}", _not_found, methods=["GET", "POST", "DELETE"]),
            ]
        )

    async def _create(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
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
        leg = self._exchange.dial(
            Outbound(
                to=to,
                caller=caller,
                url=fields.get("Url"),
                document=fields.get("Twiml"),
                timeout_s=float(fields.get("Timeout", DEFAULT_TIMEOUT_S)),
                status_url=fields.get("StatusCallback"),
                events=fields.get("StatusCallbackEvent", "completed").split(" "),
            )
        )
        return JSONResponse(self._resource(leg), status_code=201)

    async def _update(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        leg = self._exchange.legs.get(request.path_params["sid"])
        if leg is None:
            return await _not_found(request)
        fields = await _form(request)
        status = fields.get("Status")
        if leg.status in FINAL or (status is None and leg.status != "in-progress"):
            return _error(400, 21220, "Call is not in-progress. Cannot redirect.")
        if status is not None:
            if status not in ("completed", "canceled"):
                return _error(400, 21218, "Invalid call state specified")
            _end(leg)
            return JSONResponse(self._resource(leg))
        if (refusal := _refused_document(fields, required=False)) is not None:
            return refusal
        try:
            leg.order(self._step(fields))
        except TwimlRefused as error:
            return _error(400, error.code, error.reason)
        return JSONResponse(self._resource(leg))

    async def _read(self, request: Request) -> Response:
        if (refusal := self._refusal(request)) is not None:
            return refusal
        leg = self._exchange.legs.get(request.path_params["sid"])
        return await _not_found(request) if leg is None else JSONResponse(self._resource(leg))

    def _step(self, fields: Mapping[str, str]) -> Step:
        if "Twiml" in fields:
            return Step(document=parse(fields["Twiml"], None))
        return Step(fields["Url"])

    def _refusal(self, request: Request) -> Response | None:
        given = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(given, self._authorization):
            return _error(401, 20003, "Authenticate")
        self._requests += 1
        if self._exchange.chance.throttled(self._requests):
            return _error(429, 20429, "Too Many Requests")
        return None

    def _resource(self, leg: Leg) -> dict[str, Any]:
        identity = leg.identity
        path = f"/2010-04-01/Accounts/{identity.account_sid}/Calls/{identity.call_sid}.json"
        return {
            "sid": identity.call_sid,
            "account_sid": identity.account_sid,
            "parent_call_sid": identity.parent_sid,
            "to": identity.called,
            "to_formatted": identity.called,
            "from": identity.caller,
            "from_formatted": identity.caller,
            "status": leg.status,
            "direction": identity.direction,
            "duration": str(round(leg.report.duration_s)) if leg.status in FINAL else None,
            "api_version": "2010-04-01",
            "answered_by": None,
            "uri": path,
            "subresource_uris": {},
        }


def _end(leg: Leg) -> None:
    if isinstance(leg, OutboundLeg):
        leg.stop()
    else:
        leg.order(None)


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
