"""Looks over the server with the Celery messages, for `callflow doctor`. Changes nothing there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from callflow.celery import CALLS, WATCHDOG
from callflow.errors import StoreError
from callflow.store.finding import Check, Grade
from callflow.store.rounds import WATCHDOG_WAY_OUT
from callflow.store.script import address, connect, translated

LONG_QUEUE = 1_000
MANY_SWEEPS = 50
"""Beat asks for five a second, each is done within milliseconds: these are taken by nobody."""

REDIS = ("redis://", "rediss://", "unix://")


def checks(url: str) -> Iterator[Check]:
    """One finding after the other. A broker that cannot be reached is one of them."""
    if not url.startswith(REDIS):
        yield Check("broker", Grade.UNKNOWN, "it is no Redis server: look at it with its own tools")
        return
    try:
        where, lengths = _lengths(url, (*CALLS, WATCHDOG))
    except StoreError as error:
        yield Check(
            "broker",
            Grade.FAILURE,
            str(error),
            "no worker is woken until it is back; nothing is lost, the records say what is owed",
        )
        return
    yield Check("broker", Grade.OK, f"the messages are at {where}")
    yield _turns(lengths)
    yield _sweeps(lengths[WATCHDOG])


def waiting(url: str, queues: Sequence[str] = (*CALLS, WATCHDOG)) -> dict[str, int]:
    """How many messages are in each queue; nothing where that cannot be known now."""
    if not url.startswith(REDIS):
        return {}
    try:
        return _lengths(url, queues)[1]
    except StoreError:
        # That it is gone is a finding of its own, see `checks`.
        return {}


def _lengths(url: str, queues: Sequence[str]) -> tuple[str, dict[str, int]]:
    client = connect(url)
    where = address(client)
    with translated(where), client.pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.llen(queue)
        return where, dict(zip(queues, pipe.execute(), strict=True))


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
