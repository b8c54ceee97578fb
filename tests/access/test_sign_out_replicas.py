"""Who signs out is out even after a failover, or is told that they are still signed in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from callflow.access.sessions import BoardUser, Sessions, SessionUser
from callflow.call.role import Role
from callflow.errors import StoreUnreplicated
from callflow.lab.chaos.chaos_servers import ServerPair, server_pair
from callflow.redis.client import connect
from callflow.redis.scripts import Replicas, Scripts
from tests.board_app import (
    BoardApp,
    board_app,
    csrf_of,
    post,
    session_cookie,
    sign_in_as,
    write_users,
)

ANA = SessionUser(BoardUser("ana", Role.VIEWER), "local", "ana")


@pytest.fixture
def pair() -> Iterator[ServerPair]:
    with server_pair() as running:
        yield running


@pytest.fixture
def here(pair: ServerPair, tmp_path: Path) -> Iterator[BoardApp]:
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    with board_app(pair.url, users=users, min_replicas=1, replica_wait_s=0.1) as running:
        yield running


@pytest.mark.parametrize("fields", [{}, {"everywhere": "yes"}])
def test_who_signs_out_while_replicas_are_gone_is_told_and_may_ask_again(
    pair: ServerPair, here: BoardApp, fields: dict[str, str]
) -> None:
    browser = here.signed_in("ana")
    form = {**csrf_of(browser), **fields}
    pair.cut_off_replica()
    for _ in range(2):
        answer = post(browser, "/board/sign-out", form)
        assert answer.status_code == 503
        assert "still signed in" in answer.text
        assert browser.get("/board").status_code == 200
    assert here.signed_in("ana").get("/board").status_code == 200
    assert here.signed_in("ana"), "while replicas are gone nobody can come in"

    pair.follow()
    pair.wait_until_in_step()
    token = session_cookie(browser)
    assert post(browser, "/board/sign-out", form).status_code == 303
    pair.fail_over()
    thief = here.browser()
    thief.cookies.set("callflow-session", token)
    assert thief.get("/board").status_code == 303


def test_who_signs_in_again_while_replicas_are_gone_is_let_in(
    pair: ServerPair, here: BoardApp
) -> None:
    browser = here.signed_in("ana")
    pair.cut_off_replica()
    assert sign_in_as(browser, "ana").status_code == 303


def test_a_session_that_has_ended_is_asked_of_the_replicas_as_well(pair: ServerPair) -> None:
    with connect(pair.url) as client:
        careful = Sessions(Scripts(client, replicas=Replicas(1, 100)))
        token = careful.begin(ANA)
        pair.cut_off_replica()
        for _ in range(2):
            with pytest.raises(StoreUnreplicated):
                careful.end(token)
