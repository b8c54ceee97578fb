"""Who competes: callflow and a bare Celery task in both pools, and the seed as Celery comes."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

import redis

from benchmarks.crowd import Connect
from callflow.lab.stack import LocalStack

NAMES = ("callflow", "bare", "seed", "callflow-threads", "bare-threads")
"""Without a suffix: prefork. Every one has the same number of worker processes and slots."""

WORKERS = 2


class Contestant(Protocol):
    """What each module of this folder offers."""

    connect: Connect

    def env(self, url: str) -> dict[str, str]:
        """The environment of its processes for the server behind `url`."""

    def start(self, stack: LocalStack, pool: str, slots: int) -> None:
        """Start all its processes."""

    def ready(self, client: redis.Redis, pool: str, slots: int) -> bool:
        """True once every process is up and waits for work."""


def pool_of(name: str) -> str:
    """The Celery pool of a contestant."""
    return "threads" if name.endswith("-threads") else "prefork"


def contestant(name: str) -> Contestant:
    """The module behind one of `NAMES`."""
    stem = name.removesuffix("-threads")
    return cast(Contestant, import_module(f"benchmarks.contestants.{stem}"))


def connect(name: str) -> Connect:
    """How callers reach this contestant."""
    return contestant(name).connect


def consuming(client: redis.Redis) -> int:
    """How many Celery workers wait at their queues at this moment."""
    return int(client.info("clients")["blocked_clients"])
