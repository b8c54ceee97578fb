"""People sign in with a name and a password, and leave; nobody guesses a password."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from callflow.access import passwords
from callflow.access.auth import BoardOrigin
from callflow.access.passwords import hashed
from callflow.access.sessions import (
    Allowed,
    BoardUser,
    Lifetimes,
    Limits,
    Sessions,
    SessionUser,
    SignInAttempts,
    hash_token,
    new_token,
)
from callflow.access.users_file import edit_users
from callflow.call.role import Role
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.board_app import (
    FAR,
    SECRET_WORDS,
    BoardApp,
    board_app,
    csrf_of,
    form_of,
    password_of,
    post,
    session_cookie,
    sign_in_as,
    write_users,
)

ANA = SessionUser(BoardUser("ana", Role.VIEWER), "local", "ana")


def test_who_has_signed_in_sees_the_board_as_who_they_are(here: BoardApp) -> None:
    for name in ("bo", "BO"):
        browser = here.browser()
        assert sign_in_as(browser, name, password_of("bo")).headers["location"] == "/board"
        assert browser.get("/board").text == f"bo dispatcher: {SECRET_WORDS}"


def test_a_wrong_password_and_an_unknown_name_are_told_the_same(here: BoardApp) -> None:
    varying = re.compile(r'(?:name="csrf" value="|name="name" value=")[^"]*')
    for password in ("", "wrong", "bo has a long passwor", "x" * 5000):
        browsers = here.browser(), here.browser()
        known, unknown = map(sign_in_as, browsers, ("bo", "nobody"), (password, password))
        assert known.status_code == unknown.status_code == 403, password
        assert "wrong" in known.text
        assert varying.sub("", known.text) == varying.sub("", unknown.text)
        assert not any(map(session_cookie, browsers))


def test_the_password_is_in_no_answer_and_a_name_is_shown_as_text(here: BoardApp) -> None:
    answer = sign_in_as(here.browser(), '"><script>alert(1)</script>', "this-was-mistyped")
    assert "<script>alert" not in answer.text
    assert "this-was-mistyped" not in answer.text + str(answer.headers)


def test_a_session_that_somebody_brings_along_is_not_the_one_that_they_get(here: BoardApp) -> None:
    planted = f"{ANA.key}.{new_token()}"
    browser = here.browser()
    browser.cookies.set("callflow-session", planted, domain="127.0.0.1", path="/")
    sign_in_as(browser, "ana")
    got = here.browser()
    got.cookies.set("callflow-session", planted)
    assert got.get("/board").status_code == 303
    assert planted not in [cookie.value for cookie in browser.cookies.jar if cookie.path == "/"]


def test_who_signs_in_leaves_the_session_that_their_browser_had(here: BoardApp) -> None:
    browser, elsewhere = here.signed_in("ana"), here.signed_in("ana")
    for name in ("ana", "bo"):
        thief = here.browser()
        thief.cookies.set("callflow-session", session_cookie(browser))
        assert thief.get("/board").status_code == 200
        assert sign_in_as(browser, name).status_code == 303
        assert thief.get("/board").status_code == 303
        assert browser.get("/board").status_code == elsewhere.get("/board").status_code == 200


def test_the_store_has_no_token_and_no_password(here: BoardApp, redis_url: str) -> None:
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
        idle = sessions.begin(ANA, now_ms=now)
        assert sessions.find(idle, now_ms=now + 59_999) == ANA
        assert sessions.find(idle, now_ms=now + 59_999 + 60_000) is None
        assert sessions.find(idle, now_ms=now) is None
        busy = sessions.begin(ANA, now_ms=now)
        for later in (50_000, 100_000, 150_000, 199_999):
            assert sessions.find(busy, now_ms=now + later) == ANA
        assert sessions.find(busy, now_ms=now + 200_000) is None


def test_who_signs_out_is_out_here_and_nowhere_else(here: BoardApp) -> None:
    one, other = here.signed_in("ana"), here.signed_in("ana")
    old = session_cookie(one)
    assert post(one, "/board/sign-out", csrf_of(one)).headers["location"] == "/board/sign-in"
    assert not session_cookie(one)
    thief = here.browser()
    thief.cookies.set("callflow-session", old)
    assert thief.get("/board").status_code == 303
    assert other.get("/board").status_code == 200


def test_who_signs_out_everywhere_is_out_everywhere_and_may_sign_in_again(here: BoardApp) -> None:
    one, other, somebody_else = (here.signed_in(name) for name in ("ana", "ana", "bo"))
    post(one, "/board/sign-out", {**csrf_of(one), "everywhere": "yes"})
    assert other.get("/board").status_code == 303
    assert somebody_else.get("/board").status_code == 200
    assert here.signed_in("ana").get("/board").status_code == 200


def test_who_is_removed_or_has_another_role_or_password_is_out_at_once(
    here: BoardApp, users: Path
) -> None:
    bo = here.signed_in("bo")
    changes: list[dict[str, object] | None] = [
        None,
        {"role": Role.ADMIN},
        {"password": hashed("something else now")},
    ]
    for change in changes:
        write_users(users, ana="viewer", bo="dispatcher")
        ana = here.signed_in("ana")
        with edit_users(users) as known:
            before = known.pop("ana")
            if change is not None:
                known["ana"] = before.model_copy(update=change)
        assert ana.get("/board").status_code == 303, change
        assert bo.get("/board").status_code == 200


def test_a_damaged_file_lets_nobody_in_until_it_is_whole_again(here: BoardApp, users: Path) -> None:
    ana, whole = here.signed_in("ana"), users.read_text()
    users.write_text("users: [")
    answer = ana.get("/board")
    assert answer.status_code == 503
    assert str(users) not in answer.text
    users.write_text(whole)
    assert ana.get("/board").status_code == 200


def test_twelve_browsers_sign_in_at_once(here: BoardApp) -> None:
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


def test_sign_ins_are_kept_and_a_name_that_nobody_has_is_not(here: BoardApp) -> None:
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


ELSEWHERE = (
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
)


def test_a_link_leads_nowhere_but_to_the_board(here: BoardApp) -> None:
    for there in ELSEWHERE:
        answer = sign_in_as(here.browser(), "ana", next=there)
        assert answer.headers["location"] == "/board", there
        shown = here.browser().get("/board/sign-in", params={"next": there})
        assert form_of(shown)["next"] == "/board", there


def test_who_wanted_to_see_a_call_sees_it_after_signing_in(here: BoardApp) -> None:
    browser = here.browser()
    sent = browser.get("/board/call?tab=lanes").headers["location"]
    form = form_of(browser.get(sent))
    form |= {"name": "ana", "password": password_of("ana")}
    assert post(browser, "/board/sign-in", form).headers["location"] == "/board/call?tab=lanes"


def test_the_page_is_in_chinese_for_who_reads_that(here: BoardApp) -> None:
    answer = here.browser(**{"accept-language": "zh-CN,zh;q=0.9,en;q=0.5"}).get("/board/sign-in")
    assert '<html lang="zh' in answer.text
    assert "密码" in answer.text


def test_over_https_cookies_are_for_this_host_and_scripts_cannot_read_them(
    redis_url: str, users: Path
) -> None:
    with board_app(redis_url, users=users, public_url=FAR) as far:
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
    with board_app(redis_url, users=users, public_url="http://board.example.org") as plain:
        answer = sign_in_as(plain.browser(), "ana")
        assert answer.status_code == 403
        assert "https" in answer.text


@pytest.fixture
def counted(redis_url: str, users: Path) -> Iterator[BoardApp]:
    """Behind a proxy that tells where people are."""
    with board_app(redis_url, users=users, board_proxies=1) as running:
        yield running


def from_address(counted: BoardApp, address: str, name: str, password: str | None = None) -> int:
    browser = counted.browser(**{"x-forwarded-for": address})
    return sign_in_as(browser, name, password).status_code


def test_after_four_wrong_passwords_the_right_one_has_to_wait(counted: BoardApp) -> None:
    for name in ("ana", "nobody"):
        tries = [from_address(counted, "192.0.2.1", name, "wrong") for _ in range(5)]
        assert tries == [403] * 4 + [429]
        browser = counted.browser(**{"x-forwarded-for": "192.0.2.1"})
        answer = sign_in_as(browser, name)
        assert answer.status_code == 429
        assert 200 < int(answer.headers["retry-after"]) <= 300
        assert "5 min" in answer.text


def test_a_name_that_is_being_guessed_is_let_in_from_elsewhere(counted: BoardApp) -> None:
    for _ in range(6):
        from_address(counted, "192.0.2.1", "ana", "wrong")
    assert from_address(counted, "192.0.2.2", "ana") == 303
    assert from_address(counted, "192.0.2.1", "bo") == 303


def test_who_guesses_at_many_names_is_slowed_by_their_address(counted: BoardApp) -> None:
    attempts = SignInAttempts(counted.auth.scripts)
    waits = [attempts.begin(f"name{number}", "192.0.2.1") for number in range(30)]
    assert waits == [0] * 30
    assert from_address(counted, "192.0.2.1", "bo") == 429
    assert from_address(counted, "192.0.2.2", "bo") == 303


def test_who_comes_from_many_addresses_is_slowed_by_the_name(redis_url: str) -> None:
    with connect(redis_url) as client:
        attempts = SignInAttempts(Scripts(client))
        waits = [attempts.begin("ana", f"192.0.2.{number}") for number in range(51)]
        assert waits[:50] == [0] * 50
        assert 3_500_000 < waits[50] <= 3_600_000
        assert attempts.begin("bo", "192.0.2.1") == 0


def test_one_address_alone_does_not_lock_a_name_out() -> None:
    limits = Limits()
    windows = -(-limits.name.within_ms // limits.pair.within_ms)
    assert windows * limits.pair.tries < limits.name.tries


def test_right_passwords_are_not_counted_and_do_not_wipe_out_wrong_ones(counted: BoardApp) -> None:
    assert [from_address(counted, "192.0.2.1", "ana") for _ in range(7)] == [303] * 7
    for _ in range(3):
        from_address(counted, "192.0.2.1", "ana", "wrong")
    assert from_address(counted, "192.0.2.1", "ana") == 303
    assert from_address(counted, "192.0.2.1", "ana", "wrong") == 403
    assert from_address(counted, "192.0.2.1", "ana") == 429


def test_who_comes_back_with_a_state_that_is_not_theirs_fills_no_audit_and_is_slowed(
    redis_url: str,
) -> None:
    company = {"oidc_issuer": "https://id.example", "oidc_client_id": "us"}
    with board_app(redis_url, **company) as here:
        browser = here.browser()
        states = ["x.y"] * 5 + [f"{number}.y" for number in range(27)]
        told = [
            browser.get("/board/sign-in/oidc/back", params={"code": "x", "state": one}).status_code
            for one in states
        ]
        assert told == [403] * 4 + [429] + [403] * 26 + [429]
        assert Audit(here.auth.scripts).sign_ins() == []


def test_somebody_who_is_refused_for_too_many_tries_costs_no_hash(
    counted: BoardApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        from_address(counted, "192.0.2.1", "ana", "wrong")

    def never(password: str, known: str | None) -> bool:
        raise AssertionError("the password was looked at")

    monkeypatch.setattr(passwords, "matches", never)
    assert from_address(counted, "192.0.2.1", "ana") == 429


def test_only_what_our_own_proxy_says_of_an_address_is_believed(counted: BoardApp) -> None:
    for number in range(5):
        from_address(counted, f"198.51.100.{number}, 192.0.2.1", "ana", "wrong")
    assert from_address(counted, "203.0.113.9, 192.0.2.1", "ana") == 429
    assert from_address(counted, "192.0.2.1, 203.0.113.9", "ana") == 303


def test_a_wait_is_over_some_day(redis_url: str) -> None:
    short = Limits(Allowed(9, 20), Allowed(1, 20), Allowed(9, 20))
    with connect(redis_url) as client:
        attempts = SignInAttempts(Scripts(client), short)
        assert attempts.begin("ana", "192.0.2.1") == 0
        wait_ms = attempts.begin("ana", "192.0.2.1")
        assert wait_ms <= 20
        # What has run out comes back without a lifetime for nobody.
        deadline = time.monotonic() + 5
        while attempts.begin("ana", "192.0.2.1") and time.monotonic() < deadline:
            attempts.forgive("nobody", "192.0.2.9")
        assert time.monotonic() < deadline
        assert not client.exists("callflow:{sign-in}:name:nobody")


def test_a_password_is_hashed_whether_there_is_such_a_name_or_not(
    here: BoardApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long an answer takes tells nobody which names there are."""
    costs = []
    verify = passwords._HASHER.verify

    class Counting:
        def verify(self, known: str, password: str) -> bool:
            costs.append(known.rsplit("$", 2)[0])
            return verify(known, password)

    monkeypatch.setattr(passwords, "_HASHER", Counting())
    for name in ("ana", "nobody"):
        assert sign_in_as(here.browser(), name, "wrong words altogether").status_code == 403
    assert costs == ["$argon2id$v=19$m=19456,t=2,p=1"] * 2


def test_a_gone_store_lets_nobody_in_and_says_little(tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    with board_app("redis://:word@127.0.0.1:1/0", users=users) as cut_off:
        answer = sign_in_as(cut_off.browser(), "ana")
        assert answer.status_code == 503
        assert "127.0.0.1:1" not in answer.text
        assert password_of("ana") not in answer.text


def test_keys_of_sign_ins_and_sessions_name_nobody(counted: BoardApp, redis_url: str) -> None:
    from_address(counted, "192.0.2.1", "ana")
    from_address(counted, "192.0.2.1", "ana", "wrong")
    with connect(redis_url) as client:
        keys = list(client.scan_iter("*"))
        assert len(keys) >= 5
        assert not [key for key in keys if "ana" in key or "192.0.2" in key]
        assert all(client.pttl(key) > 0 for key in keys)


ADDRESSES = [
    ("192.0.2.1", "192.0.2.1"),
    ("192.0.2.1:4711", "192.0.2.1"),
    ("::ffff:192.0.2.1", "192.0.2.1"),
    ("[2001:db8::1]:4711", "2001:db8::/64"),
    ("2001:db8::1", "2001:db8::/64"),
    ("2001:db8:0:1::ffff", "2001:db8:0:1::/64"),
    ("198.51.100.4, 192.0.2.1", "192.0.2.1"),
    ("unknown", "10.0.0.1"),
    ("", "10.0.0.1"),
]


def test_an_address_is_counted_however_a_proxy_writes_it() -> None:
    origin = BoardOrigin("https://board.example.org", proxies=1)
    for written, address in ADDRESSES:
        headers = [(b"x-forwarded-for", written.encode())]
        scope = {"type": "http", "headers": headers, "client": ("10.0.0.1", 1)}
        assert origin.client_address(Request(scope)) == address, written
