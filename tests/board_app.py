"""The routes of a board with stand-ins behind them, on the test's own server.

Requests come through Starlette's test client, from 127.0.0.1 unless a test says otherwise.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.testclient import TestClient

from callflow.access import sign_in
from callflow.access.auth import SESSION_COOKIE, BoardAuth
from callflow.access.passwords import hashed
from callflow.access.sessions import BoardUser
from callflow.access.users_file import User, edit_users
from callflow.call.role import Permission, Role
from callflow.settings import Settings
from tests.parts import SID

NEAR = "http://127.0.0.1:8000"
FAR = "https://board.example.org"

SECRET_WORDS = "my sister is pregnant"


@cache
def password_of(name: str) -> str:
    """The password of everybody in these tests who has this name."""
    return f"{name} has a long password"


@cache
def user(name: str, role: Role) -> User:
    return User(role=role, password=hashed(password_of(name)))


def write_users(path: Path, **roles: str) -> Path:
    """A file with these people in it: `ana="viewer"`."""
    with edit_users(path) as users:
        users.clear()
        users.update({name: user(name, Role(role)) for name, role in roles.items()})
    return path


async def page(request: Request, person: BoardUser) -> Response:
    return PlainTextResponse(f"{person.name} {person.role}: {SECRET_WORDS}")


@dataclass
class BoardApp:
    """The board of one web process. `done`: the forms that were let through."""

    auth: BoardAuth
    app: Starlette
    url: str
    done: list[dict[str, str]] = field(default_factory=list)

    def browser(self, **headers: str) -> TestClient:
        """A browser with no cookies yet, that follows no redirects."""
        return TestClient(
            self.app,
            base_url=self.url,
            follow_redirects=False,
            headers={"accept": "text/html", **headers},
            raise_server_exceptions=False,
        )

    def signed_in(self, name: str) -> TestClient:
        browser = self.browser()
        answer = sign_in_as(browser, name)
        assert answer.status_code == 303, answer.text
        return browser


def form_of(answer: httpx2.Response) -> dict[str, str]:
    """The hidden fields of the page's form."""
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', answer.text))


def sign_in_as(
    browser: TestClient, name: str, password: str | None = None, **fields: str
) -> httpx2.Response:
    """Fill in the form as a person does."""
    form = form_of(browser.get("/board/sign-in"))
    given = {"name": name, "password": password_of(name) if password is None else password}
    return post(browser, "/board/sign-in", {**form, **given, **fields})


def post(
    browser: TestClient, path: str, form: Mapping[str, str], **headers: str
) -> httpx2.Response:
    """Send a form from a page of our own."""
    origin = str(browser.base_url).rstrip("/")
    return browser.post(path, data=dict(form), headers={"origin": origin, **headers})


def csrf_of(browser: TestClient) -> dict[str, str]:
    """What a form of a page that this browser has loaded brings along."""
    return {"csrf": browser.get("/board/csrf").text}


@contextmanager
def board_app(redis_url: str, **settings: object) -> Iterator[BoardApp]:
    given: dict[str, object] = {"redis_url": redis_url, "public_url": NEAR, **settings}
    auth = BoardAuth(Settings.model_validate(given))
    done: list[dict[str, str]] = []

    async def act(request: Request, person: BoardUser) -> Response:
        done.append({"by": person.name, **request.state.form})
        return PlainTextResponse("done")

    async def csrf(request: Request, person: BoardUser) -> Response:
        return PlainTextResponse(auth.csrf_token(request))

    async def call(request: Request, person: BoardUser) -> Response:
        await auth.audit(person, Permission.READ, SID)
        return PlainTextResponse(SECRET_WORDS)

    async def events(request: Request, person: BoardUser) -> Response:
        async def endless() -> AsyncIterator[str]:
            while True:
                yield f"data: {SECRET_WORDS}\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(endless(), media_type="text/event-stream")

    app = Starlette(
        routes=[
            *sign_in.routes(auth),
            auth.route("/board", page),
            auth.route("/board/csrf", csrf),
            auth.route("/board/call", call, permission=Permission.READ),
            auth.route("/board/events", events),
            auth.route("/board/act", act, permission=Permission.ACT, methods=("POST",)),
            auth.route("/board/audit", page, permission=Permission.MANAGE),
        ]
    )
    try:
        yield BoardApp(auth, app, str(given["public_url"]), done)
    finally:
        auth.close()


def session_cookie(browser: TestClient) -> str:
    """The token that the browser has; empty where it has none."""
    names = (SESSION_COOKIE, f"__Host-{SESSION_COOKIE}")
    return next((value for name, value in browser.cookies.items() if name in names), "")
