"""Serves the pages on which people sign in and out.

What they answer tells nothing about which names there are: neither their words, nor the time that
they take, nor when they have had enough of wrong passwords.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute

from callflow.access import passwords
from callflow.access.auth import PRE_SESSION_COOKIE, SIGN_IN, BoardAuth, SignInRefused
from callflow.access.sessions import (
    BoardUser,
    SessionUser,
    SignInAttempts,
    csrf_token,
    hash_token,
    new_token,
)
from callflow.access.users_file import User, fold_name
from callflow.errors import SettingsError, StoreUnreplicated
from callflow.i18n import COOKIE, LANGUAGES, catalogue, choose_language
from callflow.store.audit import Audit, Passage
from callflow.store.claims import claim_once

if TYPE_CHECKING:
    from callflow.access.oidc import OidcSignIn

log = logging.getLogger(__name__)

BOARD = "/board"

STILL_IN = (
    "You are still signed in: not enough replicas of the store know yet that you leave, and "
    "a failover could bring you back. Sign out again in a moment."
)

NAME_LENGTH, NEXT_LENGTH = 64, 300

STATE_KEPT_MS = 3_600_000
"""So long it is known which answers of the identity provider were used: they are good for less."""

MOST_WAITING = 20
"""So many passwords may wait to be checked, 20 ms each; whoever comes then is asked to wait."""

_NEXT_PAGE = re.compile(r"/board(?:[/?][A-Za-z0-9_\-./~%?=&+,:]*)?", re.ASCII)


def safe_next_page(there: str) -> str:
    """Where somebody wants to go next, if that is a page of the board; else the board itself.

    A link to our sign-in page must lead nowhere else (CWE-601): `//evil.example` and `/\\evil` are
    other hosts to a browser.
    """
    fits = len(there) <= NEXT_LENGTH and _NEXT_PAGE.fullmatch(there)
    return there if fits and not there.startswith(SIGN_IN) and ".." not in there else BOARD


def routes(auth: BoardAuth) -> list[BaseRoute]:
    """The pages on which people sign in and out. Raises SettingsError where OpenID Connect is
    configured and `callflow[oidc]` is not installed."""
    pages = SignInPages(auth)
    found: list[BaseRoute] = [
        auth.public_route(SIGN_IN, pages.show_form),
        auth.public_route(SIGN_IN, pages.check_password, methods=("POST",)),
        auth.route(f"{BOARD}/sign-out", pages.sign_out, methods=("POST",)),
    ]
    if pages.oidc is not None:
        found += [
            auth.public_route(f"{SIGN_IN}/oidc", pages.go_to_provider),
            auth.public_route(f"{SIGN_IN}/oidc/back", pages.return_from_provider),
        ]
    return found


def _load_oidc(auth: BoardAuth) -> OidcSignIn | None:
    if auth.settings.oidc_issuer is None:
        return None
    try:
        from callflow.access.oidc import OidcSignIn
    except ModuleNotFoundError as error:
        raise SettingsError(
            "CALLFLOW_OIDC_ISSUER",
            f"set, but {error.name} is not installed: pip install 'callflow[oidc]'",
        ) from error
    return OidcSignIn(auth.settings, auth.origin.url)


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What the page says after a failed attempt, and the status for a program."""

    status: int
    word: str
    name: str = ""
    wait_ms: int = 0


class SignInPages:
    """The pages of one process."""

    def __init__(self, auth: BoardAuth) -> None:
        self.oidc = _load_oidc(auth)
        self._auth = auth
        self._attempts = SignInAttempts(auth.scripts)
        self._audit = Audit(auth.scripts)
        self._one_by_one = asyncio.Semaphore(1)
        self._waiting = 0
        pages = Environment(loader=PackageLoader("callflow.board"), autoescape=True)
        self._template = pages.get_template("sign_in.html")
        if auth.users is not None:
            # The hash that nobody has is computed now, and not for the first name that nobody has.
            passwords.matches("", None)

    async def show_form(self, request: Request) -> Response:
        """The form."""
        return self._render(request)

    async def check_password(self, request: Request) -> Response:
        """A name and a password."""
        users = self._auth.users
        if users is None:
            return PlainTextResponse("there are no local users here", 404)
        if not self._auth.origin.hides_passwords:
            return PlainTextResponse(
                "a password can be read on its way here: name an https address of the board in "
                "CALLFLOW_BOARD_URL",
                403,
            )
        form = request.state.form
        name, password = form.get("name", "")[:NAME_LENGTH], form.get("password", "")
        address = self._auth.origin.client_address(request)
        counted = fold_name(name)
        wait_ms = await self._auth.run(self._attempts.begin, counted, address)
        if wait_ms:
            return self._render(request, _Refusal(429, "too_many", name, wait_ms))
        found = users.find(name)
        right = await self._matches(password, found)
        if right is None:
            await self._auth.run(self._attempts.forgive, counted, address)
            return self._render(request, _Refusal(503, "busy", name, 5_000))
        if found is None or not right:
            by = "" if found is None else found[0]
            await self._auth.run(self._audit.record_sign_in, "refused", by, address)
            return self._render(request, _Refusal(403, "wrong", name))
        await self._auth.run(self._attempts.forgive, counted, address)
        user = found[1].session_user(found[0], self._language(request))
        return await self._let_in(request, user, form.get("next", ""))

    async def sign_out(self, request: Request, person: BoardUser) -> Response:
        """Sign out: here, or with the field `everywhere` wherever they are signed in."""
        everywhere = request.state.form.get("everywhere") == "yes"
        what: Passage = "signed_out_everywhere" if everywhere else "signed_out"
        response = RedirectResponse(SIGN_IN, 303)
        try:
            await self._auth.end_session(request, response, everywhere=everywhere)
        except StoreUnreplicated as error:
            log.warning("the board: %s", error)
            return PlainTextResponse(STILL_IN, 503)
        address = self._auth.origin.client_address(request)
        await self._auth.run(self._audit.record_sign_in, what, person.name, address)
        return response

    async def go_to_provider(self, request: Request) -> Response:
        """To the page on which the company's accounts sign in."""
        assert self.oidc is not None
        token = self._browser_token(request)
        there = safe_next_page(request.query_params.get("next", ""))
        try:
            response = RedirectResponse(await self.oidc.start(token, there), 303)
        except SignInRefused as error:
            log.warning("%s", error)
            return self._render(request, _Refusal(503, error.word))
        self._auth.origin.set_cookie(response, PRE_SESSION_COOKIE, token)
        return response

    async def return_from_provider(self, request: Request) -> Response:
        """Back from there, with a code."""
        assert self.oidc is not None
        state = request.query_params.get("state", "")
        address = self._auth.origin.client_address(request)
        token = self._auth.origin.read_cookie(request, PRE_SESSION_COOKIE)
        wait_ms = await self._auth.run(self._attempts.begin, state, address)
        if wait_ms:
            return self._render(request, _Refusal(429, "too_many", wait_ms=wait_ms))
        try:
            there = self.oidc.check_state(state, token)
        except SignInRefused as error:
            # Anybody can send that: a line for each would wash the others out of the journal.
            log.warning("%s", error)
            return self._render(request, _Refusal(403, error.word))
        try:
            key = f"once:sign-in:{hash_token(state)}"
            if not await self._auth.run(claim_once, self._auth.scripts, key, STATE_KEPT_MS):
                raise SignInRefused("begin_again")
            user = await self.oidc.finish(dict(request.query_params), token)
            if self._auth.users is not None and self._auth.users.find(user.person.name):
                raise SignInRefused("name_taken")
        except SignInRefused as error:
            log.warning("%s", error)
            await self._auth.run(self._audit.record_sign_in, "refused", error.by, address)
            return self._render(request, _Refusal(403, error.word))
        await self._auth.run(self._attempts.forgive, state, address)
        return await self._let_in(request, user, there)

    async def _let_in(self, request: Request, user: SessionUser, there: str) -> Response:
        response = RedirectResponse(safe_next_page(there), 303)
        await self._auth.begin_session(request, response, user)
        address = self._auth.origin.client_address(request)
        await self._auth.run(self._audit.record_sign_in, "signed_in", user.person.name, address)
        return response

    async def _matches(self, password: str, found: tuple[str, User] | None) -> bool | None:
        """Whether it is the password; None where too many wait to hear that. One at a time: what a
        hash takes is taken from callers."""
        if self._waiting >= MOST_WAITING:
            return None
        self._waiting += 1
        try:
            async with self._one_by_one:
                known = None if found is None else found[1].password
                return await self._auth.run(passwords.matches, password, known)
        finally:
            self._waiting -= 1

    def _browser_token(self, request: Request) -> str:
        """The token of a browser in which somebody is about to sign in."""
        return self._auth.origin.read_cookie(request, PRE_SESSION_COOKIE) or new_token()

    def _language(self, request: Request) -> str:
        return choose_language(
            request.query_params.get("lang"),
            request.cookies.get(COOKIE),
            accepts=request.headers.get("accept-language", ""),
        )

    def _render(self, request: Request, refusal: _Refusal | None = None) -> Response:
        language = self._language(request)
        w = catalogue(language)
        token = self._browser_token(request)
        form = getattr(request.state, "form", {})
        there = safe_next_page(form.get("next") or request.query_params.get("next", ""))
        minutes = 1 if refusal is None else max(1, -(-refusal.wait_ms // 60_000))
        response = HTMLResponse(
            self._template.render(
                w=w,
                base=BOARD,
                languages=LANGUAGES,
                csrf=csrf_token(token),
                next=there,
                name="" if refusal is None else refusal.name,
                told=None if refusal is None else w(f"sign_in.{refusal.word}", minutes=minutes),
                local=self._auth.users is not None,
                company=self.oidc is not None,
            ),
            200 if refusal is None else refusal.status,
        )
        if refusal is not None and refusal.wait_ms:
            response.headers["Retry-After"] = str(max(1, refusal.wait_ms // 1000))
        if request.query_params.get("lang") in LANGUAGES:
            secure = self._auth.origin.secure
            response.set_cookie(COOKIE, language, path="/", secure=secure, samesite="lax")
        self._auth.origin.set_cookie(response, PRE_SESSION_COOKIE, token)
        return response
