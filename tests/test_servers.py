"""The check that no key stays for ever can itself fail."""

from __future__ import annotations

import redis

from callflow.lab.embedded_server import EmbeddedServer
from callflow.store.keys import PREFIX, call_keys
from tests.servers import Servers


def test_a_key_of_ours_without_a_lifetime_is_a_leak(
    servers: Servers, each_server: EmbeddedServer
) -> None:
    keys = call_keys("CA1")
    with redis.Redis.from_url(each_server.url) as client:
        client.hset(keys.call, "state", "pending")
        client.zadd(keys.shard.owed, {"CA1": 1})
        client.set(f"{PREFIX}:short-lived", "1", px=60_000)
        client.set("somebody-else's", "1")
        kind = "valkey" if "valkey" in each_server.binary.name else "redis7"
        assert servers.leaks() == [f"{keys.call} ({kind})", f"{keys.shard.owed} ({kind})"]
        client.delete(keys.call, keys.shard.owed)
    assert servers.leaks() == []


def test_what_one_test_stored_is_gone_for_the_next(servers: Servers) -> None:
    with redis.Redis.from_url(servers.clean("valkey").url) as client:
        client.set("left", "behind")
        servers.clean("valkey")
        assert client.dbsize() == 0


def test_a_server_killed_by_a_test_is_back_for_the_next(servers: Servers) -> None:
    first = servers.clean("valkey")
    first.kill()
    second = servers.clean("valkey")
    assert second is first
    assert second.alive
    with redis.Redis.from_url(second.url) as client:
        assert client.dbsize() == 0
