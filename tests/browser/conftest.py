"""Fixtures: a real browser, and a board with people before it and calls behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.board_app import password_of, write_users
from tests.browser.scene import SITES, Scene
from tests.exchange import Exchange, open_exchange
from tests.needs import missing
from tests.parts import Parts

CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """For one file: while it is there an event loop runs in this thread, and no test can have its
    own."""
    if not CHROMIUM.exists():
        missing("chromium", "apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--mute-audio"]
        )
        yield browser
        browser.close()


@dataclass
class Board:
    """A board with people before it."""

    exchange: Exchange
    scene: Scene
    browser: Browser
    troubles: list[str] = field(default_factory=list)
    """What the browser complained of: nothing, at the end of each test."""
    forgiven: tuple[str, ...] = ()
    """Complaints that a test has provoked."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.exchange.port}/board"

    def context(self, **options: Any) -> BrowserContext:
        """A browser that nobody has signed in with."""
        return self.browser.new_context(**{"viewport": {"width": 1400, "height": 900}, **options})

    def signed_in(self, name: str = "bo", *, port: int | None = None, **options: Any) -> Page:
        """The board, before somebody who has signed in; through a proxy that listens on `port`."""
        page = self.watched(self.context(**options))
        page.goto(self.url if port is None else f"http://127.0.0.1:{port}/board")
        page.fill("#name", name)
        page.fill("#password", password_of(name))
        page.press("#password", "Enter")
        page.wait_for_selector("#calls")
        page.wait_for_selector("body[data-alarm]")
        return page

    def watched(self, context: BrowserContext) -> Page:
        """A page of which every complaint is kept."""
        page = context.new_page()
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on(
            "console",
            lambda said: self.troubles.append(said.text) if said.type == "error" else None,
        )
        return page

    def order(self, page: Page) -> list[str]:
        """CallSids from top to bottom."""
        found: list[str] = page.eval_on_selector_all(
            "#calls tbody tr", "rows => rows.map(row => row.dataset.sid)"
        )
        return found


@contextmanager
def open_board(parts: Parts, url: str, folder: Path, browser: Browser) -> Iterator[Board]:
    (folder / "people").mkdir(exist_ok=True)
    users = write_users(folder / "people" / "users.yaml", ana="viewer", bo="dispatcher")
    with open_exchange(
        parts, url, folder, sites_yaml=SITES, users=users, board_url="http://127.0.0.1"
    ) as exchange:
        board = Board(exchange, Scene(parts), browser)
        yield board
        for context in browser.contexts:
            context.close()


@pytest.fixture
def board(parts: Parts, redis_url: str, tmp_path: Path, chromium: Browser) -> Iterator[Board]:
    with open_board(parts, redis_url, tmp_path, chromium) as running:
        yield running
        complaints = [
            one for one in running.troubles if not any(word in one for word in running.forgiven)
        ]
        assert not complaints
