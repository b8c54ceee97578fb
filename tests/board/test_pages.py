"""The pages as they leave the server: who is shown what, and that all of it is text."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from callflow.board.call_page import split_heard
from callflow.board.pages import _ENVIRONMENT, FIRST_ROWS, STATIC
from callflow.board.rows import age, duration, short_worker
from callflow.call import ladder
from callflow.call.record import ThreadEntry
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.board_app import password_of
from tests.exchange import Exchange
from tests.parts import SID
from tests.waiting import wait_until

WORDS = 'there is <b>smoke</b> & "fire"'


@pytest.fixture
def exchange(exchange: Exchange) -> Exchange:
    """Somebody has spoken of smoke in a call."""
    exchange.parts.store.open(SID, site="tower", greeting="Are you inside?")
    exchange.parts.store.record_utterance(SID, 1, WORDS)
    return exchange


def browser(exchange: Exchange, name: str | None = None) -> httpx.Client:
    url = f"http://127.0.0.1:{exchange.port}"
    client = httpx.Client(base_url=url, headers={"accept": "text/html"}, timeout=10)
    if name is not None:
        form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', client.get("/board/sign-in").text))
        given = {**form, "name": name, "password": password_of(name)}
        answer = client.post("/board/sign-in", data=given, headers={"origin": url})
        assert answer.status_code == 303, answer.text
    return client


def test_words_lifts_and_addresses_are_escaped(exchange: Exchange) -> None:
    client = browser(exchange, "vera")
    for path in ("/board", f"/board/calls/{SID}"):
        text = client.get(path).text
        assert "there is &lt;b&gt;smoke&lt;/b&gt; &amp; &#34;fire&#34;" in text
        assert "<b>smoke" not in text
        assert "1 High Street, Leeds" in text


def test_beside_words_that_were_hard_to_hear_stands_so(exchange: Exchange) -> None:
    page = browser(exchange, "vera")
    assert "hard to hear" not in page.get(f"/board/calls/{SID}").text
    exchange.parts.store.record_utterance(SID, 2, "mumble", confidence=0.5)
    assert "hard to hear" in page.get(f"/board/calls/{SID}").text


def test_a_page_has_no_script_and_no_style_of_its_own(exchange: Exchange) -> None:
    client = browser(exchange, "bo")
    for path in ("/board", f"/board/calls/{SID}", "/board/calls/CA404"):
        answer = client.get(path)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", answer.text)


def test_every_file_of_a_page_is_there(exchange: Exchange) -> None:
    client = browser(exchange)
    for path in STATIC.iterdir():
        answer = client.get(f"/board/static/{path.name}")
        assert answer.status_code == 200, path.name
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert client.get("/board/static/../pages.py").status_code == 404


def test_no_script_makes_markup_of_what_it_is_given() -> None:
    for path in STATIC.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        found = re.findall(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", source
        )
        assert not found, path.name


def test_every_template_escapes() -> None:
    assert _ENVIRONMENT.autoescape is True
    for name in _ENVIRONMENT.list_templates():
        path = STATIC.parent / "templates" / name
        assert not re.search(r"\|\s*safe|autoescape", path.read_text(encoding="utf-8")), name
        _ENVIRONMENT.get_template(name)


def test_a_viewer_gets_no_form_and_each_reading_is_kept(exchange: Exchange) -> None:
    assert "data-act" not in browser(exchange, "vera").get(f"/board/calls/{SID}").text
    page = browser(exchange, "bo").get(f"/board/calls/{SID}").text
    for act in ("take-over", "say", "note", "fact", "urgency", "end"):
        assert f'action="/board/calls/{SID}/{act}"' in page
    audit = Audit(Scripts(exchange.parts.client))
    assert [(one.what, one.by) for one in audit.of_call(SID)] == [("read", "vera"), ("read", "bo")]


def test_who_is_on_the_line_stands_in_short_and_each_reason_with_the_notes(
    exchange: Exchange,
) -> None:
    client, store = browser(exchange, "bo"), exchange.parts.store

    def human() -> str:
        page = client.get(f"/board/calls/{SID}").text
        (shown,) = re.findall(r"<dt>human</dt><dd>([^<]*)</dd>", page)
        return str(shown)

    assert human() == "none"
    store.staff.set_urgency(SID, "P4", "ana", request="a", reason="only <toast>")
    store.staff.set_urgency(SID, "P1", "bo", request="b")
    store.handovers.want(SID, "asked")
    assert human() == "human to be rung · asked"
    alert = exchange.parts.record().alert
    assert alert is not None
    store.handovers.accept(SID, ladder.accepted(ladder.ringing(alert, "r", "Control"), "CAhuman"))
    assert human() == "on the line: Control · asked"
    page = client.get(f"/board/calls/{SID}").text
    assert re.search(r"<b>ana</b>.*Urgency P4</span></div><p>only &lt;toast&gt;</p>", page)


def test_the_board_alone_is_no_reading_of_a_call(exchange: Exchange) -> None:
    assert browser(exchange, "vera").get("/board").status_code == 200
    assert Audit(Scripts(exchange.parts.client)).of_call(SID) == []


def test_of_very_many_calls_the_first_stand_in_the_page(exchange: Exchange) -> None:
    client = browser(exchange, "vera")
    for number in range(120):
        exchange.parts.store.open(f"CA{number}", site="tower")
    exchange.parts.store.record_utterance("CA119", 1, "smoke", danger=True)
    wait_until(lambda: "<noscript><p" in client.get("/board").text, "all calls to be seen")
    text = client.get("/board").text
    found = re.findall(r'<tr data-sid="(\w+)"', text)
    assert len(found) == FIRST_ROWS
    assert found[0] == "CA119"
    assert "21 more calls" in text


def test_a_call_that_is_gone_is_told_so(exchange: Exchange) -> None:
    client = browser(exchange, "vera")
    for sid in ("CA404", "no%20sid", "x" * 300):
        answer = client.get(f"/board/calls/{sid}")
        assert answer.status_code == 404
        assert "no such call any more" in answer.text


def test_the_language_is_kept_where_it_was_chosen(exchange: Exchange) -> None:
    client = browser(exchange, "vera")
    assert '<html lang="en">' in client.get("/board").text
    answer = client.get(f"/board/calls/{SID}?lang=zh&x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/board/calls/{SID}?x=1")
    assert '<html lang="zh">' in client.get("/board").text


def test_what_was_cut_off_is_told_from_what_was_heard() -> None:
    said = {"role": "agent", "turn": 1, "at": 5, "text": "Stay inside. Help comes."}

    def shown(**more: object) -> tuple[str, str]:
        return split_heard(ThreadEntry.model_validate({**said, **more}))

    assert shown() == ("Stay inside. Help comes.", "")
    assert shown(heard="Stay inside.") == ("Stay inside.", "Help comes.")
    assert shown(heard="") == ("", "Stay inside. Help comes.")
    assert shown(heard="Stay in side") == ("Stay in side", "Stay inside. Help comes.")


def test_times_are_said_so_that_they_fit_into_a_cell() -> None:
    assert [duration(ms) for ms in (-5, 0, 34_999, 725_000, 3_723_000)] == [
        *("0:00", "0:00", "0:34", "12:05", "1:02:03"),
    ]
    assert [age(ms) for ms in (-1, 340, 9_999, 10_000, 99_999, 100_000)] == [
        *("0.0 s", "0.3 s", "9.9 s", "10 s", "99 s", "1:40"),
    ]
    assert short_worker("worker1@host.example/4711-ab12") == "worker1/4711"
    assert short_worker(None) == ""


def test_the_pictures_in_the_readme_are_small() -> None:
    pictures = list((Path(__file__).parents[2] / "docs" / "screenshots").glob("*.png"))
    assert {path.stem for path in pictures} >= {
        f"{state}-{light}" for state in ("busy", "quiet", "broken") for light in ("light", "dark")
    }
    assert all(path.stat().st_size < 200_000 for path in pictures)
