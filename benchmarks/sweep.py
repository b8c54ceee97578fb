"""The sweep: what finding nothing costs with many calls in progress.

callflow's calls: one is opened, heard and claimed through the store; its record and thread are then
written for every other CallSid directly, together with the index entries that the scripts would
make, because 300,000 scripts say nothing about the sweep. All have just beaten. The sweep is told
the time of that beat, so that they are in time however long the measuring takes. The seed's calls
are its own documents in the same state.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import redis

from benchmarks.crowd import SAID
from benchmarks.seed import watchdog as seed_watchdog
from benchmarks.seed.document import Documents
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore
from callflow.store.keys import ALL_SHARDS, call_keys
from callflow.store.leases import Leases
from callflow.store.result import Claimed
from callflow.watchdog import Watchdog

Say = Callable[[str], None]

SWEEPS = 101
ENOUGH_S = 6.0
"""A contestant that takes so long for fewer than SWEEPS sweeps is believed."""

CHUNK = 1000
FIRST = "CA0"


def run(sizes: list[int], say: Say) -> dict[str, Any]:
    """Median ms of one sweep, by contestant and number of calls in progress."""
    with EmbeddedServer.start() as ours, EmbeddedServer.start() as theirs:
        callflow, seed = _Callflow(ours.url), _Seed(theirs.url)
        found: dict[str, dict[str, float]] = {"callflow_ms": {}, "seed_ms": {}}
        for size in sizes:
            callflow.grow(size)
            seed.grow(size)
            found["callflow_ms"][str(size)] = _median_ms(callflow.sweep)
            found["seed_ms"][str(size)] = _median_ms(seed.sweep)
            say(
                f"sweep of {size} calls: callflow {found['callflow_ms'][str(size)]:.2f} ms, "
                f"seed {found['seed_ms'][str(size)]:.0f} ms"
            )
    return found


def _median_ms(sweep: Callable[[], None]) -> float:
    times: list[float] = []
    while len(times) < SWEEPS and sum(times) < ENOUGH_S:
        began = time.perf_counter()
        sweep()
        times.append(time.perf_counter() - began)
    return 1000 * median(times)


class _Callflow:
    def __init__(self, url: str) -> None:
        self.client = connect(url)
        scripts, timing = Scripts(self.client), Settings().timing
        store = CallStore(scripts, timing)
        self.watchdog = Watchdog(store, Leases(scripts, timing))
        store.open(FIRST)
        store.record_utterance(FIRST, 1, SAID)
        claimed = store.claim(FIRST, "w0@host/1-00", "0")
        assert isinstance(claimed, Claimed)
        keys = call_keys(FIRST)
        self.fields: dict[Any, Any] = self.client.hgetall(keys.call)
        self.thread: list[Any] = self.client.lrange(keys.thread, 0, -1)
        self.beat_ms = int(self.fields["last_heartbeat"])
        self.size = 1

    def grow(self, size: int) -> None:
        """Bring the number of calls in progress to `size`."""
        for chunk in _chunks(self.size, size):
            with self.client.pipeline(transaction=False) as pipe:
                for number in chunk:
                    self._write(pipe, f"CA{number}")
                pipe.execute()
        self.size = max(self.size, size)
        assert sum(self.client.zcard(shard.leases) for shard in ALL_SHARDS) == self.size

    def _write(self, pipe: redis.client.Pipeline, call_sid: str) -> None:
        keys = call_keys(call_sid)
        pipe.hset(keys.call, mapping={**self.fields, "call_sid": f'"{call_sid}"'})
        pipe.rpush(keys.thread, *self.thread)
        pipe.zadd(keys.shard.leases, {call_sid: self.beat_ms})
        pipe.zadd(keys.shard.active, {call_sid: self.beat_ms})

    def sweep(self) -> None:
        """One whole round, as the watchdog's task runs it."""
        done = self.watchdog.sweep("benchmarks", now_ms=self.beat_ms)
        assert not any((done.reclaimed, done.woken, done.abandoned)), done


class _Seed:
    def __init__(self, url: str) -> None:
        self.documents = Documents(redis.Redis.from_url(url, decode_responses=True))
        self.documents.create(FIRST)
        self.documents.say(FIRST, "user", SAID)
        self.template = self.documents.read(FIRST) | {
            "call_state": "in_progress",
            "assigned_worker": "worker-1",
            # Ahead, so that all are in time however long one sweep takes.
            "last_heartbeat": time.time() + 3600,
        }
        self.documents.write(self.template)
        self.size = 1

    def grow(self, size: int) -> None:
        """Bring the number of calls in progress to `size`."""
        client = self.documents.client
        for chunk in _chunks(self.size, size):
            with client.pipeline(transaction=False) as pipe:
                writer = Documents(pipe)
                for number in chunk:
                    writer.write(self.template | {"call_sid": f"CA{number}"})
                pipe.execute()
        self.size = max(self.size, size)

    def sweep(self) -> None:
        """One whole round."""
        assert seed_watchdog.sweep(self.documents) == []


def _chunks(start: int, end: int) -> Iterator[range]:
    for low in range(start, end, CHUNK):
        yield range(low, min(low + CHUNK, end))
