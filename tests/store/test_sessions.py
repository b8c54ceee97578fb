"""Sessions, tries and what was used once: on each server, in a cluster, and with the rights of
deploy/acl."""

from __future__ import annotations

import time

from callflow.access.sessions import (
    Allowed,
    BoardUser,
    Lifetimes,
    Limits,
    Sessions,
    SessionUser,
    SignInAttempts,
)
from callflow.call.role import Role
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from callflow.store.claims import claim_once
from tests.acl import PASSWORD, refusals, url_of, users
from tests.parts import SID, Parts

ANA, BO = (SessionUser(BoardUser(name, Role.VIEWER), "local", name) for name in ("ana", "bo"))


def a_day_at_the_door(client: Client) -> None:
    """Everything that sign-in asks of the store."""
    scripts = Scripts(client)
    sessions = Sessions(scripts)
    first, second, bos = (sessions.begin(user) for user in (ANA, ANA, BO))
    assert sessions.find(first) == ANA
    assert sessions.find(f"{BO.key}.{first.partition('.')[2]}") is None
    sessions.end(first)
    sessions.end(first)
    assert sessions.find(first) is None
    assert sessions.find(second) == ANA
    sessions.end_all(second)
    assert sessions.find(second) is None
    assert sessions.find(bos) == BO
    assert sessions.find(sessions.begin(ANA)) == ANA
    for no_token in ("", "x", ANA.key):
        sessions.end(no_token)
        assert sessions.find(no_token) is None
    attempts = SignInAttempts(scripts, Limits(pair=Allowed(1, 60_000)))
    assert attempts.begin("ana", "192.0.2.1") == 0
    attempts.forgive("ana", "192.0.2.1")
    assert [attempts.begin("ana", "192.0.2.1") > 0 for _ in range(2)] == [False, True]
    assert [claim_once(scripts, "once:s", 60_000) for _ in range(3)] == [True, False, False]
    # Whoever names themselves may ask again: their first answer may have been lost.
    mine = [claim_once(scripts, "minute:7", 60_000, by=who) for who in ("a", "a", "b", "a")]
    assert mine == [True, True, False, True]
    audit = Audit(scripts)
    audit.record(SID, "ana", "read")
    audit.record_sign_in("signed_in", "ana", "192.0.2.1")
    assert [(line.by, line.what) for line in audit.of_call(SID)] == [("ana", "read")]
    (line,) = audit.sign_ins()
    assert (line.what, line.by, line.address) == ("signed_in", "ana", "192.0.2.1")
    assert abs(line.at - time.time() * 1000) < 60_000


def test_on_each_server(each_server: EmbeddedServer) -> None:
    with connect(each_server.url) as client:
        a_day_at_the_door(client)
        assert keys_without_lifetime(client) == []


def test_in_a_cluster(clustered: Parts) -> None:
    clustered.store.open(SID)
    a_day_at_the_door(clustered.client)


def test_with_no_more_rights_than_are_granted() -> None:
    with EmbeddedServer.start(options=users()) as server:
        assert PASSWORD
        with connect(server.url) as admin:
            refusals(server)
            with connect(url_of(server, "callflow")) as client:
                scripts = Scripts(client)
                token = Sessions(scripts).begin(ANA)
                Sessions(scripts).end_all(token)
                assert Sessions(scripts).find(token) is None
                SignInAttempts(scripts).begin("ana", "192.0.2.1")
                SignInAttempts(scripts).forgive("ana", "192.0.2.1")
                assert claim_once(scripts, "once:s", 60_000)
                Audit(scripts).record(SID, "ana", "read")
                Audit(scripts).record_sign_in("signed_in", "ana", "192.0.2.1")
            with connect(url_of(server, "callflow-reader")) as client:
                assert [line.by for line in Audit(Scripts(client)).of_call(SID)] == ["ana"]
                assert [line.by for line in Audit(Scripts(client)).sign_ins()] == ["ana"]
            assert refusals(server) == []
            assert keys_without_lifetime(admin) == []


def test_the_count_of_sign_outs_outlives_every_session_begun_at_it(redis_url: str) -> None:
    with connect(redis_url) as client:
        sessions = Sessions(Scripts(client), Lifetimes(idle_ms=60_000, most_ms=100_000))
        old = sessions.begin(ANA)
        sessions.end_all(old)
        (count,) = client.scan_iter("*signed-out")
        client.pexpire(count, 5_000)
        new = sessions.begin(ANA)
        assert client.pttl(count) > 90_000
        assert sessions.find(new) == ANA
        assert sessions.find(old) is None
