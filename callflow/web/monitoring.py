"""Answers whether this process runs, is to be sent callers, and whether callers are served.

`/healthz`: the process runs. `/readyz`, for load balancers: it has written to the store; then it is
to be sent callers whatever is missing, since it has a human rung for them, and an outage would else
leave them to nobody. `/health`, for alarms: callers are served; what a doctor would find counts
once it was found twice. `/metrics`: the whole deployment's, off until it is configured.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from callflow.board.feed import Feed
from callflow.call.limits import Timing
from callflow.errors import StoreError
from callflow.health.check import Check, Severity
from callflow.health.deployment_checks import LOOK_AGAIN_S, DeploymentChecks
from callflow.health.server_checks import explain_refusal
from callflow.messages import waiting
from callflow.metrics.cloudwatch import CloudWatchWriter, minute_claims
from callflow.metrics.collector import (
    LIFTS_EVERY_S,
    SURVEY_EVERY_S,
    MetricsCollector,
    Survey,
    lifts_counter,
)
from callflow.records.record_errors import RecordsError
from callflow.redis.client import Client
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.web.executor import StoreExecutor

LOOK_EVERY_S = 0.25
REMEMBERED_S = 10.0
ASK_EVERY_S = 0.3
BROKER_WAIT_S = 0.3
"""It answers within a millisecond; a balancer asks /readyz with a second's patience."""
LATE_MS = 1_000
"""A loop that is so late keeps every caller of this process waiting for as long."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the store told. `swept`: by whom and how many ms ago."""

    swept: tuple[str, int] | None
    workers: tuple[str, ...]
    replicated: bool
    """As many replicas as are waited for have what is written."""
    failures: tuple[Check, ...]
    """What a doctor calls a failure; that no worker takes calls is none of them."""


_BROKER_GONE = Check(
    "broker",
    Severity.FAILURE,
    "the server with the messages does not answer: no worker is woken until it does",
)


class Health:
    """Examines what this process needs; one per process."""

    def __init__(self, scripts: Scripts, timing: Timing, executor: StoreExecutor) -> None:
        self._checks = DeploymentChecks(scripts, timing, lambda: self._lengths)
        self._lengths: Mapping[str, int] = {}
        self._counting: asyncio.Future[dict[str, int] | None] | None = None
        self._seen_at: dict[str, float] = {}
        """Who is blamed, and since when (monotonic, s) by every look."""
        self._doubtful = False
        self._executor = executor
        self._late_s: deque[float] = deque(maxlen=round(REMEMBERED_S / LOOK_EVERY_S))
        self._one_asks = asyncio.Lock()
        self._asked_at = float("-inf")
        self._found: dict[str, Any] = {}
        self.proven = False
        """True once the store has taken a write from this process."""

    async def watch(self) -> None:
        """Measure how late the event loop is, for as long as the process runs."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + LOOK_EVERY_S
            await asyncio.sleep(LOOK_EVERY_S)
            self._late_s.append(loop.time() - due)

    async def examine(self, *, certainly: bool = False) -> dict[str, Any]:
        """What there is, and as `reason` what is missing. However many ask at once, the store is
        asked by one of them, and not again for a moment: anybody may ask.

        `certainly`: what was found for the first time is looked at once more, a second later."""
        found = await self._examine()
        if certainly and self._doubtful:
            await asyncio.sleep(LOOK_AGAIN_S)
            found = await self._examine()
        return found

    async def _examine(self) -> dict[str, Any]:
        async with self._one_asks:
            if time.monotonic() - self._asked_at > ASK_EVERY_S:
                self._found = await self._ask()
                self._asked_at = time.monotonic()
            found = dict(self._found)
        reasons = [found["reason"]] if "reason" in found else []
        found["lag_ms"] = lag_ms = round(1000 * max(self._late_s, default=0.0))
        if lag_ms > LATE_MS:
            reasons.append(f"the event loop was late by {lag_ms} ms: too much work for one process")
        if reasons:
            found["reason"] = "; ".join(reasons)
        return found

    async def _ask(self) -> dict[str, Any]:
        broker_gone = await self._count()
        try:
            # In the background: a server that takes no writes must keep no caller from reading.
            seen = await self._executor.background(self._see)
        except StoreError as error:
            self._doubtful = False
            reason = explain_refusal(error) or str(error)
            return {"store": reason, "reason": reason}
        reasons = []
        if not seen.replicated:
            reasons.append(
                "fewer replicas than CALLFLOW_MIN_REPLICAS have what is written: nothing is "
                "acknowledged, and callers are put through to a human"
            )
        if seen.swept is None:
            reasons.append(
                "nobody has looked for silent workers for a second: start a watchdog worker"
            )
        reasons += self._certain([*seen.failures, *([_BROKER_GONE] if broker_gone else [])])
        if not seen.workers:
            reasons.append("no worker takes calls: callers hear holding phrases, and then a human")
        return {
            "store": "takes writes",
            "sweeps": seen.swept and {"by": seen.swept[0], "ms_ago": seen.swept[1]},
            "workers": list(seen.workers),
            **({"reason": "; ".join(reasons)} if reasons else {}),
        }

    def _see(self) -> _Seen:
        replicated = self._checks.reports.prove_writable()
        self.proven = True
        workforce, found = self._checks.find_failures()
        serving = tuple(one.node for one in workforce.serving)
        # That one is told by who serves, and at once.
        failures = tuple(one for one in found if one.name != "workers")
        return _Seen(self._checks.leases.last_sweep(), serving, replicated, failures)

    async def _count(self) -> bool:
        """Count what waits in the queues; True where the broker cannot tell. However long it takes
        nobody waits for it, and it is not asked again meanwhile."""
        if self._counting is None:
            self._counting = asyncio.ensure_future(self._executor.background(waiting))
        done, _ = await asyncio.wait({self._counting}, timeout=BROKER_WAIT_S)
        lengths = None
        if done:
            lengths, self._counting = self._counting.result(), None
        self._lengths = lengths or {}
        return lengths is None

    def _certain(self, found: list[Check]) -> list[str]:
        """What was found by a look a moment ago as well: a worker that is just replaced, or takes
        its message at this very moment, is no finding."""
        now = time.monotonic()
        self._seen_at = {one.blamed: self._seen_at.get(one.blamed, now) for one in found}
        certain = [now - self._seen_at[one.blamed] >= LOOK_AGAIN_S for one in found]
        self._doubtful = not all(certain)
        return [one.sentence for one, sure in zip(found, certain, strict=True) if sure]


async def healthz(request: Request) -> Response:
    """This process runs."""
    return JSONResponse({"ok": True})


async def readyz(request: Request) -> Response:
    """This process can serve callers, whatever may be missing behind it."""
    examined: Health = request.state.health
    found = await examined.examine()
    return JSONResponse({"ok": examined.proven, **found}, 200 if examined.proven else 503)


async def health(request: Request) -> Response:
    """Callers are served; 503 and the reasons where not."""
    found = await request.state.health.examine(certainly=True)
    served = "reason" not in found
    return JSONResponse({"ok": served, **found}, 200 if served else 503)


log = logging.getLogger(__name__)

WRITE_EVERY_S: Final = 60.0

UNCONFIGURED: Final = (
    "there are no metrics here: set CALLFLOW_METRICS_TOKEN (such as `openssl rand -hex 32`) for "
    "the web process, and give the same to Prometheus as bearer token (authorization.credentials)\n"
)
FORBIDDEN: Final = "metrics are for who shows CALLFLOW_METRICS_TOKEN as bearer token\n"


class MetricsService:
    """Keeps the metrics of this process going; one per process."""

    def __init__(
        self, settings: Settings, sites: Sites, client: Client, executor: StoreExecutor
    ) -> None:
        """Raises DriverMissing where records are kept and their libraries are not installed."""
        token = settings.metrics_token
        self._token = None if token is None else token.get_secret_value().encode()
        namespace = settings.cloudwatch_namespace
        self._executor = executor
        keeping = settings.keeping
        self._survey = Survey(Scripts(client), settings.timing, keeps=keeping is not None)
        self._writer = namespace and CloudWatchWriter(
            namespace, minute_claims(Scripts(client)), _print_line
        )
        self.metrics = MetricsCollector(settings.timing, by_minute=namespace is not None)
        self.wanted = self._token is not None or namespace is not None
        """False: nobody reads them, so nothing is to be counted."""
        self._count_lifts: Callable[[], int] | None = None
        if self.wanted and keeping is not None:
            ids = tuple(site.id for site in sites)
            self._count_lifts = lifts_counter(keeping, ids, settings.test_call_hours)

    @asynccontextmanager
    async def running(self, feed: Feed) -> AsyncIterator[None]:
        """Count what `feed` tells, ask for what surrounds the calls, and tell CloudWatch, for as
        long as the block runs. What is counted is whole only while the feed looks all the time."""
        if not self.wanted:
            yield
            return
        feed.on_overview(self.metrics.look)
        feed.on_lines(self.metrics.lines)
        rounds = [self._survey_on()]
        if self._count_lifts is not None:
            rounds.append(self._count_lifts_on(self._count_lifts))
        if self._writer:
            rounds.append(self._write_on(self._writer))
        with feed.keep_reading():
            tasks = [asyncio.create_task(one) for one in rounds]
            for task in tasks:
                task.add_done_callback(_log_failure)
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)

    async def _survey_on(self) -> None:
        while True:
            # Where the store is gone what was found before grows old, and is soon told no more.
            with suppress(StoreError):
                self.metrics.set_surroundings(await self._executor.background(self._survey.look))
            await asyncio.sleep(SURVEY_EVERY_S)

    async def _count_lifts_on(self, count: Callable[[], int]) -> None:
        while True:
            try:
                self.metrics.set_untested_lifts(await self._executor.background(count))
            except RecordsError:
                # `records_up` says so; calls wait for their records in the store meanwhile.
                self.metrics.set_untested_lifts(None)
            await asyncio.sleep(LIFTS_EVERY_S)

    async def _write_on(self, writer: CloudWatchWriter) -> None:
        while True:
            await asyncio.sleep(WRITE_EVERY_S)
            metrics = self.metrics
            closed, gauges, now_ms = metrics.take_closed(), metrics.gauges(), metrics.now_ms
            await self._executor.background(writer.write, closed, gauges, now_ms)

    def answer(self, authorization: str) -> Response:
        """What `/metrics` says to who shows this."""
        if self._token is None:
            return PlainTextResponse(UNCONFIGURED, 404)
        scheme, _, shown = authorization.partition(" ")
        given = shown.strip().encode("utf-8", "replace")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given, self._token):
            return PlainTextResponse(FORBIDDEN, 401, {"WWW-Authenticate": "Bearer"})
        text, kind = self.metrics.exposition()
        return Response(text, headers={"Content-Type": kind, "Cache-Control": "no-store"})


async def serve_metrics(request: Request) -> Response:
    """GET /metrics."""
    service: MetricsService = request.state.metrics
    return service.answer(request.headers.get("Authorization", ""))


def _log_failure(task: asyncio.Task[None]) -> None:
    """No round ends by itself: by a mistake of ours, calls are answered all the same."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("some metrics are told no more", exc_info=error)


def _print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
