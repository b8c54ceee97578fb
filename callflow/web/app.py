"""Builds the web app, which address leads where and who is let in, and runs it on one port.

Every request of the carrier is signed; an unsigned one gets 403 and touches nothing.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from callflow import bootstrap, tracing
from callflow.access import sign_in
from callflow.access.auth import BoardAuth
from callflow.board import actions, pages
from callflow.board.actions import BoardActions
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
from callflow.store.leases import Leases, StaleCalls
from callflow.store.reader import CallReader, CallWatcher
from callflow.store.replies import Replies
from callflow.twilio.rest import Telephone
from callflow.twilio.twiml import Twiml
from callflow.twilio.urls import answered_within
from callflow.web import handoffs, line_webhooks, monitoring, relay, webhook, webhooks
from callflow.web.answers import Addresses, prepare_hints
from callflow.web.call_access import CallAccess
from callflow.web.executor import StoreExecutor, beside
from callflow.web.line_webhooks import StaleCallCheck
from callflow.web.open_lines import OpenLines
from callflow.web.operator_messages import MessageCourier, record_heard
from callflow.web.web_context import WebContext
from callflow.web.webhook import SignatureGate, Signatures

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 0.5
ANSWER_TIMEOUT_S = 0.7
"""A caller waits for what the store says: one answer that does not come, a new connection and
another answer (measured: 1.4 s with a frozen server), and the utterance rides in the address."""

DRAIN_S = 10
"""How long a process that is told to end may go on answering: a reply is awaited for 2.5 s."""

UNSIGNED = (
    "SIGNATURES ARE NOT CHECKED (CALLFLOW_UNSIGNED): anybody who reaches this port can open and "
    "end calls. For development on this machine only."
)

Handler = Callable[[CallAccess], Awaitable[Twiml]]

ROUTES: dict[str, Handler] = {
    "/voice/inbound": line_webhooks.inbound,
    webhook.TURN: webhooks.turn,
    "/voice/wait": webhooks.wait,
    "/voice/status": line_webhooks.line_status,
    "/voice/join": line_webhooks.go_on,
    # Asked when another address failed for good, the first one of a call included.
    "/voice/fallback": line_webhooks.inbound,
    "/voice/transfer-ended": handoffs.transfer_ended,
    "/voice/relay-ended": relay.relay_ended,
    "/voice/human": handoffs.human_picked_up,
    "/voice/human-left": handoffs.human_left,
    "/voice/leg-status": handoffs.leg_status,
}


def create(settings: Settings, sites: Sites, telephone: Telephone | None) -> Starlette:
    """The app. Raises SettingsError for what it cannot do without."""
    url, base = settings.redis_url, settings.public_url
    if url is None or base is None:
        name = "CALLFLOW_REDIS_URL" if url is None else "CALLFLOW_PUBLIC_URL"
        raise SettingsError(name, "not set: the web process cannot answer calls without it")
    shared = settings.twilio_shared_key
    shared_keys = () if shared is None else (shared.get_secret_value(),)
    signatures = Signatures(settings.webhook_tokens, shared_keys)
    gate = SignatureGate(signatures, base, unsigned=settings.unsigned)
    auth = BoardAuth(settings)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[dict[str, Any]]:
        # What is learnt of words at the first use takes a second: no caller is to wait for it.
        dangers("", "")
        prepare_hints()
        async with _parts(settings, sites, telephone, url, base) as parts:
            app.state.feed = parts["feed"]
            yield {"gate": gate, **parts}
        auth.close()

    return Starlette(routes=_routes(auth, sites), lifespan=lifespan)


@asynccontextmanager
async def _parts(
    settings: Settings, sites: Sites, telephone: Telephone | None, url: str, base: str
) -> AsyncIterator[dict[str, Any]]:
    """What requests find in their state while the process runs."""
    timeouts = {"connect_timeout_s": CONNECT_TIMEOUT_S, "answer_timeout_s": ANSWER_TIMEOUT_S}
    with connect(url, **timeouts) as client:
        scripts = Scripts(client, replicas=Replicas(*settings.replicas))
        store = CallStore(
            scripts, settings.timing, settings.thread_most_entries, settings.archiving
        )
        executor = StoreExecutor(scripts.where)
        async with Replies.listening(url) as replies:
            web = WebContext(
                settings,
                sites,
                Intake(store),
                Ringing(store.handovers, sites, telephone, base),
                CallReader(client),
                replies,
                executor,
                OpenLines(store.lines, executor),
                Addresses(base, patience=answered_within(settings.reply_wait_s)),
            )
            bring = MessageCourier(web).from_any_thread()
            fitness = monitoring.Health(scripts, settings.timing, executor)
            async with (
                beside(web.lines.beat_all()),
                beside(fitness.watch()),
                _checking_stale_calls(web, scripts),
                _reading_all_calls(settings, sites, scripts, executor) as all_calls,
            ):
                yield {
                    "web": web,
                    "health": fitness,
                    **all_calls,
                    "actions": BoardActions(
                        store, web.reader, web.ringing, bring, executor.background
                    ),
                }
        executor.close()


def _routes(auth: BoardAuth, sites: Sites) -> list[BaseRoute]:
    return [
        *(Route(path, _endpoint(handler), methods=["POST"]) for path, handler in ROUTES.items()),
        WebSocketRoute("/voice/relay", _socket),
        Route("/healthz", monitoring.healthz),
        Route("/readyz", monitoring.readyz),
        Route("/health", monitoring.health),
        Route("/metrics", monitoring.serve_metrics),
        *sign_in.routes(auth),
        *pages.routes(auth, sites),
        *actions.routes(auth),
    ]


@asynccontextmanager
async def _reading_all_calls(
    settings: Settings, sites: Sites, scripts: Scripts, executor: StoreExecutor
) -> AsyncIterator[dict[str, Any]]:
    """The one reader of all calls, for boards and metrics."""
    staff = partial(WorkforceStatus.read, ReportStore(scripts), Leases(scripts, settings.timing))
    feed = Feed(BoardReader(CallWatcher(scripts.client), staff, sites.get))
    service = monitoring.MetricsService(settings, sites, scripts.client, executor)
    async with feed.running(), service.running(feed):
        yield {"feed": feed, "metrics": service}


def _checking_stale_calls(web: WebContext, scripts: Scripts) -> AbstractAsyncContextManager[None]:
    """Only where there is a carrier to ask."""
    if web.ringing.telephone is None:
        return nullcontext()
    lines = StaleCalls(scripts, round(web.settings.line_check_s * 1000))
    return beside(StaleCallCheck(web, web.ringing.telephone, lines).look())


def _endpoint(handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            form, voice = await webhook.read_webhook(request)
            if not request.state.gate.admits(request, form):
                return PlainTextResponse("not signed by the carrier of this account", 403)
            with webhook.logged_and_traced(request.scope["path"], voice):
                try:
                    call = await record_heard(CallAccess.by_request(request.state.web, voice))
                    twiml = await handler(call)
                    if twiml.relays:
                        await call.web.lines.expect_socket(call.call_sid)
                except StoreError as error:
                    log.warning("call %s: %s", voice.call_sid, error)
                    raise
        except webhook.TooLarge as error:
            return PlainTextResponse(str(error), 413)
        except (CallError, webhook.BadRequest) as error:
            return PlainTextResponse(str(error), 400)
        except StoreError:
            # Nothing that must be kept was kept: the carrier is told to ask again, and does.
            return PlainTextResponse("the store cannot be reached: ask again", 503)
        return Response(twiml.xml(), media_type="text/xml")

    return answer


async def _socket(socket: WebSocket) -> None:
    if not socket.state.gate.admits_socket(socket):
        await socket.close(code=1008)  # Before it is accepted: the carrier reads 403.
        return
    await relay.serve_socket(socket.state.web, socket)


def check_settings(settings: Settings, host: str) -> None:
    """Raises SettingsError for a process that could not answer calls, or would let anybody in."""
    if settings.unsigned and not _loopback(host):
        raise SettingsError(
            "CALLFLOW_UNSIGNED",
            f"set, and {host} can be reached from other machines: unsigned webhooks are believed "
            "on loopback only; unset it, or listen on 127.0.0.1",
        )
    if not settings.unsigned and not settings.webhook_tokens:
        raise SettingsError(
            "CALLFLOW_TWILIO_AUTH_TOKEN",
            "not set: webhooks could not be told from forgeries (CALLFLOW_UNSIGNED=1 turns the "
            "check off, on loopback)",
        )
    if settings.public_url is None:
        raise SettingsError(
            "CALLFLOW_PUBLIC_URL",
            "not set: it is the address at which the carrier reaches us, and part of what it signs",
        )
    if settings.sites is None:
        raise SettingsError(
            "CALLFLOW_SITES",
            "not set: it names the file that says which lift calls and whom to ring for it; "
            "begin with sites.example.yaml, and try it with `callflow sites check FILE`",
        )


def serve(host: str, port: int) -> None:
    """Answer calls on `host` and `port` until SIGTERM. Raises SettingsError, SitesError and
    TracesMissing. Logs as the process does."""
    settings = bootstrap.settings()
    check_settings(settings, host)
    tracing.begin(settings.traces_url, "web")
    # Each caller who waits has a connection, and 1,024 of them is what systems allow by default.
    _, allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, allowed))
    app = create(settings, bootstrap.sites(), bootstrap.telephone())
    server = _Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            # The process has one log already, and uvicorn's own would have what callers say.
            log_config=None,
            # Addresses carry what callers say while the store is gone: no log may have them.
            access_log=False,
            ws="websockets-sansio",
            ws_max_size=64 * 1024,
            # A carrier that cannot be reached is noticed before the caller has waited for 4 s.
            ws_ping_interval=1.0,
            ws_ping_timeout=1.2,
            # Balancers keep idle connections for 60 s: whoever closes first must not be us.
            timeout_keep_alive=75,
            # Whatever a proxy says of itself: the signature is over the public address alone.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_S,
            backlog=2048,
        )
    )
    with suppress(KeyboardInterrupt):  # It has ended as it should by then.
        server.run()
    if not server.started:
        raise SystemExit(3)  # As uvicorn.run does; the log says why.


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let open boards go first: their streams have no end of their own."""
        feed = getattr(self.config.app.state, "feed", None)  # type: ignore[union-attr]
        if feed is not None:
            feed.end()
        await super().shutdown(sockets)


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
