"""A dead model is left alone by all workers, and one of them finds out when it is back."""

from __future__ import annotations

import pytest

from callflow.errors import StoreUnavailable
from callflow.lab.embedded_server import EmbeddedServer, keys_without_lifetime
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.store.breaker import Breakers, Pauses

MODEL = "openai:small@10.0.0.9:8080"
NOW = 1_800_000_000_000


@pytest.fixture
def breakers(redis_url: str) -> Breakers:
    return Breakers(Scripts(connect(redis_url)))


@pytest.fixture
def others(redis_url: str) -> Breakers:
    """The same breakers as another worker sees them."""
    return Breakers(Scripts(connect(redis_url)))


def opened(breakers: Breakers, at: int = NOW) -> None:
    assert not breakers.failed(MODEL, "a1", now_ms=at)
    assert breakers.failed(MODEL, "a2", now_ms=at)


def test_a_model_that_nobody_has_tried_may_be_asked(breakers: Breakers) -> None:
    assert breakers.may_ask(MODEL, "a1", now_ms=NOW)


def test_two_failures_in_a_row_close_it_off_for_every_worker(
    breakers: Breakers, others: Breakers
) -> None:
    assert not breakers.failed(MODEL, "a1", now_ms=NOW)
    assert others.may_ask(MODEL, "b1", now_ms=NOW)
    assert others.failed(MODEL, "b1", now_ms=NOW)
    assert not breakers.may_ask(MODEL, "a2", now_ms=NOW + 9_999)
    assert not others.may_ask(MODEL, "b2", now_ms=NOW + 9_999)


def test_a_success_between_two_failures_starts_the_count_anew(breakers: Breakers) -> None:
    breakers.failed(MODEL, "a1", now_ms=NOW)
    breakers.succeeded(MODEL, "a2", now_ms=NOW)
    assert not breakers.failed(MODEL, "a3", now_ms=NOW)


def test_a_failure_that_is_reported_twice_counts_once(breakers: Breakers) -> None:
    assert not breakers.failed(MODEL, "a1", now_ms=NOW)
    assert not breakers.failed(MODEL, "a1", now_ms=NOW)
    assert breakers.may_ask(MODEL, "a2", now_ms=NOW)


def test_a_wrong_key_closes_it_off_at_once(breakers: Breakers) -> None:
    assert breakers.failed(MODEL, "a1", barred=True, now_ms=NOW)
    assert not breakers.may_ask(MODEL, "a2", now_ms=NOW)


def test_after_the_pause_one_attempt_alone_may_try(breakers: Breakers, others: Breakers) -> None:
    opened(breakers)
    later = NOW + 10_000
    assert others.may_ask(MODEL, "b1", now_ms=later)
    assert others.may_ask(MODEL, "b1", now_ms=later)
    assert not breakers.may_ask(MODEL, "a3", now_ms=later)


def test_a_probe_that_succeeds_opens_the_way_for_all(breakers: Breakers, others: Breakers) -> None:
    opened(breakers)
    others.may_ask(MODEL, "b1", now_ms=NOW + 10_000)
    others.succeeded(MODEL, "b1", now_ms=NOW + 10_100)
    assert breakers.may_ask(MODEL, "a3", now_ms=NOW + 10_100)
    assert not breakers.failed(MODEL, "a3", now_ms=NOW + 10_200)


def test_every_probe_that_fails_doubles_the_pause_up_to_a_minute(breakers: Breakers) -> None:
    opened(breakers)
    now = NOW
    for number, pause in enumerate((10_000, 20_000, 40_000, 60_000, 60_000)):
        assert not breakers.may_ask(MODEL, f"early{number}", now_ms=now + pause - 1)
        now += pause
        assert breakers.may_ask(MODEL, f"probe{number}", now_ms=now)
        assert breakers.failed(MODEL, f"probe{number}", now_ms=now)


def test_a_probe_whose_worker_died_does_not_block_the_next(breakers: Breakers) -> None:
    opened(breakers)
    assert breakers.may_ask(MODEL, "dead", now_ms=NOW + 10_000)
    assert not breakers.may_ask(MODEL, "a3", now_ms=NOW + 19_999)
    assert breakers.may_ask(MODEL, "a3", now_ms=NOW + 20_000)


def test_a_request_from_before_it_opened_does_not_lengthen_the_pause(breakers: Breakers) -> None:
    opened(breakers)
    assert breakers.failed(MODEL, "late", now_ms=NOW + 5_000)
    assert breakers.may_ask(MODEL, "a3", now_ms=NOW + 10_000)


def test_each_model_has_a_breaker_of_its_own(breakers: Breakers) -> None:
    opened(breakers)
    assert breakers.may_ask("openai:small@10.0.0.10:8080", "a3", now_ms=NOW)


def test_nothing_of_it_stays_for_ever(each_server: EmbeddedServer) -> None:
    with connect(each_server.url) as client:
        breakers = Breakers(Scripts(client), Pauses(first_ms=1, longest_ms=1))
        for model in ("one", "two {x}"):
            breakers.failed(model, "a1")
            breakers.failed(model, "a2")
        # The server's own clock: the pause of a millisecond is over.
        assert not breakers.failed("three", "a1")
        assert len(client.keys()) == 3
        assert keys_without_lifetime(client) == []
        assert set(_lifetimes(client)) == {True}


def _lifetimes(client: Client) -> list[bool]:
    keys: list[str] = list(client.scan_iter())
    return [0 < client.pttl(key) <= 700_000 for key in keys]


def test_a_server_that_is_gone_is_said_so(own_server: EmbeddedServer) -> None:
    breakers = Breakers(Scripts(connect(own_server.url)))
    own_server.kill()
    with pytest.raises(StoreUnavailable):
        breakers.may_ask(MODEL, "a1")
