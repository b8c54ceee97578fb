"""Checks whether calls are looked after: by workers, by sweeps, and in time; and the queues.

Also whether complete calls reach the records that last, and which lifts made no test call.

`DeploymentChecks` has the one list of checks run: for `callflow doctor`, and for `/health`, which
asks several times a second. `WorkforceStatus` says the same in the header of the board.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from callflow.call.limits import Timing
from callflow.call.record import CallRecord, waiting_since
from callflow.celery import CALLS, WATCHDOG
from callflow.errors import SettingsError, StoreError
from callflow.health.check import Audience, Check, HealthCheck, Severity, run_checks
from callflow.health.server_checks import SERVER_CHECKS, StoreServer
from callflow.health.worker_checks import UNTAKEN_MS, WORKER_CHECKS, Workforce, check_workers
from callflow.health.worker_reports import ReportStore
from callflow.records.record_errors import RecordsError
from callflow.redis.client import Client, address, connect, translated
from callflow.redis.scripts import Scripts
from callflow.redis.url import store_url_of_broker
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.keys import ALL_SHARDS
from callflow.store.leases import Leases
from callflow.store.reader import CallReader

if TYPE_CHECKING:
    from callflow.records.keeping import Keeping, LastTest
    from callflow.records.record_store import RecordStore

LATE_MS: Final = 60_000
"""A call is archived within seconds; after so long somebody should know that it is not."""

LONGEST_S: Final = 15.0
"""What the database may take."""

MOST_NAMED: Final = 5
"""Lifts that are named; the rest are counted."""


class RecordKeeping(NamedTuple):
    """How records are kept here (None: not at all). `last_tests` tells after how many hours a test
    call is overdue, and each lift with its last good one; it raises SettingsError where no lifts
    are named."""

    scripts: Scripts
    completed_ttl_ms: int
    keeping: Keeping | None
    last_tests: Callable[[RecordStore], tuple[int, list[LastTest]]]


def _check_archive(kept: RecordKeeping) -> Iterator[Check]:
    waiting = ArchiveQueue(kept.scripts, kept.completed_ttl_ms).look(1)
    if kept.keeping is not None:
        late = waiting.oldest_ms > LATE_MS
        sentence = f"{waiting.count} complete calls wait to be archived"
        if waiting.count:
            sentence += f", the first for {waiting.oldest_ms / 1000:.0f} s"
        way_out = "see the log of the watchdog worker: it tells why" if late else ""
        if late and waiting.calls:
            way_out += f"; the first is {waiting.calls[0]}"
        yield Check("archive", Severity.FAILURE if late else Severity.OK, sentence, way_out)
    elif waiting.count:
        yield Check(
            "records",
            Severity.FAILURE,
            f"{waiting.count} complete calls wait for a lasting store, and none is configured here",
            "set CALLFLOW_RECORDS_URL for every process, as it was when those calls ended",
        )
    else:
        ttl_min = kept.completed_ttl_ms / 60_000
        yield Check(
            "records",
            Severity.WARNING,
            f"records of complete calls are gone after {ttl_min:.0f} min: no lasting store is set",
            "set CALLFLOW_RECORDS_URL, such as sqlite:////var/lib/callflow/records.db",
        )


def _check_records(kept: RecordKeeping) -> Iterator[Check]:
    if kept.keeping is None:
        return
    from callflow.records.record_store import RecordStore

    try:
        records = RecordStore.open(kept.keeping.url, kept.keeping.key, longest_s=LONGEST_S)
        where, any_kept = records.database.where, records.database.holds_any()
        sentence = f"they last in {where}"
        if not any_kept:
            sentence = f"nothing is kept yet in {where}: no call has ended"
        found = [Check("records", Severity.OK, sentence), _check_tests(kept, records)]
    except RecordsError as error:
        found = [Check("records", Severity.FAILURE, str(error))]
    yield from found


def _check_tests(kept: RecordKeeping, records: RecordStore) -> Check:
    try:
        hours, lifts = kept.last_tests(records)
    except SettingsError as error:
        return Check("test calls", Severity.UNKNOWN, str(error))
    overdue = [one.site for one in lifts if one.overdue]
    if not overdue:
        sentence = f"each of {len(lifts)} lifts made one within {hours} h"
        return Check("test calls", Severity.OK, sentence)
    more = f" and {len(overdue) - MOST_NAMED} more" if len(overdue) > MOST_NAMED else ""
    return Check(
        "test calls",
        Severity.WARNING,
        f"{len(overdue)} of {len(lifts)} lifts made no good one for {hours} h: "
        f"{', '.join(overdue[:MOST_NAMED])}{more}",
        "have the lift tested, or its line; see `callflow records tests`",
    )


RECORD_CHECKS: Final = (
    HealthCheck("archive", _check_archive),
    HealthCheck("records", _check_records),
)


OWED_TOO_LONG_MS = 10_000
"""No turn waits so long on a deployment that works: the ladder has reached a human before."""

LOOK_AGAIN_S = 1.2
"""Before a second look every parent has spoken once more."""

UNDERSTUDY = " (understudy)"
"""How the name of a worker ends that swept because no watchdog did."""

SWEEP_SAMPLES_S = (0.0, 0.5, 0.6)
"""Pauses before each look for a sweep: one may just have run out, and the next be on its way."""

START_WATCHDOG = "start `celery -A callflow worker -Q watchdog -P solo -c 1`"
START_BEAT = "start `celery -A callflow beat`"
WATCHDOG_WAY_OUT = f"{START_WATCHDOG} and `celery -A callflow beat`"

SAMPLED = 100
"""Of each index, for a doctor."""

SAMPLED_OFTEN = 1
"""And where anybody may ask, several times a second: who waits longest stands at an end of it."""

LONG_QUEUE = 1_000
MANY_SWEEPS = 50
"""Beat asks for five a second, each is done within milliseconds: these are taken by nobody."""

QUEUES = (*CALLS, WATCHDOG)


class DeploymentChecks:
    """Has the checks of one deployment run. `count_waiting` tells how many messages are in each
    queue, or nothing where the broker cannot be asked."""

    def __init__(
        self, scripts: Scripts, timing: Timing, count_waiting: Callable[[], Mapping[str, int]]
    ) -> None:
        self.timing = timing
        self.leases = Leases(scripts, timing)
        self.reader = CallReader(scripts.client)
        self.reports = ReportStore(scripts)
        self._scripts = scripts
        self._count_waiting = count_waiting

    def look(self) -> Workforce:
        """All workers at this moment."""
        present: dict[str, int] = {}
        for name in self.leases.present_now():
            node = name.partition("/")[0]
            present[node] = present.get(node, 0) + 1
        counts = self.reader.counts()
        # What waits is asked for first: who takes it at this moment says so afterwards.
        waiting = self._count_waiting()
        reported = self.reports.read()
        return Workforce(reported, present, CALLS, waiting, counts["leased"], counts["owed"])

    def run(self, kept: RecordKeeping, min_replicas: int = 0) -> Iterator[Check]:
        """All checks of the server, the workers, the calls and the records, one after the other.
        `min_replicas`: so many are waited for before anything is acknowledged. Raises StoreError
        when the server is cut off."""
        writable = True
        for check in run_checks(SERVER_CHECKS, StoreServer(self._scripts.client, min_replicas)):
            writable &= check.name != "writes" or check.severity is not Severity.FAILURE
            yield check
        if writable:
            yield from self.run_for_calls()
        else:
            sentence = (
                "not judged: workers cannot say how they are while the server takes no writes"
            )
            yield Check("workers", Severity.UNKNOWN, sentence, "see to the server first")
        yield from run_checks(RECORD_CHECKS, kept)

    def run_for_calls(self) -> Iterator[Check]:
        """The checks of workers and calls alone."""
        workforce, found = check_workers(self.look, lambda: time.sleep(LOOK_AGAIN_S))
        yield from found
        yield from run_checks(CALL_CHECKS, CallsAtWork(self, workforce, SAMPLED))

    def find_failures(self) -> tuple[Workforce, list[Check]]:
        """All workers at this moment, and what keeps callers from being answered: what a doctor
        calls a failure, or cannot judge, after one look, for whoever asks often. Raises StoreError.
        """
        workforce = self.look()
        calls = CallsAtWork(self, workforce, SAMPLED_OFTEN)
        found = [
            *run_checks(WORKER_CHECKS, workforce, Audience.ALARM),
            *run_checks(CALL_CHECKS, calls, Audience.ALARM),
        ]
        grave = (Severity.FAILURE, Severity.UNKNOWN)
        return workforce, [one for one in found if one.severity in grave]

    def oldest_owed(self, sampled: int) -> list[tuple[int, CallRecord]]:
        """Calls that wait for a reply, each with the time since when (server's clock, ms): of each
        index so many from both ends. The longer one has waited for a worker, the further its
        deadline was set on; without sweeps it is the other way round."""
        client = self._scripts.client
        with translated(self._scripts.where), client.pipeline(transaction=False) as pipe:
            for shard in ALL_SHARDS:
                pipe.zrange(shard.owed, 0, sampled - 1)
                pipe.zrange(shard.owed, -sampled, -1)
                pipe.zrange(shard.leases, 0, sampled - 1)
            sids = sorted({sid for found in pipe.execute() for sid in found})
        return [
            (at, record)
            for record in self.reader.find_all(sids).values()
            if (at := waiting_since(record)) is not None
        ]


class CallsAtWork(NamedTuple):
    """What the checks of calls look at; `sampled` as in `oldest_owed`."""

    deployment: DeploymentChecks
    workforce: Workforce
    sampled: int


def _check_sweeps(calls: CallsAtWork) -> Iterator[Check]:
    understudy = ""
    for pause_s in SWEEP_SAMPLES_S:
        time.sleep(pause_s)
        by, ago_ms = calls.deployment.leases.last_sweep() or ("", 0)
        if by.endswith(UNDERSTUDY):
            understudy = by.removesuffix(UNDERSTUDY)
        elif by:
            yield Check("watchdog", Severity.OK, f"{by} swept {max(0, ago_ms)} ms ago")
            return
    if understudy:
        cause, way_out = _why_missed(calls.workforce)
        sentence = f"swept by an understudy of {understudy}: {cause}"
        yield Check("watchdog", Severity.WARNING, sentence, way_out)
        return
    yield Check(
        "watchdog",
        Severity.FAILURE,
        "nobody has swept for a second: the call of a dead worker would not be taken over",
        "start workers (each is an understudy), `celery -A callflow beat` and a worker -Q "
        "watchdog; `callflow sweep` does one round by hand",
    )


def _why_missed(workforce: Workforce) -> tuple[str, str]:
    """Why sweeps are left to understudies, and what can be done about it."""
    idle = ", ".join(one.node for one in workforce.working if WATCHDOG in one.queues)
    if not idle:
        return "no watchdog worker takes sweeps", WATCHDOG_WAY_OUT
    if workforce.waiting.get(WATCHDOG):
        return f"{idle} takes no sweeps although some wait", START_WATCHDOG
    sentence = (
        f"{idle} waits for sweeps and no beat asks for them, or its clock is so far off that they "
        "have expired when they arrive"
    )
    return sentence, START_BEAT


def _check_owed(calls: CallsAtWork) -> Iterator[Check]:
    deployment, free = calls.deployment, calls.workforce.free
    try:
        owed = deployment.oldest_owed(calls.sampled)
    except ValueError as error:
        sentence = f"the record of a call that waits cannot be read: {type(error).__name__}"
        yield Check("owed turns", Severity.FAILURE, sentence, "see `callflow calls ls`")
        return
    now_ms, counts = deployment.reader.now_ms(), deployment.reader.counts()
    oldest_ms = max((now_ms - at for at, _ in owed), default=0)
    unclaimed = (now_ms - at for at, record in owed if record.assigned_worker is None)
    unclaimed_ms = max(unclaimed, default=0)
    sentence = (
        f"{counts['owed'] + counts['leased']} of {counts['active']} calls wait for a reply: "
        f"{counts['leased']} in work, {counts['owed']} unclaimed"
    )
    if owed:
        sentence += f"; the longest waits {oldest_ms / 1000:.1f} s"
    way_out = "look at `callflow calls watch`; add workers if they are all busy"
    # Past its deadline it was woken again.
    if free and unclaimed_ms > deployment.timing.owed_ms + UNTAKEN_MS:
        sentence += (
            f"; {free} slots are free, and nobody takes what has been unclaimed for "
            f"{unclaimed_ms / 1000:.1f} s"
        )
        way_out = "restart the workers that do not take it; see `callflow calls watch`"
    elif not free and oldest_ms > deployment.timing.turn_ms:
        sentence += "; no slot is free, and no turn may take so long"
    elif oldest_ms <= OWED_TOO_LONG_MS:
        yield Check("owed turns", Severity.OK, sentence)
        return
    yield Check("owed turns", Severity.FAILURE, sentence, way_out)


CALL_CHECKS: Final = (
    HealthCheck("watchdog", _check_sweeps),
    HealthCheck("owed turns", _check_owed, frozenset({Audience.DOCTOR, Audience.ALARM})),
)


class Broker(NamedTuple):
    """The server with the Celery messages: its address as kombu writes it, what Sentinels call its
    primary, and the variable that names it."""

    url: str
    service: str
    variable: str

    def count_waiting(self) -> dict[str, int]:
        """How many messages are in each queue; nothing where that cannot be known now."""
        try:
            return _lengths(self._client())
        except (StoreError, SettingsError):
            # That it cannot be asked is a finding of its own, see `check_broker`.
            return {}

    def _client(self) -> Client:
        return connect(store_url_of_broker(self.url, self.service))

    def check(self) -> Iterator[Check]:
        """Looks the server and its queues over. That it cannot be reached is a finding."""
        try:
            client = self._client()
        except SettingsError as error:
            # kombu may know what we do not, so it need not be broken.
            sentence = f"not looked at: {self.variable} {error.reason}"
            yield Check("broker", Severity.UNKNOWN, sentence)
            return
        where = address(client)
        try:
            lengths = _lengths(client)
        except StoreError as error:
            yield Check(
                "broker",
                Severity.FAILURE,
                f"the messages are at {where}, which cannot be asked: {error.__cause__}",
                f"check {self.variable}; no worker is woken until it is back; nothing is lost, the "
                "records say what is owed",
            )
            return
        yield Check("broker", Severity.OK, f"the messages are at {where}")
        yield from run_checks(QUEUE_CHECKS, lengths)


def _lengths(client: Client, queues: Sequence[str] = QUEUES) -> dict[str, int]:
    with translated(address(client)), client.pipeline(transaction=False) as pipe:
        for queue in queues:
            pipe.llen(queue)
        return dict(zip(queues, pipe.execute(), strict=True))


def _check_queues(lengths: Mapping[str, int]) -> Iterator[Check]:
    sentence = ", ".join(f"{queue} {lengths[queue]}" for queue in CALLS)
    if max(lengths[queue] for queue in CALLS) < LONG_QUEUE:
        yield Check("queues", Severity.OK, f"messages waiting: {sentence}")
        return
    way_out = "add workers for that queue; nothing is lost, since the records say what is owed"
    yield Check("queues", Severity.WARNING, f"messages pile up: {sentence}", way_out)


def _check_waiting_sweeps(lengths: Mapping[str, int]) -> Iterator[Check]:
    sentence = f"sweeps waiting in the queue {WATCHDOG}: {lengths[WATCHDOG]}"
    if lengths[WATCHDOG] <= MANY_SWEEPS:
        yield Check("sweeps", Severity.OK, sentence)
        return
    sentence += "; no watchdog worker takes them"
    yield Check("sweeps", Severity.WARNING, sentence, WATCHDOG_WAY_OUT)


QUEUE_CHECKS: Final = (
    HealthCheck("queues", _check_queues),
    HealthCheck("sweeps", _check_waiting_sweeps),
)

Lamp = Literal["ok", "understudy", "bad", "unknown"]


@dataclass(frozen=True, slots=True)
class WorkforceStatus:
    """Who is there to answer calls, and whether anybody looks after them: the lamps of the board.
    Before the store was asked, nothing."""

    workers: int = 0
    """that take calls"""
    processes: int = 0
    """that run turns, by their open subscriptions"""
    slots: int = 0
    """turns at once"""
    busy: int = 0
    """of these, in work"""
    watchdog: Lamp = "unknown"
    """ok: a watchdog worker sweeps; understudy: another worker in its stead; bad: nobody does"""
    beat: Lamp = "unknown"
    """bad: a watchdog worker is there, and nobody asks it for sweeps; unknown: there is none, so
    nobody can tell"""
    swept_by: str = ""
    swept_ms: int | None = None
    """how long ago; None: longer than a second"""

    @classmethod
    def read(cls, reports: ReportStore, leases: Leases) -> WorkforceStatus:
        """Ask the store. Raises StoreError."""
        workforce = Workforce(reports.read(), {}, CALLS, {})
        swept = leases.last_sweep()
        dogs = any(WATCHDOG in one.queues for one in workforce.working)
        # What is swept on time is swept by the task that beat has sent.
        on_time = swept is not None and not swept[0].endswith(UNDERSTUDY)
        return cls(
            workers=len(workforce.serving),
            processes=len(leases.present_now()),
            slots=workforce.slots,
            busy=workforce.busy,
            watchdog="bad" if swept is None else "ok" if on_time else "understudy",
            beat="ok" if on_time else "bad" if dogs else "unknown",
            swept_by="" if swept is None else swept[0],
            swept_ms=None if swept is None else swept[1],
        )
