"""A whole local stack for one test: real workers, watchdog and beat on a server of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from callflow.call.record import CallRecord, ReplyProgress
from callflow.celery import CALLS, use_broker
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack, StackProcess
from callflow.redis.client import connect
from callflow.settings import load
from callflow.store.replies import Replies
from tests.parts import Parts
from tests.waiting import wait_until


@dataclass
class Running:
    """A running stack and the doors to it."""

    stack: LocalStack
    parts: Parts
    url: str
    slots: int
    server: EmbeddedServer

    def caller_says(self, call_sid: str, turn: int, text: str) -> None:
        """Open the call if this is its first turn, and speak."""
        if turn == 1:
            self.parts.intake.open(call_sid)
        self.parts.intake.hear(call_sid, turn, text)

    def reply(self, call_sid: str, turn: int, within_s: float = 20) -> ReplyProgress:
        """The finished reply, or the call's end."""

        async def wait() -> ReplyProgress | None:
            async with Replies.listening(self.url) as replies:
                return await replies.wait(call_sid, turn, within_s)

        reply = asyncio.run(wait())
        assert reply is not None, f"no reply to turn {turn} of {call_sid} in {within_s} s"
        return reply

    def being_answered(self, call_sid: str, *, after_fence: int = 0) -> CallRecord:
        """The record, once a worker is in the middle of a turn and has said something."""
        record = self.parts.record(call_sid)

        def speaking() -> bool:
            nonlocal record
            record = self.parts.record(call_sid)
            return record.assigned_worker is not None and record.fence > after_fence

        wait_until(speaking, f"{call_sid} was never claimed", within_s=20)
        return record

    def process_of(self, record: CallRecord) -> StackProcess:
        """The worker that has the call."""
        assert record.assigned_worker is not None
        return self.stack.processes[record.assigned_worker.partition("@")[0]]

    def wait_for_workers(self, count: int) -> None:
        """Wait until so many processes are ready to run turns."""
        wait_until(
            lambda: len(self.parts.leases.present_now()) >= count,
            "the workers did not come up",
            within_s=30,
        )

    def wait_until_presence_counts(self) -> None:
        """Until the server is old enough for an absent subscription to prove a death: before that,
        as after a failover, a dead worker is known by its silence alone, and later."""
        young_s = self.parts.timing.resubscribe_ms / 1000
        wait_until(
            lambda: int(self.parts.client.info("server")["uptime_in_seconds"]) >= young_s,
            "the server's clock stands",
        )

    def watchdog_sweeps(self) -> bool:
        """True when the last sweep was the watchdog's own and not an understudy's."""
        sweep = self.parts.leases.last_sweep()
        return sweep is not None and sweep[0].startswith("watchdog@")

    def seconds_to_next_claim(self, call_sid: str, since_ms: int) -> float:
        """From a moment on the server's clock to the first claim after it."""
        claims = [e.at for e in self.parts.journal(call_sid) if e.event == "claimed"]
        return (min(at for at in claims if at > since_ms) - since_ms) / 1000


@contextmanager
def running(
    log_dir: Path,
    *,
    workers: int = 2,
    slots: int = 2,
    beats: int = 1,
    pool: str = "prefork",
    events: bool = False,
    broker_url: str = "",
    env: Mapping[str, str] | None = None,
    **settings: str,
) -> Iterator[Running]:
    """Start a stack; `settings` are without their prefix, in small letters, `env` as they are.

    `broker_url`: where the messages are; empty: where the calls are.
    """
    with EmbeddedServer.start() as server:
        given = {f"CALLFLOW_{name.upper()}": value for name, value in settings.items()}
        given |= env or {}
        given |= {"CALLFLOW_REDIS_URL": server.url, "CALLFLOW_BROKER_URL": broker_url}
        use_broker(broker_url or server.url)
        with LocalStack(given, log_dir, events=events) as stack, connect(server.url) as client:
            for number in range(1, workers + 1):
                stack.start_worker(f"w{number}", slots=slots, pool=pool)
            stack.start_watchdog()
            for number in range(1, beats + 1):
                stack.start_beat(f"beat{number}")
            timing = load(given).timing
            built = Running(stack, Parts(client, timing), server.url, slots, server)
            built.wait_for_workers(workers * slots if pool == "prefork" else workers)
            wait_until(built.watchdog_sweeps, "the watchdog never swept", within_s=20)
            yield built
            built.parts.close()


def purge_queues(run: Running) -> None:
    """Lose every message that waits in the broker."""
    run.parts.client.delete(*CALLS)
