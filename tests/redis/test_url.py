"""Addresses are judged before they are used, and no refusal shows a part of a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.errors import SettingsError
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect, connect_async
from callflow.redis.cluster import AsyncCluster
from callflow.redis.url import Address, check_broker_url, parse_cluster, store_url_of_broker
from callflow.settings import load

ADDRESSES = (
    "redis://:secret@host:6379/0",
    "rediss://:secret@host:6379/0",
    "unix:///run/redis.sock",
    "redis+sentinel://:secret@host:26379/service/0",
    "rediss+sentinel://:secret@host:26379/service/0",
    "redis+cluster://:secret@host:6379,host2:6379",
    "rediss+cluster://:secret@host:6379",
)

UNESCAPED = (
    "redis://:p@ssw0rd/verysecret@db.example:6379/0",
    "redis://:p@ssw0rd@db.example:6379/0",
    "rediss://me:ssw0rd#verysecret@db.example:6379/0",
    "redis://:ssw0rd/verysecret@db.example:6379/0",
    "redis://:12?db=1&client_name=verysecret@db.example:6379/0",
    "redis://db.example/verysecret",
    "redis://db.example:6379/0#ssw0rd",
)

MALFORMED = (
    "redis+cluster://",
    "redis+cluster://h:x",
    "redis+cluster://h/3",
    "redis+cluster://a,,b",
    "redis+sentinel://:secret@host:26379",
    "redis+sentinel://:secret@host:26379/service/first",
    "redis+sentinel://:secret@host:port/service",
    "redis+sentinel://:secret@,host/service",
)


def refused(url: str) -> str:
    """What both clients say of `url`."""
    said = set()
    for asked in (connect, connect_async):
        with pytest.raises(SettingsError, match=r"^CALLFLOW_REDIS_URL: ") as raised:
            asked(url)
        assert "secret" not in str(raised.value)
        said.add(str(raised.value))
    (sentence,) = said
    return sentence


def test_an_unknown_parameter_is_refused_by_name_and_without_its_value() -> None:
    for url in ADDRESSES:
        for query in ("foo=secret", "foo", "db=0&foo=secret"):
            sentence = refused(f"{url}?{query}")
            assert "the parameter 'foo'" in sentence, url
            assert "; known are client_name, db," in sentence, url


def test_a_misspelt_parameter_is_answered_with_what_it_may_have_meant() -> None:
    for url in ADDRESSES:
        if url.startswith("rediss"):
            sentence = refused(f"{url}?ssl_ca_cert=secret")
            assert "'ssl_ca_cert' " in sentence, url
            assert "did you mean ssl_ca_certs?" in sentence, url


def test_what_is_for_tls_wants_an_address_with_tls() -> None:
    assert "begin the address with rediss" in refused(f"{ADDRESSES[0]}?ssl_ca_certs=secret")


def test_a_password_with_a_question_mark_is_not_shown_as_a_parameter() -> None:
    assert "percent-encoded" in refused("redis://:12?secret=34@host:6379/0")


def test_what_is_no_address_is_refused_with_the_forms_that_there_are() -> None:
    for url in MALFORMED:
        assert "redis+sentinel://:password@host" in refused(url), url


@pytest.mark.parametrize("url", ADDRESSES)
def test_what_every_connection_knows_is_taken(url: str) -> None:
    query = "client_name=calls&socket_timeout=1.5&max_connections=9"
    if url.startswith("rediss"):
        query += "&ssl_ca_certs=/ca.pem&ssl_certfile=/c.pem&ssl_keyfile=/k.pem&ssl_min_version=771"
        query += "&ssl_cert_reqs=required&ssl_check_hostname=yes&ssl_ciphers=A&ssl_password=secret"
        query += "&ssl_ca_data=secret&ssl_include_verify_flags=VERIFY_X509_STRICT"
        query += "&ssl_exclude_verify_flags=VERIFY_X509_STRICT"
    if "sentinel" in url:
        query += "&sentinel_username=me&sentinel_password=secret"
    for asked in (connect, connect_async):
        client = asked(f"{url}?{query}")
        # Where redis-py would find the unknown ones.
        if isinstance(client, AsyncCluster):
            node = client.nodes_manager.startup_nodes["host:6379"]
            assert node.acquire_connection().client_name == "calls"
        else:
            pool = client.connection_pool
            assert pool.connection_class(**pool.connection_kwargs).client_name == "calls"


def test_an_address_carries_user_password_and_certificates_for_every_node() -> None:
    scheme, seeds, options = parse_cluster(
        "rediss+cluster://ana:p%40ss@a:1,[::1],b:7000/0?ssl_ca_certs=/ca.pem"
    )
    assert scheme == "rediss"
    assert seeds == (Address("a", 1), Address("::1", 6379), Address("b", 7000))
    assert options == {"username": "ana", "password": "p@ss", "ssl_ca_certs": "/ca.pem"}


def test_a_server_behind_a_socket_of_this_machine_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    with EmbeddedServer.start(options=(f"unixsocket {path}",)) as server:
        with connect(f"unix://:{server.password}@{path}?db=0") as client:
            assert client.ping()


def test_an_address_that_a_password_may_have_broken_is_refused_without_a_part_of_it() -> None:
    for url in UNESCAPED:
        told = [refused(url)]
        for name in ("CALLFLOW_REDIS_URL", "CALLFLOW_BROKER_URL"):
            with pytest.raises(SettingsError) as raised:
                load({"CALLFLOW_REDIS_URL": "redis://localhost", name: url})
            told.append(str(raised.value))
        for one in told:
            assert "percent-encoded" in one, url
            assert not any(part in one for part in ("ssw0rd", "secret", "db.example")), url


def test_an_address_that_is_whole_is_taken() -> None:
    for url in (
        "redis://localhost",
        "redis://:p%40ssw0rd%2Fx%23@db.example:6379/0",
        "rediss://me:pw@[::1]:6379/15?ssl_cert_reqs=none",
        "redis://host:6379/?db=3",
        "redis://:pw@host:6379/0?client_name=a@b",
    ):
        connect(url).close()
        check_broker_url(url)


def test_a_broker_is_found_by_the_client_of_the_calls() -> None:
    for url, same in {
        "redis://:pw@host/1": "redis://:pw@host/1",
        "redis+socket:///r.sock?virtual_host=2": "unix:///r.sock?db=2",
        "sentinel://host": "redis+sentinel://host/calls/",
        "sentinel://me:p%40w@a:1/3;sentinel://:pw@[::1]:2": (
            "redis+sentinel://me:p%40w@a:1,[::1]:2/calls/3"
        ),
    }.items():
        check_broker_url(url)
        assert store_url_of_broker(url, "calls") == same
