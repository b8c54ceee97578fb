"""Everybody can use the pages: checked by axe, at 200 % and at a phone's width, by keys alone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.browser.conftest import Board

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

LANGUAGES = ("en-GB", "zh-CN")
LIGHTS = ("light", "dark")


def grave(page: Page) -> list[str]:
    """What axe finds that keeps somebody from using the page, and where."""
    found = Axe().run(page).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


def widest(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    over: int = page.evaluate(
        "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    return over


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("light", LIGHTS)
def test_axe_finds_nothing_serious(board: Board, language: str, light: str) -> None:
    sids = board.scene.busy()
    board.scene.parts.store.end(sids[-1], "hung_up")
    way_in = board.watched(board.context(locale=language, color_scheme=light))
    way_in.goto(board.url)
    assert grave(way_in) == []

    page = board.signed_in(locale=language, color_scheme=light, reduced_motion="reduce")
    if language.startswith("zh") and page.locator("a[hreflang=zh]").count():
        page.click("a[hreflang=zh]")
    expect(page.locator("tr.unseen")).to_have_count(2)
    assert page.locator("html").get_attribute("lang") == language[:2]
    assert grave(page) == []
    page.hover("#calls tbody tr")
    board.scene.fire()
    expect(page.locator("#held")).to_be_visible()
    assert grave(page) == []
    page.keyboard.press("?")
    assert grave(page) == []

    page.goto(f"{board.url}/calls/{sids[0]}")
    assert grave(page) == []


@pytest.mark.parametrize(
    ("width", "height"), [(640, 400), (360, 740), (320, 640)], ids=["200 %", "phone", "400 %"]
)
def test_nothing_has_to_be_moved_sideways(board: Board, width: int, height: int) -> None:
    """A window of 1,280 px at 200 % has 640 px, at 400 % 320 px (WCAG 1.4.4, 1.4.10)."""
    sids = board.scene.busy()
    board.scene.speaks(sids[-1], "W" * 300, 0)
    page = board.signed_in(viewport={"width": width, "height": height})
    expect(page.locator("tr.unseen").first).to_be_visible()
    assert widest(page) <= 0
    page.goto(f"{board.url}/calls/{sids[0]}")
    assert widest(page) <= 0
    page.goto(f"{board.url}/sign-in")
    assert widest(page) <= 0


def test_the_focus_can_be_seen(board: Board) -> None:
    board.scene.busy()
    page = board.signed_in()
    page.keyboard.press("j")
    width = page.evaluate("() => getComputedStyle(document.activeElement).outlineWidth")
    assert width == "3px"


def test_the_skip_link_leads_past_the_tools(board: Board) -> None:
    sids = board.scene.busy()
    page = board.signed_in()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.closest('tr')?.dataset.sid") == sids[0]


def test_without_scripts_the_board_is_there(board: Board) -> None:
    sids = board.scene.busy()
    state = board.signed_in().context.storage_state()
    page = board.watched(board.context(java_script_enabled=False, storage_state=state))
    page.goto(board.url)
    assert board_rows(page) == len(sids)
    page.click(f"tr[data-sid='{sids[0]}'] a")
    assert "smoke coming in" in page.locator(".thread").inner_text()


def board_rows(page: Page) -> int:
    return page.locator("#calls tbody tr").count()
