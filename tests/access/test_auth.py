"""Requests of the board: who is let in to what, whose forms are ours, what every answer carries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.requests import Request
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from callflow.access import auth
from callflow.access.auth import BoardOrigin
from callflow.call.role import Permission, Role
from callflow.errors import StoreUnavailable
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.store.audit import Audit
from callflow.store.keys import call_keys
from callflow.web.app import create
from tests.board_app import FAR, SECRET_WORDS, BoardApp, board_app, csrf_of, post, write_users
from tests.parts import SID, Parts
from tests.waiting import wait_until

PATHS = ("/board", "/board/call", "/board/events", "/board/csrf", "/board/audit")


def test_each_role_may_do_what_the_one_before_may_and_more() -> None:
    may = {role: {permission for permission in Permission if role.can(permission)} for role in Role}
    assert may[Role.VIEWER] == {Permission.LOOK, Permission.READ}
    assert may[Role.DISPATCHER] == {Permission.LOOK, Permission.READ, Permission.ACT}
    assert may[Role.ADMIN] == set(Permission)
    assert Role.highest({Role.VIEWER, Role.ADMIN, Role.DISPATCHER}) == Role.ADMIN
    assert Role.highest(set()) is None


def test_a_viewer_cannot_act_and_a_dispatcher_can(here: BoardApp) -> None:
    viewer, dispatcher = here.signed_in("ana"), here.signed_in("bo")
    refused = post(viewer, "/board/act", {**csrf_of(viewer), "say": "hello"})
    assert refused.status_code == 403
    assert "ana is signed in as viewer" in refused.text
    assert here.done == []
    assert post(dispatcher, "/board/act", {**csrf_of(dispatcher), "say": "hi"}).text == "done"
    assert [(one["by"], one["say"]) for one in here.done] == [("bo", "hi")]


def test_only_an_admin_sees_who_read_what(here: BoardApp) -> None:
    codes = [here.signed_in(name).get("/board/audit").status_code for name in ("ana", "bo", "chen")]
    assert codes == [403, 403, 200]


def test_nobody_without_a_session_sees_a_word(here: BoardApp) -> None:
    for token in ("", "x", "0" * 32 + "." + "A" * 43, "0" * 32, "." * 76):
        browser, program = here.browser(), here.browser(accept="application/json")
        for one in (browser, program):
            if token:
                one.cookies.set("callflow-session", token)
        for path in PATHS:
            sent, told = browser.get(path), program.get(path)
            assert SECRET_WORDS not in sent.text + told.text
            assert sent.headers["location"] == f"/board/sign-in?next={path}", (path, token)
            assert told.status_code == 401, (path, token)
            assert {one.head(path).status_code for one in (browser, program)} <= {303, 401}
        assert post(browser, "/board/act", {"csrf": "x"}).status_code == 401
    assert here.done == []


def test_an_open_stream_ends_when_its_session_does(
    here: BoardApp, users: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "RECHECK_S", 0.1)

    async def follow() -> float:
        transport = httpx2.ASGITransport(here.app)
        ana = here.signed_in("ana")
        async with httpx2.AsyncClient(
            transport=transport, base_url=here.url, cookies=dict(ana.cookies)
        ) as client:
            loop = asyncio.get_running_loop()
            began = loop.time()
            loop.call_later(0.2, lambda: write_users(users, bo="dispatcher"))
            answer = await asyncio.wait_for(client.get("/board/events"), 10)
            assert SECRET_WORDS in answer.text
            return loop.time() - began

    assert 0.2 <= asyncio.run(follow()) < 4


def test_a_form_without_the_sessions_own_token_does_nothing(here: BoardApp) -> None:
    bo = here.signed_in("bo")
    for form in ({}, {"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "é"}):
        assert post(bo, "/board/act", form).status_code == 403, form
    assert here.done == []


def test_another_sessions_token_does_nothing(here: BoardApp) -> None:
    bo, bo_again, chen = (here.signed_in(name) for name in ("bo", "bo", "chen"))
    for other in (bo_again, chen):
        assert post(bo, "/board/act", csrf_of(other)).status_code == 403
    assert here.done == []
    assert post(bo, "/board/act", {}, **{"x-csrf": csrf_of(bo)["csrf"]}).status_code == 200


FOREIGN = (
    *("https://evil.example", "null", "", "http://127.0.0.1:9999", "https://127.0.0.1:8000"),
    "http://127.0.0.1:8000.evil.example",
)


def test_a_form_from_another_page_does_nothing_even_with_the_token(here: BoardApp) -> None:
    bo = here.signed_in("bo")
    form = csrf_of(bo)
    for origin in FOREIGN:
        answer = bo.post("/board/act", data=form, headers={"origin": origin})
        assert answer.status_code == 403, origin
        assert "not ours" in answer.text
    assert here.done == []


def test_nobody_is_signed_in_by_another_sites_form(here: BoardApp) -> None:
    browser = here.browser()
    form = {"name": "ana", "password": "x", "csrf": "x"}
    evil = browser.post("/board/sign-in", data=form, headers={"origin": "https://evil.example"})
    assert evil.status_code == 403
    assert post(browser, "/board/sign-in", form).status_code == 403
    assert "sign-in" not in str(browser.cookies)


def test_a_form_that_is_too_long_is_not_read(here: BoardApp) -> None:
    bo = here.signed_in("bo")
    assert post(bo, "/board/act", {**csrf_of(bo), "say": "x" * 70_000}).status_code == 413
    answer = post(bo, "/board/act", {f"field{number}": "" for number in range(200)})
    assert answer.status_code == 400
    assert here.done == []


def test_on_this_machine_the_board_has_several_names(here: BoardApp) -> None:
    def asked(url: str, origin: str, host: str) -> bool:
        scope = {
            "type": "http",
            "headers": [(b"origin", origin.encode()), (b"host", host.encode())],
        }
        return BoardOrigin(url).sent(Request(scope))

    assert asked("http://127.0.0.1:8000", "http://localhost:8000", "localhost:8000")
    assert asked("http://127.0.0.1:8000", "http://localhost:9000", "localhost:9000")
    assert not asked("http://127.0.0.1:8000", "http://evil.example", "evil.example")
    assert not asked(FAR, "http://localhost:8000", "localhost:8000")
    assert asked(FAR, FAR, "10.0.0.7:8000"), "a proxy may name us otherwise"
    assert not asked(FAR, "http://board.example.org", "board.example.org")


def test_every_answer_forbids_what_a_browser_need_not_do(here: BoardApp) -> None:
    bo = here.signed_in("bo")
    answers: list[httpx2.Response] = [
        here.browser().get("/board"),
        here.browser().get("/board/sign-in"),
        bo.get("/board"),
        bo.get("/board/audit"),
        post(bo, "/board/act", {}),
        post(bo, "/board/act", csrf_of(bo)),
    ]
    assert {answer.status_code for answer in answers} == {200, 303, 403}
    for answer in answers:
        said = answer.headers
        policy = dict(part.split(" ", 1) for part in said["content-security-policy"].split("; "))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["form-action"] == "'self'"
        assert "unsafe" not in said["content-security-policy"]
        assert said["x-content-type-options"] == "nosniff"
        assert said["cache-control"] == "no-store"
        assert said["referrer-policy"] == "same-origin"
        assert "strict-transport-security" not in said


def test_over_https_browsers_are_told_to_stay_there(redis_url: str, users: Path) -> None:
    with board_app(redis_url, users=users, public_url=FAR) as far:
        said = far.browser().get("/board/sign-in").headers
        assert said["strict-transport-security"].startswith("max-age=")


def test_without_users_there_is_no_board_and_a_way_to_have_one(redis_url: str) -> None:
    with board_app(redis_url) as nobody:
        for path in (*PATHS, "/board/sign-in"):
            answer = nobody.browser().get(path)
            assert answer.status_code == 404
            assert "callflow users add" in answer.text


def test_a_board_on_an_address_of_its_own_is_believed_there(redis_url: str, users: Path) -> None:
    with board_app(redis_url, users=users, public_url="https://voice.example.org/x") as one:
        assert one.auth.origin.url == "https://voice.example.org"
    with board_app(
        redis_url, users=users, board_url=FAR, public_url="https://v.example.org"
    ) as one:
        assert one.auth.origin.url == FAR


def test_each_reading_of_a_call_is_kept_beside_it_without_a_word(
    here: BoardApp, parts: Parts
) -> None:
    parts.store.open(SID)
    audit = Audit(Scripts(parts.client))
    ana, bo = here.signed_in("ana"), here.signed_in("bo")
    for browser in (ana, ana, bo):
        assert browser.get("/board/call").text == SECRET_WORDS
    lines = audit.of_call(SID)
    assert [(line.by, line.what) for line in lines] == [("ana", "read"), ("bo", "read")]
    assert SECRET_WORDS not in str(parts.client.xrange(call_keys(SID).audit))
    audit.record(SID, "ana", "read", now_ms=lines[0].at + 60_001)
    assert [line.by for line in audit.of_call(SID)] == ["ana", "bo", "ana"]


def test_nobody_is_shown_a_call_whose_reading_could_not_be_kept(
    here: BoardApp, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    ana = here.signed_in("ana")
    parts.client.set(call_keys(SID).audit, "not a stream", px=60_000)
    answer = ana.get("/board/call")
    assert answer.status_code == 503
    assert SECRET_WORDS not in answer.text
    assert wait_until(lambda: ana.get("/board").status_code == 200, "the board to go on")


@pytest.fixture
def often_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "RECHECK_S", 0.01)
    monkeypatch.setattr(auth, "STORE_GONE_S", 0.3)


class Numbers:
    """Says numbers until nobody wants them."""

    closed = False

    async def parts(self, most: int) -> AsyncIterator[int]:
        try:
            for number in range(most):
                await asyncio.sleep(0.005)
                yield number
        finally:
            self.closed = True


async def seen(answers: list[bool | Exception], most: int = 100) -> tuple[int, int, bool]:
    """How much of a stream is seen, how often it was looked, and whether the stream was closed."""
    looks = 0

    async def valid() -> bool:
        nonlocal looks
        answer = answers[min(looks, len(answers) - 1)]
        looks += 1
        if isinstance(answer, Exception):
            raise answer
        return answer

    stream = Numbers()
    found = [part async for part in auth.stream_while_valid(stream.parts(most), valid)]
    assert found == list(range(len(found)))
    return len(found), looks, stream.closed


GONE = StoreUnavailable("here", "it is gone")


STREAMS: dict[str, tuple[list[bool | Exception], int, range, range]] = {
    # What each check finds; how long the stream is; how much of it is seen, after how many checks.
    "while the session does": ([True], 100, range(100, 101), range(6, 999)),
    "while the store is gone shortly": (
        [GONE, GONE, True],
        100,
        range(100, 101),
        range(6, 999),
    ),
    "until its session ends": ([True, True, False], 100, range(100), range(3, 4)),
    "until the store is gone for long": ([GONE], 10_000, range(1_000), range(2, 9_999)),
}


@pytest.mark.parametrize("how", STREAMS)
def test_a_stream_goes_on_and_lets_go_of_what_it_read(often_checked: None, how: str) -> None:
    answers, most, parts_seen, checks = STREAMS[how]
    many, looks, closed = asyncio.run(seen(answers, most))
    assert (many in parts_seen, looks in checks, closed) == (True, True, True), (many, looks)


def test_a_stream_goes_on_while_its_session_is_checked(often_checked: None) -> None:
    async def slowly() -> int:
        asked = asyncio.Event()

        async def valid() -> bool:
            asked.set()
            await asyncio.sleep(60)
            return True

        found = [part async for part in auth.stream_while_valid(Numbers().parts(30), valid)]
        assert asked.is_set()
        return len(found)

    assert asyncio.run(slowly()) == 30


OPEN = {"/healthz", "/readyz", "/health", "/metrics", "/voice/relay"}
"""What programs ask, without a word of any call, and a socket that the carrier signs for."""


def every_route(routes: list[BaseRoute]) -> Iterator[Route | WebSocketRoute]:
    for route in routes:
        if isinstance(route, Mount):
            yield from every_route(list(route.routes))
        else:
            assert isinstance(route, (Route, WebSocketRoute)), "what is this?"
            yield route


def test_no_address_of_the_whole_process_tells_a_stranger_a_word(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, SECRET_WORDS)
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    given = {"redis_url": redis_url, "public_url": FAR, "users": users, "twilio_auth_token": "t"}
    app = create(Settings.model_validate(given), Sites(()), None)
    found = asyncio.run(_ask_all(app, list(every_route(list(app.routes)))))
    assert {"/board", "/board/events", "/board/calls/{sid}", "/voice/turn"} <= set(found)
    for path, answers in found.items():
        for answer in answers:
            assert SECRET_WORDS not in answer.text, path
            assert SID not in answer.text, path
            if path not in OPEN and not path.startswith(("/board/sign-in", "/board/static")):
                assert answer.status_code in (401, 403), (path, answer)


async def _ask_all(
    app: Any, routes: list[Route | WebSocketRoute]
) -> dict[str, list[httpx2.Response]]:
    found: dict[str, list[httpx2.Response]] = {}
    async with app.router.lifespan_context(app) as state:

        async def running(scope: Any, receive: Any, send: Any) -> None:
            scope["state"] = dict(state)
            await app(scope, receive, send)

        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(running), base_url=FAR
        ) as client:
            for route in routes:
                if isinstance(route, WebSocketRoute):
                    assert route.path in OPEN
                    continue
                path = route.path.replace("{sid}", SID).replace("{call_sid}", SID)
                asked = [
                    asyncio.wait_for(client.request(method, path), 5)
                    for method in (route.methods or set()) - {"HEAD"}
                ]
                found.setdefault(route.path, []).extend(await asyncio.gather(*asked))
    return found
