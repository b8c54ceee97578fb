"""Simulates a carrier with one account: people call in, and the application calls out.

Everything that happens on the wire is Twilio's: signed webhooks, TwiML, relay sockets, REST. The
carrier looks into nothing of the application, and keeps what each call was like from outside.

Its REST API goes as far as calls do: make one, redirect one, end one, look at one. It has the same
paths, fields, statuses and error bodies, behind the same basic authentication, on loopback and in
the loop of the carrier.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Self
from urllib.parse import parse_qs

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from callflow.errors import CallflowError
from callflow.lab.carrier.app_network import Network, TwimlRefused
from callflow.lab.carrier.background_tasks import Background
from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.carrier_call import Call, OutboundCall, SimulatedPerson
from callflow.lab.carrier.network_faults import FaultDice, NetworkFaults
from callflow.lab.carrier.phone_account import PhoneAccount
from callflow.lab.carrier.phone_line import EventCallback, Listener
from callflow.lab.carrier.simulated_people import Behaviour, Caller, HumanBehaviour
from callflow.lab.carrier.switchboard import CallBase, CallStep, OutboundRequest, Switchboard
from callflow.lab.carrier.twiml_parser import parse
from callflow.lab.carrier.webhook_client import (
    ALL,
    FINAL,
    CallIdentity,
    HttpClient,
    Webhooks,
)
from callflow.twilio.rest import wanted_settings


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


NUMBER: Final = "+441632960010"
LIFT: Final = "+441632960999"

INTERRUPTED_S: Final = 0.5
"""For the last repeats, when the program is told to end: time to hang up."""

SETTLE_S: Final = 20.0
"""At the end: a webhook takes 15 s at most."""


class Carrier:
    """Use it as an async context: the REST API listens while it lasts, and no call outlives it.

    `targets`: base URLs of the web processes behind `public_url`; the list may be changed at any
    time. `api_port` 0: a free one. `speed`: how many times faster than life everybody speaks;
    silence, thinking and ringing are real time. `humans`: what each number does when it is rung,
    and `human` all others. Addresses of the number are under the public URL unless given;
    `fallback` may be a TwiML document, as one hosted at the carrier. `endpoint_s`: how long the
    carrier needs to notice that somebody has finished speaking (speechTimeout="auto", and on relay
    lines); the caller is silent meanwhile, and the application cannot help it.
    """

    def __init__(
        self,
        targets: Sequence[str],
        public_url: str,
        account_sid: str,
        auth_token: str,
        *,
        api_port: int = 0,
        speed: float = 1.0,
        seed: int = 0,
        network_faults: NetworkFaults | None = None,
        human: HumanBehaviour | None = None,
        humans: Mapping[str, HumanBehaviour] | None = None,
        voice_url: str | None = None,
        status_url: str | None = None,
        fallback: str | None = None,
        endpoint_s: float = 0.0,
    ) -> None:
        self.human = human or HumanBehaviour()
        self.humans = dict(humans or {})
        self.reports: list[CallReport] = []
        """Of the people who called in, in the order in which they did."""
        self.human_calls: list[OutboundCall] = []
        """Of the humans who were rung, in the order in which they were."""
        self._network = Network(public_url, targets)
        base = self._network.public_url
        self._voice_url = voice_url or f"{base}/voice/inbound"
        self._status_url = status_url or f"{base}/voice/status"
        self._fallback = fallback or f"{base}/voice/fallback"
        if self._fallback.lstrip().startswith("<"):
            parse(self._fallback, None)
        self._client = HttpClient()
        self._background = Background()
        self._switchboard = Switchboard(
            account_sid=account_sid,
            network=self._network,
            webhooks=Webhooks(self._network, self._client, auth_token, self._background),
            background=self._background,
            fault_dice=FaultDice(seed, network_faults or NetworkFaults()),
            speed=speed,
            endpoint_s=endpoint_s,
            dial=self._ring,
        )
        self._api = ApiServer(RestApi(self._switchboard, auth_token).app, api_port)

    @classmethod
    def for_account(cls, account: PhoneAccount, **options: Any) -> Self:
        """One whose number is set up as `callflow twilio setup` sets up a real one."""
        number = wanted_settings(account.public_url)
        return cls(
            account.targets,
            account.public_url,
            account.account_sid,
            account.auth_token,
            api_port=account.api_port,
            voice_url=number.voice_url,
            status_url=number.status_callback,
            fallback=number.voice_fallback_url,
            **options,
        )

    @property
    def targets(self) -> list[str]:
        """The web processes; change the list in place."""
        return self._network.targets

    @property
    def api_url(self) -> str:
        """Where the REST API answers, in place of https://api.twilio.com."""
        return f"http://127.0.0.1:{self._api.port}"

    async def __aenter__(self) -> Self:
        await self._api.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for call in list(self._switchboard.calls.values()):
            call.hang_up()
            if isinstance(call, OutboundCall):
                call.stop()
        try:
            # Whoever was interrupted does not wait for the last repeats.
            await self.settle(SETTLE_S if kind is None else INTERRUPTED_S)
        finally:
            await self._client.__aexit__()
            await self._api.stop()

    async def settle(self, within_s: float = SETTLE_S) -> None:
        """Return when all calls are over and the last repeat has arrived; end what takes longer."""
        await self._background.settle(within_s)

    def place(
        self,
        person: Behaviour | SimulatedPerson,
        *,
        to: str = NUMBER,
        from_: str = LIFT,
        call_sid: str | None = None,
        language: str = "en",
        fillers: Collection[str] = (),
        on_event: EventCallback | None = None,
    ) -> Call:
        """Let somebody call. `language` and `fillers` are those of a Behaviour, if it is one."""
        sid = call_sid or self._switchboard.new_sid("CA")
        faults = self._switchboard.faults("caller")
        say_again: Collection[str] = ()
        if isinstance(person, Behaviour):
            say_again = person.say_again
            language, fillers = person.language, person.fillers
            own_faults = faults.of_caller(person.number_of_turns)
            person = Caller(person, own_faults, faults.dice("thinks"))
        identity = CallIdentity(self._switchboard.account_sid, sid, from_, to)
        listener = Listener(identity.new_report(language), fillers, on_event, say_again)
        self.reports.append(listener.report)
        call = Call(self._switchboard, identity, listener, person, faults, self._fallback)
        call.send_callbacks_to(self._status_url, ALL)
        call.become("ringing")
        call.start(call.run(CallStep(self._voice_url)))
        return call

    async def call(
        self,
        person: Behaviour | SimulatedPerson,
        *,
        to: str = NUMBER,
        from_: str = LIFT,
        call_sid: str | None = None,
        on_event: EventCallback | None = None,
    ) -> CallReport:
        placed = self.place(person, to=to, from_=from_, call_sid=call_sid, on_event=on_event)
        return await placed.ended()

    def _ring(self, asked: OutboundRequest) -> OutboundCall:
        faults = self._switchboard.faults("human")
        identity = CallIdentity(
            self._switchboard.account_sid,
            self._switchboard.new_sid("CA"),
            asked.caller,
            asked.to,
            asked.direction,
            asked.parent_sid,
        )
        behaviour = self.humans.get(asked.to, self.human)
        listener = Listener(identity.new_report(""))
        call = OutboundCall(self._switchboard, identity, listener, behaviour, faults, asked)
        call.send_callbacks_to(asked.status_url, asked.events)
        self.human_calls.append(call)
        call.start(call.ring())
        return call


async def load(
    carrier: Carrier,
    person: Callable[[int], Behaviour],
    *,
    calls: int,
    rate_per_s: float,
    to: str = NUMBER,
    from_: str = LIFT,
    placed: Callable[[Call], None] = lambda _: None,
) -> list[CallReport]:
    """Place `calls` calls at an even rate and wait for the end of all.

    `person` gives the behaviour of each by its number from 0; `placed` is told of each call as it
    begins.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    ongoing: list[Call] = []
    for number in range(calls):
        await asyncio.sleep(max(0.0, began + number / rate_per_s - loop.time()))
        call = carrier.place(person(number), to=to, from_=from_)
        ongoing.append(call)
        placed(call)
    return list(await asyncio.gather(*(call.ended() for call in ongoing)))
