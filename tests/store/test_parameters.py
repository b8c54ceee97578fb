"""What stands behind the `?` of a server's address is known, or refused before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.errors import SettingsError
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect, connect_async
from callflow.redis.cluster import AsyncCluster

ADDRESSES = (
    "redis://:secret@host:6379/0",
    "rediss://:secret@host:6379/0",
    "unix:///run/redis.sock",
    "redis+sentinel://:secret@host:26379/service/0",
    "rediss+sentinel://:secret@host:26379/service/0",
    "redis+cluster://:secret@host:6379,host2:6379",
    "rediss+cluster://:secret@host:6379",
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


@pytest.mark.parametrize("url", ADDRESSES)
@pytest.mark.parametrize("query", ["foo=secret", "foo", "db=0&foo=secret"])
def test_an_unknown_parameter_is_refused_by_name_and_without_its_value(
    url: str, query: str
) -> None:
    sentence = refused(f"{url}?{query}")
    assert "the parameter 'foo'" in sentence
    assert "which is unknown; known are client_name, db," in sentence


@pytest.mark.parametrize("url", [url for url in ADDRESSES if url.startswith("rediss")])
def test_a_misspelt_parameter_is_answered_with_what_it_may_have_meant(url: str) -> None:
    assert "'ssl_ca_cert' " in (sentence := refused(f"{url}?ssl_ca_cert=secret"))
    assert "did you mean ssl_ca_certs?" in sentence


@pytest.mark.parametrize("url", [url for url in ADDRESSES if url.startswith("redis:")])
def test_what_is_for_tls_wants_an_address_with_tls(url: str) -> None:
    assert "begin the address with rediss" in refused(f"{url}?ssl_ca_certs=secret")


def test_a_password_with_a_question_mark_is_not_shown_as_a_parameter() -> None:
    sentence = refused("redis://:12?secret=34@host:6379/0")
    assert "percent-encoded" in sentence


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
            client.startup_nodes[0].acquire_connection()
        else:
            client.connection_pool.connection_class(**client.connection_pool.connection_kwargs)


def test_a_server_behind_a_socket_of_this_machine_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "r.sock"
    with EmbeddedServer.start(options=(f"unixsocket {path}",)) as server:
        with connect(f"unix://:{server.password}@{path}?db=0") as client:
            assert client.ping()
