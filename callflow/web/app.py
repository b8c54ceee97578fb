"""The ASGI app: which address leads where, who is let in, and whether this process is fit.

Every request of the carrier is signed; an unsigned one gets 403 and touches nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from callflow.errors import CallError, SettingsError, StoreError
from callflow.intake import Intake
from callflow.ringing import Ringing
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.replies import Replies
from callflow.store.script import Scripts, connect
from callflow.store.snapshot import Snapshots
from callflow.twilio.rest import Telephone
from callflow.twilio.signature import Signatures
from callflow.twilio.twiml import Twiml
from callflow.twilio.urls import signed_url, socket_url
from callflow.web import hook, humans, relay, voice
from callflow.web.addresses import Addresses
from callflow.web.desk import Desk
from callflow.web.hook import Hook
from callflow.web.party import Party

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 0.5
ANSWER_TIMEOUT_S = 0.7
"""A caller waits for what the store says: twice this, and the utterance rides in the address."""

Handler = Callable[[Party, Hook], Awaitable[Twiml]]

ROUTES: dict[str, Handler] = {
    "/voice/inbound": voice.inbound,
    "/voice/turn": voice.turn,
    "/voice/wait": voice.wait,
    "/voice/status": voice.status,
    "/voice/join": voice.go_on,
    # Asked when another address failed for good, the first one of a call included.
    "/voice/fallback": voice.inbound,
    "/voice/transfer-ended": voice.transfer_ended,
    "/voice/relay-ended": relay.ended,
    "/voice/human": humans.picked_up,
    "/voice/human-left": humans.human_left,
    "/voice/leg-status": humans.leg_status,
}


def create(settings: Settings, sites: Sites, telephone: Telephone | None) -> Starlette:
    """The app. Raises SettingsError for what it cannot do without."""
    url, base = settings.redis_url, settings.public_url
    if url is None or base is None:
        name = "CALLFLOW_REDIS_URL" if url is None else "CALLFLOW_PUBLIC_URL"
        raise SettingsError(name, "not set: the web process cannot answer calls without it")
    shared = settings.twilio_shared_key
    gate = Gate(
        Signatures(settings.webhook_tokens, () if shared is None else (shared.get_secret_value(),)),
        base,
        unsigned=settings.unsigned,
    )

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        timeouts = {"connect_timeout_s": CONNECT_TIMEOUT_S, "answer_timeout_s": ANSWER_TIMEOUT_S}
        with connect(url, **timeouts) as client:
            scripts = Scripts(client)
            store = CallStore(scripts, settings.timing)
            desk = Desk(scripts.where)
            async with Replies.listening(url) as replies:
                party = Party(
                    settings,
                    sites,
                    Intake(store),
                    Ringing(store.handovers, sites, telephone, base),
                    Snapshots(client),
                    replies,
                    desk,
                    Addresses(base),
                )
                yield {
                    "party": party,
                    "gate": gate,
                    "leases": Leases(scripts, settings.timing),
                }
            desk.close()

    routes = [Route(path, _door(handler), methods=["POST"]) for path, handler in ROUTES.items()]
    return Starlette(
        routes=[
            *routes,
            WebSocketRoute("/voice/relay", _socket),
            Route("/healthz", _healthz),
            Route("/readyz", _readyz),
        ],
        lifespan=lifespan,
    )


class Gate:
    """Lets in what the carrier has signed with one of our tokens, and nothing else."""

    def __init__(self, signatures: Signatures, base: str, *, unsigned: bool) -> None:
        self._signatures = signatures
        self._base = base
        self._unsigned = unsigned

    def open(
        self, request: Request | WebSocket, form: list[tuple[str, str]], *, socket: bool = False
    ) -> bool:
        """True for a request that was signed over our public address and this form."""
        if self._unsigned:
            return True
        path = request.url.path
        if socket:
            url = socket_url(self._base, path)
        else:
            url = signed_url(self._base, path, request.url.query)
        return self._signatures.valid(url, form, dict(request.headers))


def _door(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def open_door(request: Request) -> Response:
        try:
            form, one = await hook.read(request)
        except hook.TooLarge as error:
            return PlainTextResponse(str(error), 413)
        except hook.BadRequest as error:
            return PlainTextResponse(str(error), 400)
        if not request.state.gate.open(request, form):
            return PlainTextResponse("not signed by the carrier of this account", 403)
        return await _answered(handler, request.state.party, one)

    return open_door


async def _answered(handler: Handler, party: Party, one: Hook) -> Response:
    try:
        sid = one.call_sid
        twiml = await handler(party, one)
    except StoreError as error:
        # Nothing that must be kept was kept: the carrier is told to ask again, and does.
        log.warning("call %s: %s", sid, error)
        return PlainTextResponse("the store cannot be reached: ask again", 503)
    except (CallError, hook.BadRequest) as error:
        return PlainTextResponse(str(error), 400)
    return Response(twiml.xml(), media_type="text/xml")


async def _socket(socket: WebSocket) -> None:
    if not socket.state.gate.open(socket, [], socket=True):
        await socket.close(code=1008)  # Before it is accepted: the carrier reads 403.
        return
    await relay.serve(socket.state.party, socket)


async def _healthz(request: Request) -> Response:
    """This process runs."""
    return JSONResponse({"ok": True})


async def _readyz(request: Request) -> Response:
    """The store answers and somebody sweeps; 503 and the reason where not."""
    try:
        swept = await request.state.party.desk.ask(request.state.leases.last_sweep)
    except StoreError as error:
        return JSONResponse({"ok": False, "reason": str(error)}, 503)
    if swept is None:
        reason = "nobody has looked for silent workers for a second: start a watchdog worker"
        return JSONResponse({"ok": False, "reason": reason}, 503)
    by, age_ms = swept
    return JSONResponse({"ok": True, "swept_by": by, "swept_ms_ago": age_ms})
