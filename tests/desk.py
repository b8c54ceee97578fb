"""A board's door with people before it, on the test's own server; what is behind it is a stand-in.

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
from callflow.access.auth import Door
from callflow.access.passwords import hashed
from callflow.access.person import Person
from callflow.access.reach import SESSION
from callflow.access.users import User
from callflow.access.users_file import changing
from callflow.call.role import Deed, Role
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
    with changing(path) as users:
        users.clear()
        users.update({name: user(name, Role(role)) for name, role in roles.items()})
    return path


async def page(request: Request, person: Person) -> Response:
    return PlainTextResponse(f"{person.name} {person.role}: {SECRET_WORDS}")


@dataclass
class Desk:
    """One web process's door. `done`: what came through it."""

    door: Door
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
def desk(redis_url: str, **settings: object) -> Iterator[Desk]:
    given: dict[str, object] = {"redis_url": redis_url, "public_url": NEAR, **settings}
    door = Door(Settings.model_validate(given))
    done: list[dict[str, str]] = []

    async def act(request: Request, person: Person) -> Response:
        done.append({"by": person.name, **request.state.form})
        return PlainTextResponse("done")

    async def csrf(request: Request, person: Person) -> Response:
        return PlainTextResponse(door.csrf(request))

    async def call(request: Request, person: Person) -> Response:
        await door.audit(person, Deed.READ, SID)
        return PlainTextResponse(SECRET_WORDS)

    async def events(request: Request, person: Person) -> Response:
        async def endless() -> AsyncIterator[str]:
            while True:
                yield f"data: {SECRET_WORDS}\n\n"
                await asyncio.sleep(0.01)

        return StreamingResponse(endless(), media_type="text/event-stream")

    app = Starlette(
        routes=[
            *sign_in.routes(door),
            door.route("/board", page),
            door.route("/board/csrf", csrf),
            door.route("/board/call", call, deed=Deed.READ),
            door.route("/board/events", events),
            door.route("/board/act", act, deed=Deed.ACT, methods=("POST",)),
            door.route("/board/audit", page, deed=Deed.MANAGE),
        ]
    )
    try:
        yield Desk(door, app, str(given["public_url"]), done)
    finally:
        door.close()


def session_cookie(browser: TestClient) -> str:
    """The token that the browser has; empty where it has none."""
    names = (SESSION, f"__Host-{SESSION}")
    return next((value for name, value in browser.cookies.items() if name in names), "")
