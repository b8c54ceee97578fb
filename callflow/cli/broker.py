"""Looks over the server with the Celery messages, for `callflow doctor`. Changes nothing there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callflow import bootstrap
from callflow.celery import CALLS, WATCHDOG
from callflow.errors import SettingsError, StoreError
from callflow.health.check import Check, Grade
from callflow.health.rounds import WATCHDOG_WAY_OUT
from callflow.redis.client import Client, address, connect, translated
from callflow.redis.url import store_url_of_broker

LONG_QUEUE = 1_000
MANY_SWEEPS = 50
"""Beat asks for five a second, each is done within milliseconds: these are taken by nobody."""


def checks(url: str) -> Iterator[Check]:
    """One finding after the other. A broker that cannot be reached is one of them."""
    variable = "CALLFLOW_BROKER_URL" if bootstrap.settings().broker_url else "CALLFLOW_REDIS_URL"
    try:
        client = _client(url)
    except SettingsError as error:
        # kombu may know what we do not, so it need not be broken.
        yield Check("broker", Grade.UNKNOWN, f"not looked at: {variable} {error.reason}")
        return
    try:
        lengths = _lengths(client, (*CALLS, WATCHDOG))
    except StoreError as error:
        yield Check(
            "broker",
            Grade.FAILURE,
            f"the messages are at {address(client)}, which cannot be asked: {error.__cause__}",
            f"check {variable}; no worker is woken until it is back; nothing is lost, the records "
            "say what is owed",
        )
        return
    yield Check("broker", Grade.OK, f"the messages are at {address(client)}")
    yield _turns(lengths)
    yield _sweeps(lengths[WATCHDOG])


def waiting(url: str, queues: Sequence[str] = (*CALLS, WATCHDOG)) -> dict[str, int]:
    """How many messages are in each queue; nothing where that cannot be known now."""
    try:
        return _lengths(_client(url), queues)
    except (StoreError, SettingsError):
        # That it cannot be asked is a finding of its own, see `checks`.
        return {}


def _client(url: str) -> Client:
    return connect(store_url_of_broker(url, bootstrap.settings().broker_service))


def _lengths(client: Client, queues: Sequence[str]) -> dict[str, int]:
    with translated(address(client)), client.pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.llen(queue)
        return dict(zip(queues, pipe.execute(), strict=True))


def _turns(lengths: dict[str, int]) -> Check:
    told = ", ".join(f"{queue} {lengths[queue]}" for queue in CALLS)
    if max(lengths[queue] for queue in CALLS) < LONG_QUEUE:
        return Check("queues", Grade.OK, f"messages waiting: {told}")
    return Check(
        "queues",
        Grade.WARNING,
        f"messages pile up: {told}",
        "add workers for that queue; nothing is lost, since the records say what is owed",
    )


def _sweeps(waiting: int) -> Check:
    told = f"sweeps waiting in the queue {WATCHDOG}: {waiting}"
    if waiting <= MANY_SWEEPS:
        return Check("sweeps", Grade.OK, told)
    return Check(
        "sweeps", Grade.WARNING, f"{told}; no watchdog worker takes them", WATCHDOG_WAY_OUT
    )
