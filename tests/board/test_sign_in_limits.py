"""Nobody guesses a password: tries are counted before they are looked at, by name and address."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.requests import Request

from callflow.access import passwords
from callflow.access.http import BoardOrigin
from callflow.access.sessions import Allowed, Limits, Sessions, SignInAttempts
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.desk import Desk, desk, password_of, sign_in_as, write_users


@pytest.fixture
def here(redis_url: str, tmp_path: Path) -> Iterator[Desk]:
    users = write_users(tmp_path / "users.yaml", ana="viewer", bo="dispatcher")
    with desk(redis_url, users=users, board_proxies=1) as running:
        yield running


def from_address(here: Desk, address: str, name: str, password: str | None = None) -> int:
    browser = here.browser(**{"x-forwarded-for": address})
    return sign_in_as(browser, name, password).status_code


@pytest.mark.parametrize("name", ["ana", "nobody"])
def test_after_four_wrong_passwords_the_right_one_has_to_wait(here: Desk, name: str) -> None:
    tries = [from_address(here, "192.0.2.1", name, "wrong") for _ in range(5)]
    assert tries == [403] * 4 + [429]
    assert from_address(here, "192.0.2.1", name) == 429
    browser = here.browser(**{"x-forwarded-for": "192.0.2.1"})
    answer = sign_in_as(browser, name)
    assert 200 < int(answer.headers["retry-after"]) <= 300
    assert "5 min" in answer.text


def test_a_name_that_is_being_guessed_is_let_in_from_elsewhere(here: Desk) -> None:
    for _ in range(6):
        from_address(here, "192.0.2.1", "ana", "wrong")
    assert from_address(here, "192.0.2.2", "ana") == 303
    assert from_address(here, "192.0.2.1", "bo") == 303


def test_who_guesses_at_many_names_is_slowed_by_their_address(here: Desk) -> None:
    tries = [from_address(here, "192.0.2.1", f"name{number}", "wrong") for number in range(31)]
    assert tries == [403] * 30 + [429]
    assert from_address(here, "192.0.2.1", "bo") == 429
    assert from_address(here, "192.0.2.2", "bo") == 303


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


def test_right_passwords_are_not_counted_and_do_not_wipe_out_wrong_ones(here: Desk) -> None:
    assert [from_address(here, "192.0.2.1", "ana") for _ in range(7)] == [303] * 7
    for _ in range(3):
        from_address(here, "192.0.2.1", "ana", "wrong")
    assert from_address(here, "192.0.2.1", "ana") == 303
    assert from_address(here, "192.0.2.1", "ana", "wrong") == 403
    assert from_address(here, "192.0.2.1", "ana") == 429


def test_who_comes_back_with_a_state_that_is_not_theirs_fills_no_audit_and_is_slowed(
    redis_url: str,
) -> None:
    company = {"oidc_issuer": "https://id.example", "oidc_client_id": "us"}
    with desk(redis_url, **company) as here:
        browser = here.browser()
        states = ["x.y"] * 5 + [f"{number}.y" for number in range(27)]
        told = [
            browser.get("/board/sign-in/oidc/back", params={"code": "x", "state": one}).status_code
            for one in states
        ]
        assert told == [403] * 4 + [429] + [403] * 26 + [429]
        assert Audit(here.auth.scripts).sign_ins() == []


def test_somebody_who_is_refused_for_too_many_tries_costs_no_hash(
    here: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        from_address(here, "192.0.2.1", "ana", "wrong")

    def never(password: str, known: str | None) -> bool:
        raise AssertionError("the password was looked at")

    monkeypatch.setattr(passwords, "matches", never)
    assert from_address(here, "192.0.2.1", "ana") == 429


def test_only_what_our_own_proxy_says_of_an_address_is_believed(here: Desk) -> None:
    for number in range(5):
        from_address(here, f"198.51.100.{number}, 192.0.2.1", "ana", "wrong")
    assert from_address(here, "203.0.113.9, 192.0.2.1", "ana") == 429
    assert from_address(here, "192.0.2.1, 203.0.113.9", "ana") == 303


def test_one_customers_ipv6_addresses_are_one(here: Desk) -> None:
    for number in range(5):
        from_address(here, f"2001:db8::{number}", "ana", "wrong")
    assert from_address(here, "2001:db8::ffff", "ana") == 429
    assert from_address(here, "2001:db8:0:1::1", "ana") == 303


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


def test_how_long_an_answer_takes_does_not_tell_which_names_there_are(here: Desk) -> None:
    took: dict[str, list[float]] = {"ana": [], "nobody": []}
    browser = here.browser()
    for number in range(9):
        for name, spent in took.items():
            browser.headers["x-forwarded-for"] = f"192.0.2.{number}"
            began = time.process_time()
            sign_in_as(browser, name, "wrong")
            spent.append(time.process_time() - began)
    known, unknown = (statistics.median(spent) for spent in took.values())
    assert min(known, unknown) > 0.5 * max(known, unknown), took


def test_a_password_is_hashed_for_names_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    hashes = []
    verify = passwords._HASHER.verify

    class Counting:
        def verify(self, known: str, password: str) -> bool:
            hashes.append(known)
            return verify(known, password)

    monkeypatch.setattr(passwords, "_HASHER", Counting())
    assert not passwords.matches("wrong words altogether", None)
    assert len(hashes) == 1
    assert hashes[0].startswith("$argon2id$v=19$m=19456,t=2,p=1$")


def test_a_gone_store_lets_nobody_in_and_says_little(tmp_path: Path) -> None:
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    with desk("redis://:word@127.0.0.1:1/0", users=users) as cut_off:
        answer = sign_in_as(cut_off.browser(), "ana")
        assert answer.status_code == 503
        assert "127.0.0.1:1" not in answer.text
        assert password_of("ana") not in answer.text


def test_keys_of_sign_ins_and_sessions_name_nobody(here: Desk, redis_url: str) -> None:
    from_address(here, "192.0.2.1", "ana")
    from_address(here, "192.0.2.1", "ana", "wrong")
    with connect(redis_url) as client:
        keys = list(client.scan_iter("*"))
        assert len(keys) >= 5
        assert not [key for key in keys if "ana" in key or "192.0.2" in key]
        assert all(client.pttl(key) > 0 for key in keys)
        assert Sessions(Scripts(client)).find("0" * 32, "0") is None


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.1:4711", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("[2001:db8::1]:4711", "2001:db8::/64"),
        ("2001:db8::1", "2001:db8::/64"),
        ("unknown", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_an_address_is_counted_however_a_proxy_writes_it(said: str, counted: str) -> None:
    headers = [(b"x-forwarded-for", said.encode())]
    scope = {"type": "http", "headers": headers, "client": ("10.0.0.1", 1)}
    assert (
        BoardOrigin("https://board.example.org", proxies=1).client_address(Request(scope))
        == counted
    )
