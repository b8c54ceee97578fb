"""People sign in with a name and a password, stay for as long as they should, and leave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from callflow.access.passwords import hashed
from callflow.access.sessions import Lifetimes, Person, Sessions, SessionUser, hash_token, new_token
from callflow.access.users_file import edit_users
from callflow.call.role import Role
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.desk import (
    FAR,
    SECRET_WORDS,
    Desk,
    csrf_of,
    desk,
    form_of,
    password_of,
    post,
    session_cookie,
    sign_in_as,
    write_users,
)

KEY = SessionUser(Person("ana", Role.VIEWER), "local", "ana").key


@pytest.fixture
def users(tmp_path: Path) -> Path:
    return write_users(tmp_path / "users.yaml", ana="viewer", bo="dispatcher", chen="admin")


@pytest.fixture
def here(redis_url: str, users: Path) -> Iterator[Desk]:
    with desk(redis_url, users=users) as running:
        yield running


def test_who_has_signed_in_sees_the_board_as_who_they_are(here: Desk) -> None:
    browser = here.browser()
    assert sign_in_as(browser, "bo").headers["location"] == "/board"
    assert browser.get("/board").text == f"bo dispatcher: {SECRET_WORDS}"


def test_capitals_make_no_other_name(here: Desk) -> None:
    browser = here.browser()
    assert sign_in_as(browser, "BO", password_of("bo")).status_code == 303
    assert browser.get("/board").text.startswith("bo ")


@pytest.mark.parametrize("password", ["", "wrong", "bo has a long passwor", "x" * 5000])
def test_a_wrong_password_and_an_unknown_name_are_told_the_same(here: Desk, password: str) -> None:
    known, unknown = (sign_in_as(here.browser(), name, password) for name in ("bo", "nobody"))
    assert known.status_code == unknown.status_code == 403
    assert "wrong" in known.text
    varying = re.compile(r'(?:name="csrf" value="|name="name" value=")[^"]*')
    assert varying.sub("", known.text) == varying.sub("", unknown.text)
    assert not session_cookie(here.browser())


def test_the_password_is_in_no_answer(here: Desk) -> None:
    answer = sign_in_as(here.browser(), "bo", "this-was-mistyped")
    assert "this-was-mistyped" not in answer.text + str(answer.headers)


def test_a_name_that_is_markup_is_shown_as_text(here: Desk) -> None:
    answer = sign_in_as(here.browser(), '"><script>alert(1)</script>', "x")
    assert "<script>alert" not in answer.text


def test_a_session_that_somebody_brings_along_is_not_the_one_that_they_get(here: Desk) -> None:
    planted = new_token(KEY)
    browser = here.browser()
    browser.cookies.set("callflow-session", planted, domain="127.0.0.1", path="/")
    sign_in_as(browser, "ana")
    got = here.browser()
    got.cookies.set("callflow-session", planted)
    assert got.get("/board").status_code == 303
    assert planted not in [cookie.value for cookie in browser.cookies.jar if cookie.path == "/"]


def test_who_signs_in_again_gets_another_token_each_time(here: Desk) -> None:
    browser = here.browser()
    found = set()
    for _ in range(3):
        sign_in_as(browser, "ana")
        found.add(session_cookie(browser))
    assert len(found) == 3


@pytest.mark.parametrize("name", ["ana", "bo"])
def test_who_signs_in_leaves_the_session_that_their_browser_had(here: Desk, name: str) -> None:
    browser, elsewhere, thief = here.signed_in("ana"), here.signed_in("ana"), here.browser()
    thief.cookies.set("callflow-session", session_cookie(browser))
    assert thief.get("/board").status_code == 200
    assert sign_in_as(browser, name).status_code == 303
    assert thief.get("/board").status_code == 303
    assert browser.get("/board").status_code == elsewhere.get("/board").status_code == 200


def test_the_store_has_no_token_and_no_password(here: Desk, redis_url: str) -> None:
    browser = here.signed_in("ana")
    token = session_cookie(browser)
    with connect(redis_url) as client:
        keys = list(client.scan_iter("*"))
        everything = "".join(
            f"{key} {client.hgetall(key) if client.type(key) == 'hash' else ''}" for key in keys
        )
    assert len(keys) > 1
    assert hash_token(token) in everything
    assert token not in everything
    assert token.partition(".")[2] not in everything
    assert "argon2" not in everything


def test_a_session_ends_when_nobody_uses_it_and_after_a_shift_all_the_same(redis_url: str) -> None:
    with connect(redis_url) as client:
        sessions = Sessions(Scripts(client), Lifetimes(idle_ms=60_000, most_ms=200_000))
        now = int(client.time()[0]) * 1000
        sessions.begin(KEY, "idle", "her", now_ms=now)
        assert sessions.find(KEY, "idle", now_ms=now + 59_999) == "her"
        assert sessions.find(KEY, "idle", now_ms=now + 59_999 + 60_000) is None
        assert sessions.find(KEY, "idle", now_ms=now) is None
        sessions.begin(KEY, "busy", "her", now_ms=now)
        for later in (50_000, 100_000, 150_000, 199_999):
            assert sessions.find(KEY, "busy", now_ms=now + later) == "her"
        assert sessions.find(KEY, "busy", now_ms=now + 200_000) is None


def test_who_signs_out_is_out_here_and_nowhere_else(here: Desk) -> None:
    one, other = here.signed_in("ana"), here.signed_in("ana")
    old = session_cookie(one)
    assert post(one, "/board/sign-out", csrf_of(one)).headers["location"] == "/board/sign-in"
    assert not session_cookie(one)
    thief = here.browser()
    thief.cookies.set("callflow-session", old)
    assert thief.get("/board").status_code == 303
    assert other.get("/board").status_code == 200


def test_who_signs_out_everywhere_is_out_everywhere_and_may_sign_in_again(here: Desk) -> None:
    one, other, somebody_else = (here.signed_in(name) for name in ("ana", "ana", "bo"))
    post(one, "/board/sign-out", {**csrf_of(one), "everywhere": "yes"})
    assert other.get("/board").status_code == 303
    assert somebody_else.get("/board").status_code == 200
    assert here.signed_in("ana").get("/board").status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"bo": "dispatcher"},
        {"ana": "admin", "bo": "dispatcher"},
    ],
)
def test_who_is_removed_or_has_another_role_is_out_at_once(
    here: Desk, users: Path, change: dict[str, str]
) -> None:
    ana, bo = here.signed_in("ana"), here.signed_in("bo")
    write_users(users, **change)
    assert ana.get("/board").status_code == 303
    assert bo.get("/board").status_code == 200


def test_who_has_another_password_is_out_at_once(here: Desk, users: Path) -> None:
    ana, bo = here.signed_in("ana"), here.signed_in("bo")
    with edit_users(users) as known:
        known["ana"] = known["ana"].model_copy(update={"password": hashed("something else now")})
    assert ana.get("/board").status_code == 303
    assert bo.get("/board").status_code == 200


def test_a_damaged_file_lets_nobody_in_until_it_is_whole_again(here: Desk, users: Path) -> None:
    ana, whole = here.signed_in("ana"), users.read_text()
    users.write_text("users: [")
    answer = ana.get("/board")
    assert answer.status_code == 503
    assert str(users) not in answer.text
    users.write_text(whole)
    assert ana.get("/board").status_code == 200


def test_twelve_browsers_sign_in_at_once(here: Desk) -> None:
    async def one(name: str) -> tuple[str, str]:
        transport = httpx2.ASGITransport(here.app)
        async with httpx2.AsyncClient(transport=transport, base_url=here.url) as browser:
            form = form_of(await browser.get("/board/sign-in"))
            form |= {"name": name, "password": password_of(name)}
            await browser.post("/board/sign-in", data=form, headers={"origin": here.url})
            told = (await browser.get("/board")).text.partition(":")[0]
            return told, browser.cookies["callflow-session"]

    async def all_at_once() -> list[tuple[str, str]]:
        return await asyncio.gather(*(one(name) for name in ["ana", "bo", "chen"] * 4))

    found = asyncio.run(all_at_once())
    assert [told for told, _ in found] == ["ana viewer", "bo dispatcher", "chen admin"] * 4
    assert len({token for _, token in found}) == 12


def test_sign_ins_are_kept_and_a_name_that_nobody_has_is_not(here: Desk) -> None:
    browser = here.signed_in("ana")
    sign_in_as(here.browser(), "ana", "wrong")
    sign_in_as(here.browser(), "my-password-by-mistake", "wrong")
    post(browser, "/board/sign-out", csrf_of(browser))
    with connect(here.auth.settings.redis_url or "") as client:
        lines = Audit(Scripts(client)).sign_ins()
    assert [(line.what, line.by) for line in lines] == [
        ("signed_in", "ana"),
        ("refused", "ana"),
        ("refused", ""),
        ("signed_out", "ana"),
    ]


@pytest.mark.parametrize(
    "there",
    [
        "//evil.example/board",
        "https://evil.example/board",
        "/\\evil.example",
        "/board\\@evil.example",
        "/boardroom",
        "/board/../../etc",
        "/board/sign-in?next=/board/sign-in",
        "/voice/inbound",
        "javascript:alert(1)",
        "/board\r\nSet-Cookie: a=b",
        "/board/%0d%0aSet-Cookie:a=b\n",
        "/board/" + "a" * 400,
    ],
)
def test_a_link_leads_nowhere_but_to_the_board(here: Desk, there: str) -> None:
    browser = here.browser()
    assert sign_in_as(browser, "ana", next=there).headers["location"] == "/board"
    shown = here.browser().get("/board/sign-in", params={"next": there})
    assert form_of(shown)["next"] == "/board"


def test_who_wanted_to_see_a_call_sees_it_after_signing_in(here: Desk) -> None:
    browser = here.browser()
    sent = browser.get("/board/call?tab=lanes").headers["location"]
    form = form_of(browser.get(sent))
    form |= {"name": "ana", "password": password_of("ana")}
    assert post(browser, "/board/sign-in", form).headers["location"] == "/board/call?tab=lanes"


def test_the_page_is_in_chinese_for_who_reads_that(here: Desk) -> None:
    answer = here.browser(**{"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}).get("/board/sign-in")
    assert '<html lang="zh' in answer.text
    assert "密码" in answer.text


def test_over_https_cookies_are_for_this_host_and_scripts_cannot_read_them(
    redis_url: str, users: Path
) -> None:
    with desk(redis_url, users=users, public_url=FAR) as far:
        browser = far.browser()
        answer = sign_in_as(browser, "ana")
        cookies = [said.lower() for said in answer.headers.get_list("set-cookie")]
        (session,) = [said for said in cookies if "callflow-session=" in said]
        assert session.startswith("__host-callflow-session=")
        for word in ("secure", "httponly", "samesite=lax", "path=/"):
            assert word in session.split("; ")
        assert "domain" not in session
        assert "max-age" not in session
        assert browser.get("/board").status_code == 200
        planted = far.browser()
        planted.cookies.set("callflow-session", session_cookie(browser))
        assert planted.get("/board").status_code == 303, "a cookie that anybody could have set"


def test_nobody_signs_in_where_a_password_can_be_read_on_its_way(
    redis_url: str, users: Path
) -> None:
    with desk(redis_url, users=users, public_url="http://board.example.org") as plain:
        answer = sign_in_as(plain.browser(), "ana")
        assert answer.status_code == 403
        assert "https" in answer.text
