"""The ASGI app: which address leads where, and who is let in.

Every request of the carrier is signed; an unsigned one gets 403 and touches nothing.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from callflow.access import sign_in
from callflow.access.auth import BoardAuth
from callflow.board import actions, pages
from callflow.board.actions import StaffActions
from callflow.board.board_reader import BoardReader
from callflow.board.feed import Feed
from callflow.errors import CallError, SettingsError, StoreError
from callflow.handover import Ringing
from callflow.health.deployment_checks import WorkforceStatus
from callflow.health.worker_reports import ReportStore
from callflow.intake import Intake
from callflow.language.danger import dangers
from callflow.redis.client import connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.reader import CallReader, CallWatcher
from callflow.store.replies import Replies
from callflow.store.stale_calls import StaleCalls
from callflow.twilio.rest import Telephone
from callflow.twilio.signature import Signatures
from callflow.twilio.twiml import Twiml
from callflow.twilio.urls import signed_url, socket_url
from callflow.web import (
    arrival,
    back,
    by_webhook,
    ending,
    health,
    hook,
    humans,
    metrics,
    quiet,
    relay,
    voice,
)
from callflow.web.addresses import Addresses
from callflow.web.desk import Desk
from callflow.web.hook import Hook
from callflow.web.party import Party

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 0.5
ANSWER_TIMEOUT_S = 0.7
"""A caller waits for what the store says: one answer that does not come, a new connection and
another answer (measured: 1.4 s with a frozen server), and the utterance rides in the address."""

Handler = Callable[[Party, Hook], Awaitable[Twiml]]

ROUTES: dict[str, Handler] = {
    "/voice/inbound": arrival.inbound,
    hook.TURN: voice.turn,
    "/voice/wait": voice.wait,
    "/voice/status": ending.status,
    "/voice/join": voice.go_on,
    # Asked when another address failed for good, the first one of a call included.
    "/voice/fallback": arrival.inbound,
    "/voice/transfer-ended": back.transfer_ended,
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

    auth = BoardAuth(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        # What is learnt of words at the first use takes a second: no caller is to wait for it.
        dangers("", "")
        timeouts = {"connect_timeout_s": CONNECT_TIMEOUT_S, "answer_timeout_s": ANSWER_TIMEOUT_S}
        with connect(url, **timeouts) as client:
            scripts = Scripts(client, replicas=Replicas(*settings.replicas))
            store = CallStore(
                scripts, settings.timing, settings.thread_most_entries, settings.archiving
            )
            desk = Desk(scripts.where)
            async with Replies.listening(url) as replies:
                party = Party(
                    settings,
                    sites,
                    Intake(store),
                    Ringing(store.handovers, sites, telephone, base),
                    CallReader(client),
                    replies,
                    desk,
                    Addresses(base),
                )
                bring = by_webhook.Bringing(party).from_any_thread()
                fitness = health.Health(scripts, settings.timing, desk)
                async with (
                    fitness.watching(),
                    _asking(party, telephone, scripts),
                    _looking(settings, sites, scripts, desk) as looking,
                ):
                    app.state.feed = looking["feed"]
                    yield {
                        "party": party,
                        "gate": gate,
                        "health": fitness,
                        **looking,
                        "actions": StaffActions(
                            store, party.snapshots, party.ringing, bring, desk.errand
                        ),
                    }
            desk.close()
        auth.close()

    return Starlette(routes=_routes(auth, sites), lifespan=lifespan)


def _routes(auth: BoardAuth, sites: Sites) -> list[BaseRoute]:
    return [
        *(Route(path, _door(handler), methods=["POST"]) for path, handler in ROUTES.items()),
        WebSocketRoute("/voice/relay", _socket),
        Route("/healthz", health.healthz),
        Route("/readyz", health.readyz),
        Route("/health", health.health),
        Route("/metrics", metrics.endpoint),
        *sign_in.routes(auth),
        *pages.routes(auth, sites),
        *actions.routes(auth),
    ]


@asynccontextmanager
async def _looking(
    settings: Settings, sites: Sites, scripts: Scripts, desk: Desk
) -> AsyncIterator[dict[str, Any]]:
    """The one reader of all calls, for boards and metrics."""
    staff = partial(WorkforceStatus.read, ReportStore(scripts), Leases(scripts, settings.timing))
    feed = Feed(BoardReader(CallWatcher(scripts.client), staff, sites.get))
    service = metrics.MetricsService(settings, sites, scripts.client, desk)
    async with feed.running(), service.running(feed):
        yield {"feed": feed, "metrics": service}


def _asking(
    party: Party, telephone: Telephone | None, scripts: Scripts
) -> AbstractAsyncContextManager[None]:
    """Quiet lines are asked for, where there is a carrier to ask."""
    if telephone is None:
        return nullcontext()
    return quiet.asking(
        party, telephone, StaleCalls(scripts, round(party.settings.line_check_s * 1000))
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
        return await _answered(handler, request, one)

    return open_door


async def _answered(handler: Handler, request: Request, one: Hook) -> Response:
    try:
        sid = one.call_sid
        with hook.told(request.scope["path"], one):
            try:
                party = await by_webhook.heard(request.state.party, one)
                twiml = await handler(party, one)
            except StoreError as error:
                log.warning("call %s: %s", sid, error)
                raise
    except StoreError:
        # Nothing that must be kept was kept: the carrier is told to ask again, and does.
        return PlainTextResponse("the store cannot be reached: ask again", 503)
    except (CallError, hook.BadRequest) as error:
        return PlainTextResponse(str(error), 400)
    return Response(twiml.xml(), media_type="text/xml")


async def _socket(socket: WebSocket) -> None:
    if not socket.state.gate.open(socket, [], socket=True):
        await socket.close(code=1008)  # Before it is accepted: the carrier reads 403.
        return
    await relay.serve(socket.state.party, socket)
