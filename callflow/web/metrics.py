"""Serves `/metrics` for Prometheus, and writes the same numbers of all calls for CloudWatch.

Every web process tells the same of the whole deployment. Both are off until they are configured,
and while both are nothing is counted.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from callflow.board.feed import Feed
from callflow.errors import StoreError
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


async def endpoint(request: Request) -> Response:
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
