"""What nobody has acknowledged is heard and flashes, until somebody has; what is late turns."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Board
from tests.browser.reading import row

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]


def test_a_life_at_risk_sounds_until_it_was_seen(board: Board) -> None:
    page = board.signed_in()
    alarm = page.locator("body")
    expect(alarm).to_have_attribute("data-alarm", "silent")
    grave = board.scene.fire()
    expect(alarm).to_have_attribute("data-alarm", re.compile("sounds|blocked"), timeout=2_000)
    page.mouse.click(5, 5)
    expect(alarm).to_have_attribute("data-alarm", "sounds")
    expect(page.locator("#news")).to_contain_text("Platform lift B")
    assert "unseen" in (page.locator(row(grave)).get_attribute("class") or "")
    page.keyboard.press("m")
    expect(alarm).to_have_attribute("data-alarm", "off")
    page.keyboard.press("m")
    expect(alarm).to_have_attribute("data-alarm", "sounds")

    page.click(f"{row(grave)} .seen")
    expect(alarm).to_have_attribute("data-alarm", "silent")
    assert "unseen" not in (page.locator(row(grave)).get_attribute("class") or "")
    page.reload()
    expect(alarm).to_have_attribute("data-alarm", "silent")
    other = board.scene.fire()
    expect(page.locator(row(other))).to_be_visible(timeout=2_000)
    expect(alarm).not_to_have_attribute("data-alarm", "silent")


def test_what_a_person_has_taken_no_longer_flashes(board: Board) -> None:
    sid = board.scene.with_a_person()
    page = board.signed_in()
    expect(page.locator(row(sid))).to_be_visible()
    page.wait_for_timeout(300)
    assert "unseen" not in (page.locator(row(sid)).get_attribute("class") or "")


@pytest.mark.parametrize(("motion", "name"), [("no-preference", "flash"), ("reduce", "none")])
def test_nothing_flashes_for_who_wants_no_motion(board: Board, motion: str, name: str) -> None:
    grave = board.scene.fire()
    page = board.signed_in(reduced_motion=motion)
    page.wait_for_selector("tr.unseen")
    shape = f"{row(grave)} .urgency svg"
    assert page.eval_on_selector(shape, "one => getComputedStyle(one).animationName") == name


def test_timers_turn_at_three_quarters_and_at_their_limit(board: Board) -> None:
    page = board.signed_in()
    sid = board.scene.opens("tower", 31.5, alert="assist")
    timer = page.locator(f"{row(sid)} .timers li", has_text="human")
    expect(timer).to_have_class("")
    expect(timer).to_have_class("soon", timeout=3_000)
    expect(timer).to_contain_text("soon due")
    late = board.scene.opens("tower", 44.2, alert="assist")
    timer = page.locator(f"{row(late)} .timers li", has_text="human")
    expect(timer).to_have_class("over", timeout=3_000)
    expect(timer).to_contain_text("overdue")
