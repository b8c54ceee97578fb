"""The page of one call: what was said and heard, who worked on it, and what is done from there."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.browser.conftest import Board

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120)]

HOSTILE = (
    "</script><script>window.stolen=3</script><img src=x onerror=window.stolen=4>"
    "\"'><svg onload=window.stolen=5>{{7*7}}${7*7}<a href=javascript:window.stolen=6>x</a>"
)


def opened(board: Board, sid: str, name: str = "bo") -> Page:
    page = board.signed_in(name)
    page.goto(f"{board.url}/calls/{sid}")
    return page


def test_a_call_shows_what_was_heard_and_what_was_cut_off(board: Board) -> None:
    page = opened(board, board.scene.fire())
    said = page.locator(".thread .said").nth(2)
    expect(said.locator(".heard")).to_have_text(
        "I hear you. Stay low, and keep away from the doors."
    )
    expect(said.locator("del")).to_contain_text("A person is being called now.")
    expect(page.locator(".thread .chip.now")).to_be_visible()


def test_the_timeline_has_a_lane_for_each_worker_and_the_takeover_between(board: Board) -> None:
    page = opened(board, board.scene.fire())
    names = page.locator(".lane-name").all_text_contents()
    assert names == ["caller", "worker1/4711", "worker2/4720", "human"]
    assert page.locator(".link-takeover").count() == 1
    assert page.locator(".death").count() == 1
    assert page.locator(".mark-beat").count() == 1
    page.locator("summary", has_text="in words").click()
    told = page.locator(".in-words").inner_text()
    assert re.search(r"worker1/4711: fence 1, turn 1, 2\.0 s, taken from a silent worker", told)
    assert "worker2/4720: fence 2, turn 1" in told


def test_a_call_is_followed_while_it_is_open(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    page = opened(board, sid)
    page.fill("#note-text", "half a note")
    page.focus("#note-text")
    board.scene.speaks(sid, "Is somebody coming?", 0)
    expect(page.locator(".thread")).to_contain_text("Is somebody coming?", timeout=3_000)
    expect(page.locator("[data-live=title] .state")).to_have_text("queued")
    assert page.input_value("#note-text") == "half a note"
    assert page.evaluate("() => document.activeElement.id") == "note-text"


def test_who_reads_a_call_is_kept(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    opened(board, sid, "ana")
    audit = Audit(Scripts(board.scene.parts.client))
    assert [(line.what, line.by) for line in audit.of_call(sid)] == [("read", "ana")]


def test_a_viewer_is_shown_nothing_to_act_with(board: Board) -> None:
    page = opened(board, board.scene.fire(), "ana")
    expect(page.locator(".thread")).to_contain_text("smoke coming in")
    assert page.locator("form[data-act]").count() == 0
    expect(page.locator(".side")).to_contain_text("may look and not act")


def test_a_note_and_a_fact_are_kept_and_shown(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    page = opened(board, sid)
    page.fill("#note-text", "Keys are with the porter")
    page.click("form[data-act=note] button")
    expect(page.locator("#told")).to_have_text("Done.")
    expect(page.locator(".notes")).to_contain_text("Keys are with the porter", timeout=3_000)
    expect(page.locator(".notes")).to_contain_text("bo")
    page.select_option("#fact-name", "dispatch.requested")
    page.click("form[data-act=fact] button")
    expect(page.locator("[data-live=facts]")).to_contain_text("help was asked for", timeout=3_000)
    assert board.scene.record(sid).recorded == {"dispatch.requested": True}


def test_the_second_of_two_people_is_told_who_was_first(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    page = opened(board, sid)
    seen = {"seen": page.get_attribute("#call", "data-seen") or ""}
    board.forgiven = ("409",)
    board.scene.parts.store.staff.set_urgency(sid, "P1", "chen", request="r1")
    expect(page.locator("[data-live=title]")).to_have_attribute("data-urgency", "P1", timeout=3_000)

    def late(route: Route) -> None:
        form = route.request.post_data or ""
        route.continue_(post_data=re.sub(r"seen=[^&]*", f"seen={seen['seen']}", form))

    page.route("**/urgency", late)
    page.select_option("#urgency-value", "P2")
    page.click("form[data-act=urgency] button")
    expect(page.locator("#told")).to_contain_text("chen set the urgency")
    assert board.scene.record(sid).urgency == "P1"


def test_an_end_is_asked_for_twice_and_needs_a_disposition(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    page = opened(board, sid)
    board.forgiven = ("409",)
    page.select_option("#end-disposition", "released")
    page.click("form[data-act=end] button")
    page.click("#end-sure button[value=no]")
    expect(page.locator("#end-sure")).to_be_hidden()
    assert board.scene.record(sid).outcome is None

    page.click("form[data-act=end] button")
    page.click("#end-sure button[value=yes]")
    expect(page.locator("#told")).to_contain_text("may still be trapped")
    page.check("form[data-act=end] input[type=checkbox]")
    page.click("form[data-act=end] button")
    page.click("#end-sure button[value=yes]")
    expect(page.locator("#told")).to_have_text("Done.")
    assert board.scene.record(sid).outcome == "released"
    expect(page.locator("#acts[disabled]")).to_have_count(1, timeout=3_000)


def test_an_act_that_may_be_done_is_asked_for_again_under_the_same_name(board: Board) -> None:
    sid = board.scene.answered("tower", "entrapment_standard", "P3", 60)
    page = opened(board, sid)
    board.forgiven = ("503", "ERR_")
    names: list[str] = []

    def lost(route: Route) -> None:
        names.extend(re.findall(r"request=([^&]*)", route.request.post_data or ""))
        answer = json.dumps({"told": "The store cannot be reached"})
        route.fulfill(status=503, content_type="application/json", body=answer)

    page.route("**/note", lost)
    page.fill("#note-text", "once")
    page.click("form[data-act=note] button")
    expect(page.locator("#told")).to_contain_text("cannot be reached")
    assert page.input_value("#note-text") == "once"
    page.click("form[data-act=note] button")
    expect(page.locator("form[data-act=note] button")).to_be_enabled()
    page.wait_for_timeout(200)
    assert len(names) == 2
    assert len(set(names)) == 1
    page.fill("#note-text", "other words")
    page.click("form[data-act=note] button")
    expect(page.locator("form[data-act=note] button")).to_be_enabled()
    page.wait_for_timeout(200)
    assert len(names) == 3
    assert len(set(names)) == 2


def test_nothing_that_a_caller_or_an_operator_writes_is_run(board: Board) -> None:
    """Words, names, procedures and notes are text, on every page and whatever they say."""
    sid = board.scene.opens("hostile", 30, alert="assist")
    board.scene.rings(sid, 29)
    board.scene.speaks(sid, HOSTILE, 20)
    lease = board.scene.claimed(sid, "<b>w</b>@host/1-a", 19)
    hostile = board.scene.hostile_chunk(HOSTILE)
    facts = {"name": HOSTILE, "injury": HOSTILE, "people": 2}
    board.scene.understands(lease, "<u>odd</u>", "P2", 18, [hostile], **facts)
    board.scene.answers(lease, HOSTILE, 17, needs_human="<i>why</i>")
    board.scene.parts.store.playback.interrupt(sid, 1, HOSTILE[:30])
    board.scene.parts.store.staff.add_note(sid, HOSTILE, "<b>x</b>", request="r1")
    page = board.signed_in()
    expect(page.locator(f"tr[data-sid='{sid}'] .p-lift")).to_have_text(
        "<script>window.stolen = 1</script>"
    )
    expect(page.locator(f"tr[data-sid='{sid}'] .p-words")).to_contain_text("<img src=x")
    page.wait_for_timeout(500)
    assert page.evaluate("() => window.stolen") is None
    page.goto(f"{board.url}/calls/{sid}")
    expect(page.locator(".thread")).to_contain_text("</script><script>")
    expect(page.locator(".chunk").first).to_contain_text("{{7*7}}")
    board.scene.speaks(sid, HOSTILE + "again", 0)
    expect(page.locator(".thread")).to_contain_text("x</a>again", timeout=3_000)
    page.wait_for_timeout(300)
    assert page.evaluate("() => window.stolen") is None
    assert page.locator("main img, main script, main [onload], main [onerror]").count() == 0
