"""The door before the board: who is let in, to what, and what every answer carries.

Every address of the board is a route of this door, so none can be open by an oversight. Nobody who
has not signed in sees more than the page on which one does; where nothing says who may sign in,
there is no board at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ParamSpec, TypeVar
from urllib.parse import parse_qsl, quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.staticfiles import StaticFiles

from callflow.access import tokens
from callflow.access.headers import sealed
from callflow.access.person import Holder, Person
from callflow.access.reach import BEFORE, SESSION, Reach
from callflow.access.sessions import Lifetimes, Sessions
from callflow.access.users import Users, UsersError
from callflow.access.vigil import while_valid
from callflow.call.role import Deed
from callflow.errors import SettingsError, StoreError, StoreUnreplicated
from callflow.redis.scripts import Replicas, Scripts, connect
from callflow.settings import Settings
from callflow.store.audit import Audit

log = logging.getLogger(__name__)

SIGN_IN = "/board/sign-in"

MOST_BYTES = 64 * 1024
"""Of a form: a note or a phrase is a few hundred bytes."""

THREADS = 4
"""Sessions are asked for in threads of their own, so that callers never wait for a board."""

ANSWER_TIMEOUT_S = 0.7
"""As callers' own questions to the store (web/app.py): a board shows that it is stale meanwhile."""

Guarded = Callable[[Request, Person], Awaitable[Response]]
Open = Callable[[Request], Awaitable[Response]]
P = ParamSpec("P")
T = TypeVar("T")

NOT_CONFIGURED = (
    "There is no board here: nothing says who may see it. Make users with `callflow users add` and "
    "name their file in CALLFLOW_USERS, or name a provider of accounts in CALLFLOW_OIDC_ISSUER."
)


class Door:
    """Lets people in; one per process. `close` it in the end."""

    def __init__(self, settings: Settings) -> None:
        """Asks nobody anything yet. Raises SettingsError for a store that is not named."""
        base = settings.board_url or settings.public_url
        if settings.redis_url is None or base is None:
            raise SettingsError("CALLFLOW_REDIS_URL", "not set: sessions are kept there")
        self.settings = settings
        self.reach = Reach(base, settings.board_proxies)
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
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="door")

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
        handler: Guarded,
        *,
        deed: Deed = Deed.LOOK,
        methods: Sequence[str] = ("GET",),
    ) -> Route:
        """A route for people who have signed in and may do `deed`.

        Where a form is sent it must be ours, with the session's CSRF token, urlencoded and of at
        most 64 KiB; the handler finds its fields in `request.state.form`. A stream ends with the
        session.
        """

        async def guarded(request: Request) -> Response:
            holder = await self._holder(request)
            if holder is None:
                return self._sent_away(request)
            if not holder.person.role.may(deed):
                return PlainTextResponse(
                    f"{holder.person.name} is signed in as {holder.person.role}, who may not "
                    f"{deed} here: ask an admin for another role",
                    403,
                )
            if request.method not in ("GET", "HEAD"):
                await self._read_form(request, SESSION)
            response = await handler(request, holder.person)
            if isinstance(response, StreamingResponse):
                response.body_iterator = while_valid(
                    response.body_iterator, partial(self._valid, request)
                )
            return response

        return self._sealed(path, guarded, methods)

    def open(self, path: str, handler: Open, *, methods: Sequence[str] = ("GET",)) -> Route:
        """A route for anybody: the way to a session. Forms must be ours here, too, with the token
        of the page that they are from."""

        async def opened(request: Request) -> Response:
            if request.method not in ("GET", "HEAD"):
                await self._read_form(request, BEFORE)
            return await handler(request)

        return self._sealed(path, opened, methods)

    def files(self, path: str, folder: Path) -> Route:
        """Scripts, styles and sounds, for anybody: they are callflow's own, and tell of no call."""
        static = StaticFiles(directory=folder)

        async def file(request: Request) -> Response:
            return await static.get_response(request.path_params["name"], request.scope)

        return self._sealed(f"{path}/{{name:path}}", file, ("GET",))

    def csrf(self, request: Request) -> str:
        """What a form of the page that answers this request must bring along, as `csrf`."""
        token = self.reach.token(request, SESSION)
        return tokens.csrf(token) if token else ""

    async def audit(self, person: Person, deed: Deed, call_sid: str) -> None:
        """Keep that somebody did this in a call; before they are shown what they asked for."""
        log.info("%s: %s by %s", call_sid, deed, person.name)
        await self.ask(self._audit.note, call_sid, person.name, str(deed))

    async def ask(self, question: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What a blocking question to the store returns or raises."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, partial(question, *args, **kwargs))

    async def begin(self, request: Request, response: Response, holder: Holder) -> None:
        """Begin a session for somebody who has just shown who they are, with a token that nobody
        has seen before; what the browser had is worth nothing any more."""
        former = self.reach.token(request, SESSION)
        key = tokens.key_of(former)
        if key is not None:
            # Not assured: while replicas are gone people must be able to come in.
            await self.ask(self.sessions.end, key, tokens.hashed(former), assured=False)
        token = tokens.fresh(holder.key)
        await self.ask(self.sessions.begin, holder.key, tokens.hashed(token), holder.as_json())
        self.reach.take(response, BEFORE)
        self.reach.give(response, SESSION, token)

    async def end(self, request: Request, response: Response, *, everywhere: bool) -> None:
        """End the session of this request, or all that its holder has.

        Raises StoreUnreplicated where a failover might undo that: then this one goes on, so that
        its holder can see that, and ask again.
        """
        token = self.reach.token(request, SESSION)
        key = tokens.key_of(token)
        if key is not None:
            hashed = tokens.hashed(token)
            holder = await self.ask(self.sessions.find, key, hashed)
            try:
                if everywhere:
                    await self.ask(self.sessions.end_all, key)
                else:
                    await self.ask(self.sessions.end, key, hashed)
            except StoreUnreplicated:
                if holder is not None:
                    await self.ask(self.sessions.begin, key, hashed, holder)
                raise
        self.reach.take(response, SESSION)

    async def _holder(self, request: Request) -> Holder | None:
        token = self.reach.token(request, SESSION)
        key = tokens.key_of(token)
        if key is None:
            return None
        found = await self.ask(self.sessions.find, key, tokens.hashed(token))
        holder = None if found is None else Holder.of_json(found)
        return holder if holder is not None and self._still(holder) else None

    def _still(self, holder: Holder) -> bool:
        """Whether they are still who they were when the session began."""
        if holder.source == "oidc":
            return self.settings.oidc_issuer is not None
        found = None if self.users is None else self.users.find(holder.subject)
        return found is not None and found[1].holder(found[0]).stamp == holder.stamp

    def _sent_away(self, request: Request) -> Response:
        if request.method == "GET" and "text/html" in request.headers.get("accept", ""):
            there = request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"{SIGN_IN}?next={quote(there, safe='/')}", 303)
        return PlainTextResponse(f"sign in first, at {SIGN_IN}", 401)

    async def _read_form(self, request: Request, cookie: str) -> None:
        """Read a form of our own. Raises HTTPException for one that is not."""
        if not self.reach.own(request):
            raise HTTPException(
                403,
                f"this was sent from a page that is not ours: use the board at {self.reach.url}",
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
        token = self.reach.token(request, cookie)
        given = request.headers.get("x-csrf") or form.get("csrf", "")
        if not token or not tokens.same(given, tokens.csrf(token)):
            raise HTTPException(
                403, "the page that sent this is from before you signed in: load it again"
            )
        request.state.form = form

    async def _valid(self, request: Request) -> bool:
        try:
            return await self._holder(request) is not None
        except UsersError as error:
            log.warning("the board: %s", error)
            return False

    def _sealed(self, path: str, handler: Open, methods: Sequence[str]) -> Route:
        async def endpoint(request: Request) -> Response:
            return sealed(await self._answered(handler, request), secure=self.reach.secure)

        return Route(path, endpoint, methods=list(methods))

    async def _answered(self, handler: Open, request: Request) -> Response:
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
