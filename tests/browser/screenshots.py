"""Takes the pictures of the README: the busy, the quiet and the broken board, light and dark.

`python -m tests.browser.screenshots` writes them to docs/screenshots.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from callflow.celery import use_broker
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from tests.browser.conftest import CHROMIUM, Board, open_board
from tests.browser.staff import staffed
from tests.parts import Parts

SHOTS = Path(__file__).parents[2] / "docs" / "screenshots"
THEMES = ("light", "dark")


def main() -> None:
    """Take all of them."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        with EmbeddedServer.start() as server, connect(server.url) as client:
            use_broker(server.url)
            with tempfile.TemporaryDirectory() as folder:
                with open_board(Parts(client), server.url, Path(folder), browser) as board:
                    with staffed(server.url):
                        take(board, server)
        browser.close()


def take(board: Board, server: EmbeddedServer) -> None:
    """Quiet first, then busy, then broken."""
    pages = {
        theme: board.signed_in(color_scheme=theme, viewport={"width": 1280, "height": 740})
        for theme in THEMES
    }
    board.scene.quiet()
    for theme, page in pages.items():
        page.wait_for_selector("tr[data-state=ended]")
        shoot(page, f"quiet-{theme}")
    for sid in [*board.scene.parts.reader.active()]:
        board.scene.parts.store.end(sid.call_sid, "hung_up")
    sids = board.scene.busy()
    for theme, page in pages.items():
        page.wait_for_selector(f"[data-sid='{sids[-1]}']")
        shoot(page, f"busy-{theme}")
    for theme in THEMES:
        page = board.signed_in(color_scheme=theme, viewport={"width": 1280, "height": 940})
        page.goto(f"{board.url}/calls/{sids[0]}")
        page.wait_for_timeout(1500)
        shoot(page, f"call-{theme}")
    phone = board.signed_in(color_scheme="light", viewport={"width": 390, "height": 844})
    shoot(phone, "phone-light")
    chinese = board.signed_in(color_scheme="dark", viewport={"width": 1280, "height": 740})
    chinese.click("a[hreflang=zh]")
    chinese.wait_for_timeout(800)
    shoot(chinese, "busy-zh-dark")
    server.kill()
    for theme, page in pages.items():
        page.wait_for_timeout(4000)
        shoot(page, f"broken-{theme}")


def shoot(page: Page, name: str) -> None:
    page.screenshot(path=SHOTS / f"{name}.png")


if __name__ == "__main__":
    main()
