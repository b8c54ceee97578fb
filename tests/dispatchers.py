"""People at the board of a real web process: they have signed in, and act in calls."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from callflow.access.auth import SESSION_COOKIE
from callflow.access.sessions import csrf_token
from callflow.access.users_file import edit_users
from callflow.call import edits
from tests.board_app import password_of, user, write_users
from tests.exchange import Exchange, open_exchange
from tests.parts import SID, Parts

BOARD = "http://127.0.0.1"
TELEPHONE = "+441632960777"
"""Of ana; the others have none."""


@dataclass
class Dispatcher:
    """Somebody at the board, in a browser of their own."""

    exchange: Exchange
    browser: httpx.Client
    csrf: str = ""
    looked: dict[str, str] = field(default_factory=dict)

    def sign_in(self, name: str) -> None:
        origin = {"origin": str(self.browser.base_url).rstrip("/")}
        self.browser.headers.update(origin)
        page = self.browser.get("/board/sign-in").text
        form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
        given = {**form, "name": name, "password": password_of(name)}
        answer = self.browser.post("/board/sign-in", data=given)
        assert answer.status_code == 303, answer.text
        self.csrf = csrf_token(self.browser.cookies[SESSION_COOKIE])

    def looks(self, call_sid: str = SID) -> None:
        """Look at a call: what is done next is done to what stands there now."""
        self.looked[call_sid] = edits.version_token(self.exchange.parts.record(call_sid).acts)

    def act(self, what: str, call_sid: str = SID, **fields: str) -> httpx.Response:
        """Send one form, with what was seen last, if anything."""
        seen = {"seen": self.looked[call_sid]} if call_sid in self.looked else {}
        named = {"request": secrets.token_hex(8)}
        form = {"csrf": self.csrf, **named, **seen, **fields}
        return self.browser.post(f"/board/calls/{call_sid}/{what}", data=form)

    def does(self, what: str, call_sid: str = SID, **fields: str) -> dict[str, Any]:
        """The same, and it is done."""
        answer = self.act(what, call_sid, **fields)
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        assert found["done"] is True
        return found

    def is_told(self, what: str, call_sid: str = SID, **fields: str) -> dict[str, Any]:
        """The same, and it is not done, since the call is not as they think."""
        answer = self.act(what, call_sid, **fields)
        assert answer.status_code == 409, answer.text
        found: dict[str, Any] = answer.json()
        assert "done" not in found
        return found


@contextmanager
def dispatcher(exchange: Exchange, name: str) -> Iterator[Dispatcher]:
    """Somebody who has signed in to the web process of `exchange`."""
    with httpx.Client(base_url=f"{BOARD}:{exchange.port}", timeout=20) as browser:
        person = Dispatcher(exchange, browser)
        person.sign_in(name)
        yield person


def staffed(folder: Path) -> dict[str, Any]:
    """The settings of a web process whose board ana and bo may act on, and vera may look at."""
    people = write_users(folder / "users.yaml", bo="dispatcher", vera="viewer")
    with edit_users(people) as users:
        users["ana"] = user("ana", users["bo"].role).model_copy(update={"telephone": TELEPHONE})
    return {"users": people, "board_url": BOARD}


@contextmanager
def staffed_exchange(
    parts: Parts, url: str, folder: Path, *, api_url: str | None = None, **settings: Any
) -> Iterator[Exchange]:
    """A web process of one test, with people at its board."""
    given = {**staffed(folder), **settings}
    with open_exchange(parts, url, folder, api_url=api_url, **given) as exchange:
        yield exchange
