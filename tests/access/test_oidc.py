"""People sign in with their company's accounts; what a provider did not say is not believed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from starlette.testclient import TestClient

from callflow.access import oidc, sign_in
from callflow.access.auth import BoardAuth
from callflow.errors import SettingsError
from callflow.settings import Settings, load
from tests.board_app import (
    NEAR,
    BoardApp,
    board_app,
    password_of,
    session_cookie,
    sign_in_as,
    write_users,
)
from tests.oidc_provider import CLIENT, SECRET, Claims, OidcProvider, oidc_provider, rsa_key

ROLES = "night-desk=dispatcher,lift-leads=admin,everybody=viewer"


@pytest.fixture
def company() -> Iterator[OidcProvider]:
    with oidc_provider() as running:
        running.person["groups"] = ["everybody", "night-desk"]
        yield running


def settings_for(company: OidcProvider, **more: object) -> dict[str, object]:
    return {
        "oidc_issuer": company.url,
        "oidc_client_id": CLIENT,
        "oidc_client_secret": SECRET,
        "oidc_roles": ROLES,
        **more,
    }


@pytest.fixture
def here(redis_url: str, company: OidcProvider) -> Iterator[BoardApp]:
    with board_app(redis_url, **settings_for(company)) as running:
        yield running


def sent_there(browser: TestClient, there: str = "/board") -> str:
    answer: httpx2.Response = browser.get("/board/sign-in/oidc", params={"next": there})
    assert answer.status_code == 303, answer.text
    return answer.headers["location"]


def come_back(browser: TestClient, company: OidcProvider, there: str = "/board") -> httpx2.Response:
    back = company.authorize(sent_there(browser, there))
    assert back.startswith(f"{NEAR}/board/sign-in/oidc/back?")
    return browser.get(back)


def refused(here: BoardApp, answer: httpx2.Response, browser: TestClient, says: str) -> None:
    assert answer.status_code == 403
    assert says in answer.text
    assert not session_cookie(browser)
    assert browser.get("/board").status_code == 303


VOUCH, ANEW = "did not vouch for you", "Begin again"


def test_somebody_whom_the_company_knows_sees_the_board(
    here: BoardApp, company: OidcProvider
) -> None:
    browser = here.browser()
    assert 'href="/board/sign-in/oidc?next=/board"' in browser.get("/board/sign-in").text
    answer = come_back(browser, company, "/board/call")
    assert answer.headers["location"] == "/board/call"
    assert browser.get("/board").text.startswith("dana dispatcher:")


def test_where_there_are_only_company_accounts_no_password_is_asked_for(here: BoardApp) -> None:
    assert "password" not in here.browser().get("/board/sign-in").text.lower()
    assert sign_in_as(here.browser(), "ana").status_code == 403


def test_a_link_through_the_provider_leads_nowhere_but_to_the_board(
    here: BoardApp, company: OidcProvider
) -> None:
    answer = come_back(here.browser(), company, "https://evil.example/board")
    assert answer.headers["location"] == "/board"


ROLE_CLAIMS: list[tuple[Claims, str, str]] = [
    ({"groups": ["lift-leads", "everybody"]}, "groups", "admin"),
    ({"groups": "everybody"}, "groups", "viewer"),
    ({"realm_access": {"roles": ["night-desk"]}}, "realm_access.roles", "dispatcher"),
    ({"https://x.example/roles": ["everybody"]}, "https://x.example/roles", "viewer"),
]


def test_roles_come_from_the_claim_that_is_named(redis_url: str, company: OidcProvider) -> None:
    for claims, path, role in ROLE_CLAIMS:
        company.person = {"sub": "u-1", "preferred_username": "dana", **claims}
        with board_app(redis_url, **settings_for(company, oidc_role_claim=path)) as here:
            browser = here.browser()
            come_back(browser, company)
            assert browser.get("/board").text.startswith(f"dana {role}:"), claims


def test_somebody_without_a_mapped_role_is_not_let_in(
    here: BoardApp, company: OidcProvider
) -> None:
    groups: list[object] = [None, [], ["others"], {"admin": True}, "admin", 7, ["admin"]]
    for company.person["groups"] in groups:
        browser = here.browser()
        refused(here, come_back(browser, company), browser, "no role here")


WRONG: dict[str, Callable[[Claims], Claims]] = {
    "another nonce": lambda claims: {**claims, "nonce": "of another sign-in"},
    "no nonce": lambda claims: {k: v for k, v in claims.items() if k != "nonce"},
    "another audience": lambda claims: {**claims, "aud": "another-client"},
    "another audience for us": lambda claims: {**claims, "aud": "another", "azp": CLIENT},
    "another party": lambda claims: {**claims, "aud": [CLIENT, "b"], "azp": "b"},
    "no audience": lambda claims: {k: v for k, v in claims.items() if k != "aud"},
    "expired": lambda claims: {**claims, "iat": time.time() - 999, "exp": time.time() - 120},
    "without an end": lambda claims: {k: v for k, v in claims.items() if k != "exp"},
    "not yet": lambda claims: {**claims, "nbf": time.time() + 999},
    "another issuer": lambda claims: {**claims, "iss": "https://evil.example"},
    "nobody": lambda claims: {k: v for k, v in claims.items() if k != "sub"},
    "another access token": lambda claims: {**claims, "at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
}


def test_a_token_that_is_not_for_this_sign_in_lets_nobody_in(
    here: BoardApp, company: OidcProvider
) -> None:
    for company.change in WRONG.values():
        browser = here.browser()
        refused(here, come_back(browser, company), browser, VOUCH)


def test_a_token_that_the_provider_has_not_signed_lets_nobody_in(
    here: BoardApp, company: OidcProvider
) -> None:
    company.signs_with = rsa_key("two")
    browser = here.browser()
    refused(here, come_back(browser, company), browser, VOUCH)


def test_a_signature_that_anybody_can_make_lets_nobody_in(
    here: BoardApp, company: OidcProvider
) -> None:
    for company.algorithm in ("HS256", "none"):
        browser = here.browser()
        refused(here, come_back(browser, company), browser, VOUCH)


def test_a_provider_that_changes_its_keys_is_asked_for_them_but_not_all_the_time(
    here: BoardApp, company: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert come_back(here.browser(), company).status_code == 303
    company.key = rsa_key("two")
    assert come_back(here.browser(), company).status_code == 403, "it was asked a moment ago"
    monkeypatch.setattr(oidc, "KEYS_AGAIN_S", 0.0)
    assert come_back(here.browser(), company).status_code == 303
    assert company.asked.count("/jwks") == 2


def test_a_way_back_works_once(here: BoardApp, company: OidcProvider) -> None:
    browser = here.browser()
    sent = sent_there(browser)
    kept = dict(browser.cookies)
    back = company.authorize(sent)
    assert browser.get(back).status_code == 303
    fresh_code = company.authorize(sent)
    for again in (back, fresh_code):
        replayed = here.browser()
        replayed.cookies.update(kept)
        answer = replayed.get(again)
        assert answer.status_code == 403
        assert ANEW in answer.text


def test_a_way_back_works_in_the_browser_that_was_sent(
    here: BoardApp, company: OidcProvider
) -> None:
    back = company.authorize(sent_there(here.browser()))
    stranger = here.browser()
    refused(here, stranger.get(back), stranger, ANEW)
    sent_there(stranger)
    refused(here, stranger.get(back), stranger, ANEW)


def test_a_state_that_we_did_not_give_is_worth_nothing(
    here: BoardApp, company: OidcProvider
) -> None:
    browser = here.browser()
    sent_there(browser)
    for state in ("", ".", "x", "x.y", "eyJhdCI6IDB9.AAAA", "é.é"):
        answer = browser.get("/board/sign-in/oidc/back", params={"code": "x", "state": state})
        refused(here, answer, browser, ANEW)


def test_a_provider_without_keys_lets_nobody_in(here: BoardApp, company: OidcProvider) -> None:
    wrong: list[Claims] = [{}, {"keys": 7}, {"keys": None}, {"keys": [{}]}, {"keys": [7]}]
    for company.jwks in wrong:
        browser = here.browser()
        answer = come_back(browser, company)
        assert answer.status_code == 403, (company.jwks, answer.text)
        assert not session_cookie(browser)


def test_who_takes_too_long_begins_again(
    here: BoardApp, company: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser = here.browser()
    back = company.authorize(sent_there(browser))
    monkeypatch.setattr(oidc, "WITHIN_S", -1)
    refused(here, browser.get(back), browser, ANEW)


def test_an_answer_of_another_provider_or_with_an_error_is_not_followed(
    here: BoardApp, company: OidcProvider
) -> None:
    for change in ({"iss": "https://evil.example"}, {"error": "access_denied"}, {"code": ""}):
        browser = here.browser()
        back = company.authorize(sent_there(browser))
        given = {name: values[0] for name, values in parse_qs(urlsplit(back).query).items()}
        answer = browser.get("/board/sign-in/oidc/back", params={**given, **change})
        refused(here, answer, browser, VOUCH)


def test_a_provider_that_calls_itself_otherwise_or_is_not_there_is_told(
    redis_url: str, company: OidcProvider
) -> None:
    company.discovery = {"issuer": "https://evil.example"}
    elsewhere = {"token_endpoint": "http://evil.example/token"}
    gone = settings_for(company, oidc_issuer="http://127.0.0.1:1")
    for settings, says in (({}, company.discovery), ({}, elsewhere), (gone, {})):
        company.discovery = dict(says)
        with board_app(redis_url, **{**settings_for(company), **settings}) as here:
            answer = here.browser().get("/board/sign-in/oidc")
            assert answer.status_code == 503
            assert "cannot be reached" in answer.text


def test_a_company_account_cannot_pass_for_a_local_user(
    redis_url: str, company: OidcProvider, tmp_path: Path
) -> None:
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    company.person["preferred_username"] = "ANA"
    with board_app(redis_url, **settings_for(company, users=users)) as here:
        browser = here.browser()
        refused(here, come_back(browser, company), browser, "local user")
        assert sign_in_as(browser, "ana", password_of("ana")).status_code == 303


def test_without_the_extra_the_setting_is_named(
    redis_url: str, company: OidcProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "callflow.access.oidc", raising=False)
    monkeypatch.setitem(sys.modules, "authlib.oidc.core", None)
    given = {"redis_url": redis_url, "public_url": NEAR, **settings_for(company)}
    auth = BoardAuth(Settings.model_validate(given))
    with pytest.raises(SettingsError, match=r"CALLFLOW_OIDC_ISSUER: .*authlib.*callflow\[oidc\]"):
        sign_in.routes(auth)
    auth.close()


UNFIT = [
    ({"OIDC_ISSUER": "https://x.example"}, "CALLFLOW_OIDC_CLIENT_ID"),
    ({"OIDC_CLIENT_ID": "us"}, "CALLFLOW_OIDC_ISSUER"),
    ({"OIDC_ISSUER": "http://x.example", "OIDC_CLIENT_ID": "us"}, "CALLFLOW_OIDC_ISSUER"),
    ({"OIDC_ROLES": "desk=boss"}, "CALLFLOW_OIDC_ROLES"),
    ({"OIDC_ROLES": "dispatcher"}, "CALLFLOW_OIDC_ROLES"),
    ({"BOARD_URL": "http://board.example"}, "CALLFLOW_BOARD_URL"),
    ({"BOARD_URL": "https://board.example/path"}, "CALLFLOW_BOARD_URL"),
    ({"SESSION_IDLE_S": "3600", "SESSION_MOST_S": "600"}, "CALLFLOW_SESSION_IDLE_S"),
]


def test_settings_that_do_not_fit_are_named() -> None:
    for environ, named in UNFIT:
        with pytest.raises(SettingsError) as told:
            load({f"CALLFLOW_{name}": value for name, value in environ.items()})
        assert told.value.name == named, environ
