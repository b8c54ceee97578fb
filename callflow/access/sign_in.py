"""How people come to a session, and how they leave it.

What the page answers tells nothing about which names there are: neither its words, nor the time
that they take, nor when it has had enough of wrong passwords.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from callflow.access import passwords, tokens
from callflow.access.attempts import Attempts
from callflow.access.auth import SIGN_IN, Door
from callflow.access.oidc import NotVouched, Provider, provider
from callflow.access.person import Holder, Person
from callflow.access.reach import BEFORE
from callflow.access.users import User, folded
from callflow.errors import StoreUnreplicated
from callflow.i18n.sign_in_words import words
from callflow.i18n.words import COOKIE, LANGUAGES, catalogue, chosen
from callflow.store.audit import Audit, Passage
from callflow.store.once import Once

log = logging.getLogger(__name__)

BOARD = "/board"

STILL_IN = (
    "You are still signed in: not enough replicas of the store know yet that you leave, and "
    "a failover could bring you back. Sign out again in a moment."
)

NAME_LENGTH, NEXT_LENGTH = 64, 300

WAITING = 20
"""So many passwords may wait to be looked at, 20 ms each; whoever comes then is asked to wait."""

_NEXT = re.compile(r"/board(?:[/?][A-Za-z0-9_\-./~%?=&+,:]*)?", re.ASCII)


def inside(there: str) -> str:
    """Where somebody wants to go next, if that is a page of the board; else the board itself.

    A link to our sign-in page must lead nowhere else (CWE-601): `//evil.example` and `/\\evil` are
    other hosts to a browser.
    """
    fits = len(there) <= NEXT_LENGTH and _NEXT.fullmatch(there)
    return there if fits and not there.startswith(SIGN_IN) and ".." not in there else BOARD


def routes(door: Door) -> list[BaseRoute]:
    """The pages on which people sign in and out. Raises SettingsError where OpenID Connect is
    configured and `callflow[oidc]` is not installed."""
    desk = SignIn(door)
    found: list[BaseRoute] = [
        door.open(SIGN_IN, desk.page),
        door.open(SIGN_IN, desk.tried, methods=("POST",)),
        door.route(f"{BOARD}/sign-out", desk.leave, methods=("POST",)),
    ]
    if desk.provider is not None:
        found += [
            door.open(f"{SIGN_IN}/oidc", desk.to_provider),
            door.open(f"{SIGN_IN}/oidc/back", desk.from_provider),
        ]
    return found


@dataclass(frozen=True, slots=True)
class _Told:
    """What the page says after a try, and to a program."""

    status: int
    word: str
    name: str = ""
    wait_ms: int = 0


class SignIn:
    """The pages of one process."""

    def __init__(self, door: Door) -> None:
        self.provider: Provider | None = provider(door.settings, door.reach)
        self._door = door
        self._attempts = Attempts(door.scripts)
        self._audit = Audit(door.scripts)
        self._once = Once(door.scripts)
        self._one_by_one = asyncio.Semaphore(1)
        self._waiting = 0
        pages = Environment(loader=PackageLoader("callflow.board"), autoescape=True)
        self._page = pages.get_template("sign_in.html")
        if door.users is not None:
            # The hash that nobody has is computed now, and not for the first name that nobody has.
            passwords.matches("", None)

    async def page(self, request: Request) -> Response:
        """The form."""
        return self._shown(request)

    async def tried(self, request: Request) -> Response:
        """A name and a password."""
        users = self._door.users
        if users is None:
            return PlainTextResponse("there are no local users here", 404)
        if not self._door.reach.safe:
            return PlainTextResponse(
                "a password can be read on its way here: name an https address of the board in "
                "CALLFLOW_BOARD_URL",
                403,
            )
        form = request.state.form
        name, password = form.get("name", "")[:NAME_LENGTH], form.get("password", "")
        address = self._door.reach.address(request)
        counted = folded(name)
        wait_ms = await self._door.ask(self._attempts.begin, counted, address)
        if wait_ms:
            return self._shown(request, _Told(429, "too_many", name, wait_ms))
        found = users.find(name)
        right = await self._right(password, found)
        if right is None:
            await self._door.ask(self._attempts.right, counted, address)
            return self._shown(request, _Told(503, "busy", name, 5_000))
        if found is None or not right:
            by = "" if found is None else found[0]
            await self._door.ask(self._audit.sign_in, "refused", by, address)
            return self._shown(request, _Told(403, "wrong", name))
        await self._door.ask(self._attempts.right, counted, address)
        holder = found[1].holder(found[0], self._language(request))
        return await self._let_in(request, holder, form.get("next", ""))

    async def leave(self, request: Request, person: Person) -> Response:
        """Sign out: here, or with the field `everywhere` wherever they are signed in."""
        everywhere = request.state.form.get("everywhere") == "yes"
        what: Passage = "signed_out_everywhere" if everywhere else "signed_out"
        response = RedirectResponse(SIGN_IN, 303)
        try:
            await self._door.end(request, response, everywhere=everywhere)
        except StoreUnreplicated as error:
            log.warning("the board: %s", error)
            return PlainTextResponse(STILL_IN, 503)
        address = self._door.reach.address(request)
        await self._door.ask(self._audit.sign_in, what, person.name, address)
        return response

    async def to_provider(self, request: Request) -> Response:
        """To the page on which the company's accounts sign in."""
        assert self.provider is not None
        before = self._before(request)
        there = inside(request.query_params.get("next", ""))
        try:
            response = RedirectResponse(await self.provider.leads_to(before, there), 303)
        except NotVouched as error:
            log.warning("%s", error)
            return self._shown(request, _Told(503, error.word))
        self._door.reach.give(response, BEFORE, before)
        return response

    async def from_provider(self, request: Request) -> Response:
        """Back from there, with a code."""
        assert self.provider is not None
        state = request.query_params.get("state", "")
        address = self._door.reach.address(request)
        before = self._door.reach.token(request, BEFORE)
        wait_ms = await self._door.ask(self._attempts.begin, state, address)
        if wait_ms:
            return self._shown(request, _Told(429, "too_many", wait_ms=wait_ms))
        try:
            there = self.provider.opened(state, before)
        except NotVouched as error:
            # Anybody can send that: a line for each would wash the others out of the journal.
            log.warning("%s", error)
            return self._shown(request, _Told(403, error.word))
        try:
            if not await self._door.ask(self._once.first, "sign-in", tokens.hashed(state)):
                raise NotVouched("begin_again")
            holder = await self.provider.vouched(dict(request.query_params), before)
            if self._door.users is not None and self._door.users.find(holder.person.name):
                raise NotVouched("name_taken")
        except NotVouched as error:
            log.warning("%s", error)
            await self._door.ask(self._audit.sign_in, "refused", error.by, address)
            return self._shown(request, _Told(403, error.word))
        await self._door.ask(self._attempts.right, state, address)
        return await self._let_in(request, holder, there)

    async def _let_in(self, request: Request, holder: Holder, there: str) -> Response:
        response = RedirectResponse(inside(there), 303)
        await self._door.begin(request, response, holder)
        address = self._door.reach.address(request)
        await self._door.ask(self._audit.sign_in, "signed_in", holder.person.name, address)
        return response

    async def _right(self, password: str, found: tuple[str, User] | None) -> bool | None:
        """Whether it is the password; None where too many wait to hear that. One at a time: what a
        hash takes is taken from callers."""
        if self._waiting >= WAITING:
            return None
        self._waiting += 1
        try:
            async with self._one_by_one:
                known = None if found is None else found[1].password
                return await self._door.ask(passwords.matches, password, known)
        finally:
            self._waiting -= 1

    def _before(self, request: Request) -> str:
        """The token of a browser in which somebody is about to sign in."""
        return self._door.reach.token(request, BEFORE) or tokens.fresh()

    def _language(self, request: Request) -> str:
        return chosen(
            request.query_params.get("lang"),
            request.cookies.get(COOKIE),
            accepts=request.headers.get("accept-language", ""),
        )

    def _shown(self, request: Request, told: _Told | None = None) -> Response:
        language = self._language(request)
        said = words(language)
        before = self._before(request)
        form = getattr(request.state, "form", {})
        there = inside(form.get("next") or request.query_params.get("next", ""))
        minutes = 1 if told is None else max(1, -(-told.wait_ms // 60_000))
        response = HTMLResponse(
            self._page.render(
                w=catalogue(language),
                base=BOARD,
                languages=LANGUAGES,
                words=said,
                csrf=tokens.csrf(before),
                next=there,
                name="" if told is None else told.name,
                told=None if told is None else said[told.word].format(minutes=minutes),
                local=self._door.users is not None,
                company=self.provider is not None,
            ),
            200 if told is None else told.status,
        )
        if told is not None and told.wait_ms:
            response.headers["Retry-After"] = str(max(1, told.wait_ms // 1000))
        if request.query_params.get("lang") in LANGUAGES:
            secure = self._door.reach.secure
            response.set_cookie(COOKIE, language, path="/", secure=secure, samesite="lax")
        self._door.reach.give(response, BEFORE, before)
        return response
