"""Sessions, tries and what was used once: on each server, in a cluster, and with the rights of
deploy/acl."""

from __future__ import annotations

import time

from callflow.access.sessions import Allowed, Lifetimes, Limits, Sessions, SignInAttempts
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.leaks import keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from callflow.store.claims import claim_once
from tests.acl import PASSWORD, refusals, url_of, users
from tests.parts import SID, Parts

ANA, BO = "a" * 32, "b" * 32


def a_day_at_the_door(client: Client) -> None:
    """Everything that sign-in asks of the store."""
    scripts = Scripts(client)
    sessions = Sessions(scripts)
    for token in ("t1", "t2"):
        sessions.begin(ANA, token, "ana")
    sessions.begin(BO, "t3", "bo")
    assert sessions.find(ANA, "t1") == "ana"
    assert sessions.find(BO, "t1") is None
    sessions.end(ANA, "t1")
    sessions.end(ANA, "t1")
    assert sessions.find(ANA, "t1") is None
    assert sessions.find(ANA, "t2") == "ana"
    sessions.end_all(ANA)
    assert sessions.find(ANA, "t2") is None
    assert sessions.find(BO, "t3") == "bo"
    sessions.begin(ANA, "t4", "ana again")
    assert sessions.find(ANA, "t4") == "ana again"
    attempts = SignInAttempts(scripts, Limits(pair=Allowed(1, 60_000)))
    assert attempts.begin("ana", "192.0.2.1") == 0
    attempts.forgive("ana", "192.0.2.1")
    assert [attempts.begin("ana", "192.0.2.1") > 0 for _ in range(2)] == [False, True]
    assert [claim_once(scripts, "once:s", 60_000) for _ in range(3)] == [True, False, False]
    # Whoever names themselves may ask again: their first answer may have been lost.
    mine = [claim_once(scripts, "minute:7", 60_000, by=who) for who in ("a", "a", "b", "a")]
    assert mine == [True, True, False, True]
    audit = Audit(scripts)
    audit.note(SID, "ana", "read")
    audit.sign_in("signed_in", "ana", "192.0.2.1")
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
                Sessions(scripts).begin(ANA, "t", "ana")
                Sessions(scripts).end_all(ANA)
                assert Sessions(scripts).find(ANA, "t") is None
                SignInAttempts(scripts).begin("ana", "192.0.2.1")
                SignInAttempts(scripts).forgive("ana", "192.0.2.1")
                assert claim_once(scripts, "once:s", 60_000)
                Audit(scripts).note(SID, "ana", "read")
                Audit(scripts).sign_in("signed_in", "ana", "192.0.2.1")
            with connect(url_of(server, "callflow-reader")) as client:
                assert [line.by for line in Audit(Scripts(client)).of_call(SID)] == ["ana"]
                assert [line.by for line in Audit(Scripts(client)).sign_ins()] == ["ana"]
            assert refusals(server) == []
            assert keys_without_lifetime(admin) == []


def test_the_count_of_sign_outs_outlives_every_session_begun_at_it(redis_url: str) -> None:
    with connect(redis_url) as client:
        sessions = Sessions(Scripts(client), Lifetimes(idle_ms=60_000, most_ms=100_000))
        sessions.begin(ANA, "old", "ana")
        sessions.end_all(ANA)
        (count,) = client.scan_iter("*signed-out")
        client.pexpire(count, 5_000)
        sessions.begin(ANA, "new", "ana")
        assert client.pttl(count) > 90_000
        assert sessions.find(ANA, "new") == "ana"
        assert sessions.find(ANA, "old") is None
