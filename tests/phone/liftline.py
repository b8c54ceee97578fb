"""A small application for the carrier to call: it speaks the TwiML that callflow speaks, by script.

Each test changes the handlers that it is about. Every request is kept, with what Twilio's own
validator says about its signature.
"""

from __future__ import annotations

import asyncio
import functools
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, ParamSpec
from urllib.parse import parse_qsl, urlencode

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from twilio.request_validator import RequestValidator

from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.simulated_people import Behaviour

PUBLIC = "https://lifts.example.org"
ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "token-of-the-tests"
FAST = 150.0
QUICK = "#ct=200&rt=2000&tt=5000&rc=2&rp=all"


@dataclass(frozen=True, slots=True)
class Asked:
    """One webhook as it arrived."""

    path: str
    query: Mapping[str, str]
    fields: Mapping[str, str]
    headers: Mapping[str, str]
    signed: bool
    port: int

    @property
    def sid(self) -> str:
        """Which line it is about."""
        return self.fields["CallSid"]


P = ParamSpec("P")


def in_event_loop(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run an async test to its end."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


Handler = Callable[[Asked], Awaitable[str | Response]]
Talk = Callable[[WebSocket], Awaitable[None]]


def response(*verbs: str) -> str:
    return f"<Response>{''.join(verbs)}</Response>"


def say(text: str) -> str:
    return f"<Say>{text}</Say>"


def url(path: str, **query: object) -> str:
    asked = f"?{urlencode(query)}" if query else ""
    return f"{PUBLIC}{path}{asked}{QUICK}".replace("&", "&amp;")


def gather(text: str, turn: int, timeout: int = 5, **attributes: str) -> str:
    given = {"input": "speech dtmf", "speechTimeout": "auto", "actionOnEmptyResult": "true"}
    given |= {"numDigits": "1", **attributes}
    shown = " ".join(f'{name}="{value}"' for name, value in given.items())
    prompt = say(text) if text else ""
    action = url("/voice/turn", n=turn)
    return f'<Gather action="{action}" timeout="{timeout}" {shown}>{prompt}</Gather>'


def relay(**attributes: str) -> str:
    shown = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    socket = "wss://lifts.example.org/voice/relay"
    return (
        f'<Connect action="{url("/voice/relay-ended")}">'
        f'<ConversationRelay url="{socket}" dtmfDetection="true" {shown}>'
        '<Parameter name="lift" value="L1"/></ConversationRelay></Connect>'
    )


@dataclass
class LiftLine:
    """The application. `handlers` by path, `talk` for the relay socket."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    talk: Talk | None = None
    asked: list[Asked] = field(default_factory=list)
    port: int = 0
    socket_signatures: list[bool] = field(default_factory=list)

    def to(self, path: str) -> list[Asked]:
        """All webhooks for this path so far."""
        return [one for one in self.asked if one.path == path]

    async def answer(self, request: Request) -> Response:
        raw = (await request.body()).decode()
        fields = dict(parse_qsl(raw, keep_blank_values=True))
        query = f"?{request.url.query}" if request.url.query else ""
        signature = request.headers.get("x-twilio-signature", "")
        whole = f"{PUBLIC}{request.url.path}{query}"
        asked = Asked(
            request.url.path,
            dict(request.query_params),
            fields,
            dict(request.headers),
            RequestValidator(TOKEN).validate(whole, fields, signature),
            self.port,
        )
        self.asked.append(asked)
        handler = self.handlers.get(asked.path) or _USUAL.get(asked.path)
        answer = await handler(asked) if handler else Response(status_code=404)
        return answer if isinstance(answer, Response) else Response(answer, media_type="text/xml")

    async def relay(self, websocket: WebSocket) -> None:
        signature = websocket.headers.get("x-twilio-signature", "")
        at = PUBLIC.replace("https", "wss") + websocket.url.path
        self.socket_signatures.append(RequestValidator(TOKEN).validate(at, {}, signature))
        await websocket.accept()
        assert self.talk is not None, "this test gave no talk"
        try:
            await self.talk(websocket)
        except WebSocketDisconnect:
            """The carrier has hung up; a talk that minds says so itself."""

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                WebSocketRoute("/voice/relay", self.relay),
                Route("/{path:path}", self.answer, methods=["POST"]),
            ]
        )


async def _inbound(asked: Asked) -> str:
    return response(gather("Are you inside the lift?", 1))


async def _turn(asked: Asked) -> str:
    turn = int(asked.query["n"])
    return response(gather(f"Reply {turn}: help is coming.", turn + 1))


async def _nothing(asked: Asked) -> str:
    return response()


async def _hangup(asked: Asked) -> str:
    return response("<Hangup/>")


_USUAL: dict[str, Handler] = {
    "/voice/inbound": _inbound,
    "/voice/turn": _turn,
    "/voice/status": _nothing,
    "/voice/leg-status": _nothing,
    "/voice/relay-ended": _hangup,
    "/voice/transfer-ended": _hangup,
}


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(line: LiftLine, port: int = 0) -> AsyncIterator[str]:
    """Serve it here; yields the base URL of the process."""
    # Named as TCP: asyncio turns Nagle's algorithm off for no other socket.
    bound = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    bound.listen(512)
    line.port = bound.getsockname()[1]
    config = uvicorn.Config(
        line.app, log_level="critical", access_log=False, lifespan="off", ws="websockets-sansio"
    )
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[bound]))
    try:
        yield f"http://127.0.0.1:{line.port}"
    finally:
        # As a process dies, and not as uvicorn drains: that takes a fifth of a second.
        serving.cancel()
        await asyncio.wait({serving})
        for listening in server.servers:
            listening.close()
        for connection in list(server.server_state.connections):
            connection.transport.abort()


@asynccontextmanager
async def carrier_of(line: LiftLine, **options: Any) -> AsyncIterator[Carrier]:
    """The application, and a carrier that calls it."""
    async with served(line) as target:
        given: dict[str, Any] = {"speed": FAST, "seed": 7}
        given |= {"voice_url": f"{PUBLIC}/voice/inbound{QUICK}"}
        given |= {"status_url": f"{PUBLIC}/voice/status{QUICK}"}
        given |= {"fallback": f"{PUBLIC}/voice/fallback{QUICK}", **options}
        async with Carrier([target], PUBLIC, ACCOUNT, TOKEN, **given) as carrier:
            yield carrier


def person(*lines: str, **changes: Any) -> Behaviour:
    """Somebody who speaks at once."""
    return Behaviour(lines, **{"think_s": (0.0, 0.01), **changes})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def receive(websocket: WebSocket) -> dict[str, Any]:
    """The next frame."""
    frame = json.loads(await websocket.receive_text())
    assert isinstance(frame, dict)
    return frame


async def prompt(websocket: WebSocket) -> str:
    """What the person says next, once they have finished."""
    while True:
        frame = await receive(websocket)
        if frame["type"] == "prompt" and frame["last"]:
            return str(frame["voicePrompt"])


async def speak(websocket: WebSocket, *tokens: str) -> None:
    """Say these tokens; the last one ends the message."""
    for number, token in enumerate(tokens, 1):
        last = number == len(tokens)
        await websocket.send_text(json.dumps({"type": "text", "token": token, "last": last}))
