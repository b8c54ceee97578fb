"""Authenticates and authorizes every request of the board.

Every address of the board is a route made here, so none can be open by an oversight. Nobody who
has not signed in sees more than the page on which one does; where nothing says who may sign in,
there is no board at all. How people reach the board is as the settings say and never as a request
says: any of its headers may be a stranger's.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from callflow.access.sessions import (
    BoardUser,
    Lifetimes,
    Sessions,
    SessionUser,
    csrf_token,
    same_secret,
)
from callflow.access.users_file import Users, UsersError
from callflow.call.role import Permission
from callflow.errors import CallflowError, SettingsError, StoreError, StoreUnreplicated
from callflow.redis.client import connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.settings import LOOPBACK, Settings
from callflow.store.audit import Audit

log = logging.getLogger(__name__)

SIGN_IN = "/board/sign-in"

MOST_BYTES = 64 * 1024
"""Of a form: a note or a phrase is a few hundred bytes."""

THREADS = 4
"""Sessions are asked for in threads of their own, so that callers never wait for a board."""

ANSWER_TIMEOUT_S = 0.7
"""As callers' own questions to the store (web/app.py): a board shows that it is stale meanwhile."""

RECHECK_S = 2.0
"""How often it is checked whether the session behind an open stream has ended."""

STORE_GONE_S = 30.0
"""So long a stream goes on while the store does not answer: a failover is over by then, and until
then boards show that what they show is old."""

PersonHandler = Callable[[Request, BoardUser], Awaitable[Response]]
PublicHandler = Callable[[Request], Awaitable[Response]]
P = ParamSpec("P")
T = TypeVar("T")

NOT_CONFIGURED = (
    "There is no board here: nothing says who may see it. Make users with `callflow users add` and "
    "name their file in CALLFLOW_USERS, or name a provider of accounts in CALLFLOW_OIDC_ISSUER."
)


class SignInRefused(CallflowError):
    """An account provider's answer lets nobody in. `word` is what the page says, `by` whom it is
    about, if that is known; the reason is for the log."""

    def __init__(self, word: str, reason: str = "", by: str = "") -> None:
        self.word = word
        self.by = by
        super().__init__(f"nobody was let in by OpenID Connect: {reason or word}")


class BoardAuth:
    """Makes the board's routes and keeps its sessions; one per process. `close` it in the end."""

    def __init__(self, settings: Settings) -> None:
        """Asks nobody anything yet. Raises SettingsError for a store that is not named."""
        base = settings.board_url or settings.public_url
        if settings.redis_url is None or base is None:
            raise SettingsError("CALLFLOW_REDIS_URL", "not set: sessions are kept there")
        self.settings = settings
        self.origin = BoardOrigin(base, settings.board_proxies)
        self.users = None if settings.users is None else Users(settings.users)
        self._client = connect(
            settings.redis_url,
            connect_timeout_s=ANSWER_TIMEOUT_S,
            answer_timeout_s=ANSWER_TIMEOUT_S,
        )
        self.scripts = Scripts(self._client, replicas=Replicas(*settings.replicas))
        self.sessions = Sessions(
            self.scripts,
            Lifetimes(round(settings.session_idle_s * 1000), round(settings.session_most_s * 1000)),
        )
        self._audit = Audit(self.scripts)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="auth")

    @property
    def configured(self) -> bool:
        """Whether anybody can sign in at all."""
        return self.users is not None or self.settings.oidc_issuer is not None

    def close(self) -> None:
        """Let go of the store. Twice is once."""
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._client.close()

    def route(
        self,
        path: str,
        handler: PersonHandler,
        *,
        permission: Permission = Permission.LOOK,
        methods: Sequence[str] = ("GET",),
    ) -> Route:
        """A route for people who have signed in and have `permission`.

        Where a form is sent it must be ours, with the session's CSRF token, urlencoded and of at
        most 64 KiB; the handler finds its fields in `request.state.form`. A stream ends with the
        session.
        """

        async def guarded(request: Request) -> Response:
            user = await self._session_user(request)
            if user is None:
                return self._ask_to_sign_in(request)
            person = user.person
            if not person.role.can(permission):
                return PlainTextResponse(
                    f"{person.name} is signed in as {person.role}, who may not "
                    f"{permission} here: ask an admin for another role",
                    403,
                )
            if request.method not in ("GET", "HEAD"):
                await self._read_form(request, SESSION_COOKIE)
            response = await handler(request, person)
            if isinstance(response, StreamingResponse):
                response.body_iterator = stream_while_valid(
                    response.body_iterator, partial(self._is_valid, request)
                )
            return response

        return self._make_route(path, guarded, methods)

    def public_route(
        self, path: str, handler: PublicHandler, *, methods: Sequence[str] = ("GET",)
    ) -> Route:
        """A route for anybody: the way to a session. Forms must be ours here, too, with the token
        of the page that they are from."""

        async def opened(request: Request) -> Response:
            if request.method not in ("GET", "HEAD"):
                await self._read_form(request, PRE_SESSION_COOKIE)
            return await handler(request)

        return self._make_route(path, opened, methods)

    def static_files(self, path: str, folder: Path) -> Route:
        """Scripts, styles and sounds, for anybody: they are callflow's own, and tell of no call."""
        static = StaticFiles(directory=folder)

        async def file(request: Request) -> Response:
            return await static.get_response(request.path_params["name"], request.scope)

        return self._make_route(f"{path}/{{name:path}}", file, ("GET",))

    def csrf_token(self, request: Request) -> str:
        """What a form of the page that answers this request must bring along, as `csrf`."""
        token = self.origin.read_cookie(request, SESSION_COOKIE)
        return csrf_token(token) if token else ""

    async def audit(self, person: BoardUser, permission: Permission, call_sid: str) -> None:
        """Keep that somebody did this in a call; before they are shown what they asked for."""
        log.info("%s: %s by %s", call_sid, permission, person.name)
        await self.run(self._audit.record, call_sid, person.name, str(permission))

    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that blocks, such as a question to the store, in a thread of its own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(function, *args, **kwargs))

    async def begin_session(self, request: Request, response: Response, user: SessionUser) -> None:
        """Begin a session for somebody who has just shown who they are, with a token that nobody
        has seen before; what the browser had is worth nothing any more."""
        former = self.origin.read_cookie(request, SESSION_COOKIE)
        # Not assured: while replicas are gone people must be able to come in.
        await self.run(self.sessions.end, former, assured=False)
        token = await self.run(self.sessions.begin, user)
        self.origin.delete_cookie(response, PRE_SESSION_COOKIE)
        self.origin.set_cookie(response, SESSION_COOKIE, token)

    async def end_session(self, request: Request, response: Response, *, everywhere: bool) -> None:
        """End the session of this request, or all that its user has.

        Raises StoreUnreplicated where a failover might undo that: then this one goes on, so that
        its user can see that, and ask again.
        """
        token = self.origin.read_cookie(request, SESSION_COOKIE)
        user = await self.run(self.sessions.find, token)
        try:
            await self.run(self.sessions.end_all if everywhere else self.sessions.end, token)
        except StoreUnreplicated:
            if user is not None:
                await self.run(self.sessions.begin, user, token)
            raise
        self.origin.delete_cookie(response, SESSION_COOKIE)

    async def _session_user(self, request: Request) -> SessionUser | None:
        token = self.origin.read_cookie(request, SESSION_COOKIE)
        user = await self.run(self.sessions.find, token) if token else None
        return user if user is not None and self._is_unchanged(user) else None

    def _is_unchanged(self, user: SessionUser) -> bool:
        """True while they are who they were when the session began."""
        if user.source == "oidc":
            return self.settings.oidc_issuer is not None
        found = None if self.users is None else self.users.find(user.subject)
        return found is not None and found[1].session_user(found[0]).stamp == user.stamp

    def _ask_to_sign_in(self, request: Request) -> Response:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{SIGN_IN}?next={quote(there, safe='/')}", 303)
        return PlainTextResponse(f"sign in first, at {SIGN_IN}", 401)

    async def _read_form(self, request: Request, cookie: str) -> None:
        """Read a form of our own. Raises HTTPException for one that is not."""
        if not self.origin.sent(request):
            raise HTTPException(
                403,
                f"this was sent from a page that is not ours: use the board at {self.origin.url}",
            )
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MOST_BYTES:
                raise HTTPException(413, f"a form may have {MOST_BYTES} bytes")
        try:
            form = dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=100))
        except ValueError as error:
            raise HTTPException(400, "this is no form that we could read") from error
        token = self.origin.read_cookie(request, cookie)
        given = request.headers.get("x-csrf") or form.get("csrf", "")
        if not token or not same_secret(given, csrf_token(token)):
            raise HTTPException(
                403, "the page that sent this is from before you signed in: load it again"
            )
        request.state.form = form

    async def _is_valid(self, request: Request) -> bool:
        try:
            return await self._session_user(request) is not None
        except UsersError as error:
            log.warning("the board: %s", error)
            return False

    def _make_route(self, path: str, handler: PublicHandler, methods: Sequence[str]) -> Route:
        async def endpoint(request: Request) -> Response:
            return self.origin.add_headers(await self._answer(handler, request))

        return Route(path, endpoint, methods=list(methods))

    async def _answer(self, handler: PublicHandler, request: Request) -> Response:
        if not self.configured:
            return PlainTextResponse(NOT_CONFIGURED, 404)
        try:
            return await handler(request)
        except HTTPException as error:
            return PlainTextResponse(error.detail, error.status_code, error.headers)
        except (StoreError, UsersError) as error:
            # Where the store or a file is, is nobody's business who has not signed in.
            log.warning("the board: %s", error)
            return PlainTextResponse("the board cannot be shown now: try again in a moment", 503)


async def stream_while_valid(
    parts: AsyncIterable[Any], is_valid: Callable[[], Coroutine[Any, Any, bool]]
) -> AsyncIterator[Any]:
    """The parts of a stream, as they come, until the session behind it has ended.

    It is checked while the stream goes on, and whenever a part comes: a stream must say something
    every second.
    """
    loop = asyncio.get_running_loop()
    known_at = checked_at = loop.time()
    check: asyncio.Task[bool] | None = None
    try:
        async for part in parts:
            now = loop.time()
            if check is not None and check.done():
                if not isinstance(check.exception(), StoreError):
                    if not check.result():
                        return
                    known_at = now
                checked_at, check = now, None
            if now - known_at > STORE_GONE_S:
                return
            if check is None and now - checked_at > RECHECK_S:
                check = asyncio.create_task(is_valid())
            yield part
    finally:
        if check is not None:
            check.cancel()
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


SESSION_COOKIE, PRE_SESSION_COOKIE = "callflow-session", "callflow-before"
"""Of somebody who has signed in, and of a browser in which somebody is about to."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; media-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""Scripts and styles come from our own files alone: a caller's words that get into a page by our
mistake are not run (https://www.w3.org/TR/CSP3/)."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: with it browsers send `Origin: null` along with our own forms.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "Cache-Control": "no-store",
}

HSTS = "max-age=31536000"
"""A year of https alone, for this host and not for others of the domain."""


class BoardOrigin:
    """Where the board is for people (`url`), behind how many proxies of ours."""

    def __init__(self, url: str, proxies: int = 0) -> None:
        parts = urlsplit(url)
        self.url = f"{parts.scheme}://{parts.netloc}"
        self.secure = parts.scheme == "https"
        self.hides_passwords = self.secure or parts.hostname in LOOPBACK
        """False where somebody in between could read a password: then nobody signs in."""
        self._proxies = proxies

    def add_headers(self, response: Response) -> Response:
        """The same answer with the security headers that every answer must have."""
        response.headers.update(HEADERS)
        if self.secure:
            response.headers["Strict-Transport-Security"] = HSTS
        return response

    def sent(self, request: Request) -> bool:
        """True for a form from a page of ours. Browsers say where it comes from, and send `null`
        or nothing where they will not tell: that is not ours either."""
        origin = request.headers.get("origin", "").lower()
        if origin == self.url.lower():
            return True
        # On this machine it has several names, and another port at the end of a tunnel.
        host = request.headers.get("host", "").lower()
        return (
            not self.secure and origin == f"http://{host}" and urlsplit(origin).hostname in LOOPBACK
        )

    def read_cookie(self, request: Request, name: str) -> str:
        """The token in a cookie of ours; empty where the browser has none."""
        return request.cookies.get(self._full_name(name), "")

    def set_cookie(self, response: Response, name: str, token: str) -> None:
        """Have the browser keep `token` until it is closed; scripts cannot read it, and other
        sites' pages make it send it with links alone."""
        name = self._full_name(name)
        response.set_cookie(name, token, secure=self.secure, httponly=True, samesite="lax")

    def delete_cookie(self, response: Response, name: str) -> None:
        """Have the browser forget a cookie."""
        name = self._full_name(name)
        response.delete_cookie(name, secure=self.secure, httponly=True, samesite="lax")

    def _full_name(self, name: str) -> str:
        # With __Host- a browser takes it from this host alone, by https (RFC 6265bis, 4.1.3.2).
        return f"__Host-{name}" if self.secure else name

    def client_address(self, request: Request) -> str:
        """Who asks: an IPv4 address, or the first half of an IPv6 address, of which one customer
        has as many as they like."""
        near = request.client.host if request.client else "unknown"
        hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
        # The last entry is from the nearest proxy; what stands before ours anybody may have sent.
        far = hops[-self._proxies].strip() if 0 < self._proxies <= len(hops) else near
        found = _parse_address(far) or _parse_address(near)
        if isinstance(found, ipaddress.IPv6Address):
            return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
        return near if found is None else str(found)


def _parse_address(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address, also where a proxy has put a port behind it (`192.0.2.1:4711`, `[::1]:4711`)."""
    for form in (address, address.rpartition(":")[0].strip("[]")):
        try:
            return ipaddress.ip_address(form)
        except ValueError:
            continue
    return None
