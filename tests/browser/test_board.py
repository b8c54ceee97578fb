"""The board in a real browser: it is live, holds still under a hand, and says when it is old."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from callflow.celery import use_broker
from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from tests.browser.conftest import Board, open_board
from tests.browser.reading import row, text
from tests.parts import Parts

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

TIMES = re.compile(r"\d+(?:[.:]\d+)+(?: s)?|\d+ s")

CELLS = """rows => rows.map(row => [...row.querySelectorAll('[data-part], li')]
    .filter(part => !part.hidden).map(part => part.textContent.trim()))"""


def focused(page: Page) -> str | None:
    sid: str | None = page.evaluate(
        "() => document.activeElement.closest('tr')?.dataset.sid ?? null"
    )
    return sid


def test_what_happens_to_a_call_is_shown_at_once(board: Board) -> None:
    page = board.signed_in()
    expect(page.locator("#empty")).to_be_visible()
    sid = board.scene.opens("tower", 1)
    expect(page.locator(row(sid))).to_be_visible(timeout=1_500)
    assert text(page, sid, "state") == "listening"
    assert text(page, sid, "address") == "1 High Street, Leeds"

    board.scene.speaks(sid, "We are stuck", 0)
    expect(page.locator(f"{row(sid)}[data-state=queued]")).to_be_visible(timeout=1_500)
    assert text(page, sid, "words") == "We are stuck"
    lease = board.scene.claimed(sid, "worker1@host/4711-aa", 0)
    expect(page.locator(f"{row(sid)}[data-state=answering]")).to_be_visible(timeout=1_500)
    assert text(page, sid, "worker") == "worker1/4711"
    board.scene.dies(lease, 0)
    expect(page.locator(f"{row(sid)}[data-state=recovering]")).to_be_visible(timeout=1_500)
    assert text(page, sid, "takeovers") == "1 takeover"
    board.scene.parts.store.end(sid, "hung_up")
    expect(page.locator(f"{row(sid)}[data-state=ended]")).to_be_visible(timeout=1_500)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_scripts_say_in_every_cell_what_the_server_says(board: Board, language: str) -> None:
    board.scene.busy()
    plain = board.signed_in().context
    page = plain.pages[0]
    page.goto(f"{board.url}?lang={language}")
    state = plain.storage_state()
    without = board.watched(board.context(java_script_enabled=False, storage_state=state))
    without.goto(board.url)

    def cells(page: Page) -> list[list[str]]:
        found: list[list[str]] = page.eval_on_selector_all("#calls tbody tr", CELLS)
        # Times go on between one look and the other, and timers turn.
        return [[TIMES.sub("#", one).partition(" / #")[0] for one in row] for row in found]

    assert len(cells(without)) == 10
    page.wait_for_timeout(600)  # Every row has been filled by the scripts by now.
    assert cells(page) == cells(without)


def test_flags_come_and_go_with_what_is_known(board: Board) -> None:
    sid = board.scene.opens("tower", 5)
    page = board.signed_in()
    flags = page.locator(f"{row(sid)} .flags li")
    expect(flags).to_have_count(0)
    board.scene.speaks(sid, "we are stuck", 2)
    lease = board.scene.claimed(sid, "worker1@host/4711-aa", 1)
    board.scene.understands(lease, "entrapment_standard", "P3", 1, trapped=True)
    expect(flags).to_have_text(["trapped"], timeout=2_000)
    board.scene.understands(lease, "fire_smoke", "P1", 0, trapped=False, danger=["smoke", "fire"])
    expect(flags).to_have_text(["smoke", "fire"], timeout=2_000)
    board.scene.understands(lease, "entrapment_standard", "P3", 0, trapped=False, danger=[])
    expect(flags).to_have_count(0, timeout=2_000)


def test_urgent_calls_stand_above_and_new_ones_find_their_place(board: Board) -> None:
    sids = board.scene.busy()
    page = board.signed_in()
    assert board.order(page)[0] == sids[0]
    board.scene.parts.store.end(sids[0], "hung_up")
    expect(page.locator(f"{row(sids[0])}[data-state=ended]")).to_be_visible()
    assert board.order(page)[-1] == sids[0]


def test_no_row_moves_under_the_pointer(board: Board) -> None:
    stable = [board.scene.answered("tower", "entrapment_standard", "P3", 60) for _ in range(3)]
    page = board.signed_in()
    page.hover(row(stable[1]))
    before = page.locator(row(stable[1])).bounding_box()
    grave = board.scene.fire()
    expect(page.locator("#held")).to_be_visible(timeout=2_000)
    assert board.order(page) == [*stable, grave]
    expect(page.locator("#held")).to_contain_text("Life at risk: Platform lift B")
    note = page.locator("#held").bounding_box()
    after = page.locator(row(stable[1])).bounding_box()
    assert note
    assert before
    assert after
    assert after["y"] == before["y"]

    page.mouse.move(5, 5)
    expect(page.locator("#held")).to_be_hidden()
    assert board.order(page)[0] == grave


def test_no_row_moves_while_the_keyboard_is_in_one_and_the_focus_stays(board: Board) -> None:
    stable = [board.scene.answered("tower", "entrapment_standard", "P3", 60) for _ in range(3)]
    page = board.signed_in()
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert focused(page) == stable[1]
    grave = board.scene.fire()
    expect(page.locator("#held")).to_be_visible(timeout=2_000)
    assert board.order(page) == [*stable, grave]
    board.scene.parts.store.end(stable[0], "hung_up")
    expect(page.locator(f"{row(stable[0])}[data-state=ended]")).to_be_visible()
    assert board.order(page) == [*stable, grave]
    assert focused(page) == stable[1]

    page.keyboard.press("s")
    assert board.order(page) == [grave, stable[1], stable[2], stable[0]]
    assert focused(page) == stable[1]
    expect(page.locator("#held")).to_be_hidden()


def test_every_call_is_reached_and_opened_by_keys(board: Board) -> None:
    sids = board.scene.busy()
    page = board.signed_in()
    order = board.order(page)
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.className") == "skip"
    page.keyboard.press("j")
    assert focused(page) == order[0]
    page.keyboard.press("k")
    assert focused(page) == order[0]
    page.keyboard.press("End")
    assert focused(page) == order[-1]
    page.keyboard.press("ArrowUp")
    assert focused(page) == order[-2]
    page.keyboard.press("Home")
    assert focused(page) == order[0] == sids[0]
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("j")
    assert focused(page) is None
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.keyboard.press("j")
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    page.wait_for_url(f"{board.url}/calls/{sids[0]}")
    page.keyboard.press("b")
    page.wait_for_url(board.url)


def test_single_keys_can_be_switched_off(board: Board) -> None:
    board.scene.busy()
    page = board.signed_in()
    page.keyboard.press("?")
    page.uncheck("#single-keys")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert focused(page) is None


def test_old_data_looks_old_and_comes_back(
    own_server: EmbeddedServer, tmp_path: Path, chromium: Browser
) -> None:
    use_broker(own_server.url)
    with connect(own_server.url) as client:
        with open_board(Parts(client), own_server.url, tmp_path, chromium) as board:
            board.scene.answered("tower", "entrapment_standard", "P3", 60)
            page = board.signed_in()
            expect(page.locator("body.stale")).to_have_count(0)
            own_server.kill()
            expect(page.locator("body.stale")).to_be_visible(timeout=4_000)
            expect(page.locator("#trouble")).to_contain_text("The store does not answer")
            expect(page.locator("#trouble")).to_contain_text("it may be wrong")
            expect(page.locator("#age")).to_have_attribute("data-fresh", "no")
            own_server.restart()
            expect(page.locator("#trouble")).to_be_hidden(timeout=10_000)
            expect(page.locator("body.stale")).to_have_count(0)
            # Nothing of it was kept: the server has forgotten all calls, and so has the board.
            sid = board.scene.opens("mill", 0)
            expect(page.locator(row(sid))).to_be_visible(timeout=3_000)


def test_the_board_catches_up_after_its_line_was_cut(board: Board) -> None:
    kept = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    goes = board.scene.answered("mill", "door_malfunction", "P4", 60)
    board.forgiven = ("ERR_",)
    with Endpoint.start(board.exchange.port) as line:
        page = board.signed_in(port=line.port)
        line.mute()  # No word comes, and nobody says that the line is dead.
        expect(page.locator("#trouble")).to_contain_text("No connection", timeout=6_000)
        expect(page.locator("body.stale")).to_be_visible()
        board.scene.speaks(kept, "Are you still there?", 0)
        board.scene.parts.store.end(goes, "hung_up")
        comes = board.scene.opens("station", 0)
        line.reset()
        line.heal()
        expect(page.locator(row(comes))).to_be_visible(timeout=8_000)
        expect(page.locator(f"{row(goes)}[data-state=ended]")).to_be_visible()
        assert text(page, kept, "words") == "Are you still there?"
        expect(page.locator("#trouble")).to_be_hidden()
        page.goto("about:blank")


def test_who_was_signed_out_is_told_so(board: Board) -> None:
    page = board.signed_in()
    board.forgiven = ("401",)
    other = board.watched(page.context)
    other.goto(board.url)
    other.click("form[action$='sign-out'] button")
    expect(page.locator("#trouble a")).to_have_attribute(
        "href", re.compile("/board/sign-in"), timeout=10_000
    )
    expect(page.locator("body.stale")).to_be_visible()


def test_who_is_signed_out_sees_no_word_more(board: Board) -> None:
    sid = board.scene.fire()
    page = board.signed_in()
    call = board.watched(page.context)
    call.goto(f"{board.url}/calls/{sid}")
    call.fill("#note-text", "her name is Ann")
    expect(call.locator(".thread")).to_contain_text("coughing")
    expect(page.locator(row(sid))).to_contain_text("Platform lift B")
    board.forgiven = ("401",)
    other = board.watched(page.context)
    other.goto(board.url)
    other.click("form[action$='sign-out'] button")
    for shown in (page, call):
        expect(shown.locator("#trouble")).to_contain_text("signed out", timeout=10_000)
        left = shown.content()
        for word in ("coughing", "Platform lift B", "concourse", "Ann", sid):
            assert word not in left.replace(f'data-sid="{sid}"', ""), word
    assert page.locator("#calls tbody tr").count() == 0


def test_the_header_says_since_when_takeovers_and_silences_are_counted(board: Board) -> None:
    for language, told in (("en-GB", r"since \d\d:\d\d"), ("zh-CN", r"自 \d\d:\d\d 起")):
        page = board.signed_in(locale=language)
        for name in ("takeovers", "silence"):
            cell = page.locator(f".state-bar div:has(#{name}) [data-since]")
            expect(cell).to_have_text(re.compile(told))
        written = page.evaluate(
            """async () => {
              const { showSince } = await import("/board/static/header.js");
              const w = (name, shown) => `${name} ${shown.time}`;
              const texts = [];
              for (const now of [3600e3, 3600e3 + 1]) {
                showSince({ since_ms: 1 }, now, w);
                texts.push(document.querySelector("[data-since]").textContent);
              }
              return texts;
            }"""
        )
        assert written[0].startswith("head.since ")
        assert written[1] == ""


def test_the_page_is_in_the_language_and_the_light_that_one_chooses(board: Board) -> None:
    board.scene.busy()
    page = board.signed_in(color_scheme="light")
    page.click("a[hreflang=zh]")
    expect(page.locator("html")).to_have_attribute("lang", "zh")
    expect(page.locator("h1")).to_have_text("通话")
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "zh")

    ground: Callable[[], str] = lambda: page.eval_on_selector(  # noqa: E731
        "body", "one => getComputedStyle(one).backgroundColor"
    )
    light = ground()
    page.keyboard.press("t")
    assert ground() != light
    page.reload()
    assert ground() != light
