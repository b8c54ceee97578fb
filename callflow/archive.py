"""Archives complete calls in the store that lasts; only then do their keys get a lifetime.

One round is idempotent and may be run by anybody at any time, twice at once or by nobody for a
while: a call is kept once by its CallSid, in one transaction, and a round that dies between the two
stores is repeated. Nobody waits for it: it runs in a thread of its own, so that a database that
hangs keeps no sweep and no turn.
"""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from callflow.call.limits import Timing
from callflow.errors import CallflowError, StoreError, StoreUnavailable
from callflow.records.keeping import ERASED_TOGETHER, Keeping
from callflow.records.record_errors import RecordRefused
from callflow.redis.client import Client
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue, Settled, StoredCall

if TYPE_CHECKING:
    from callflow.records.completed_call import CompletedCall
    from callflow.records.record_store import RecordStore

BATCH = 20
"""Calls that are read together: of the longest, some megabytes."""

ROUND_S = 20.0
"""After so long a round leaves the rest to the next one, which says anew that it has begun."""

LONGEST_S = 15.0
"""One transaction takes milliseconds; a database that has not answered for so long is frozen."""

DAY_MS = 86_400_000

RETENTION = "retention"
"""Who has erased what was older than CALLFLOW_RECORDS_KEEP_DAYS."""

_log = logging.getLogger(__name__)


class NotArchived(CallflowError):
    """One call cannot be kept as it is; all others were. Its keys stay, and it is tried again."""

    def __init__(self, call_sid: str, error: Exception) -> None:
        self.call_sid = call_sid
        # Of others the name alone: what they say may show what people said.
        cause = str(error) if isinstance(error, StoreError) else type(error).__name__
        if isinstance(error, RecordRefused):
            cause = error.cause
        super().__init__(
            f"call {call_sid} cannot be kept for good: {cause}; its keys stay where they are, and "
            f"other calls are kept: see `callflow calls show {call_sid}`"
        )


@dataclass(frozen=True, slots=True)
class Archived:
    """How many calls one round has dealt with."""

    kept: int = 0
    supplemented: int = 0
    """of which more was written after they had been kept"""
    erased: int = 0
    """older than records are kept"""
    left: int = 0
    """complete calls that wait for the next round"""


@dataclass(frozen=True, slots=True)
class Archive:
    """What a round needs. `answered_by`: callflow's own version, and the models, by name."""

    queue: ArchiveQueue
    records: RecordStore
    answered_by: Mapping[str, str | None]
    keep_days: int | None = None

    def round(self, by: str) -> Archived:
        """Keep what is complete; add what was written later; erase what is too old.

        Raises StoreUnavailable and RecordsError, with what could be done done.
        """
        give_up = time.monotonic() + ROUND_S
        self.queue.mark_begun(by)
        waiting = self.queue.look()
        kept = 0
        failures: list[CallflowError] = [] if waiting.failure is None else [waiting.failure]
        for batch in _batches(waiting.calls):
            if time.monotonic() > give_up:
                break
            kept += self._keep_all(batch, failures)
        supplemented = self.add_later(waiting.again, failures) if waiting.again else 0
        erased = self._erase(waiting.now_ms, give_up)
        if failures:
            raise failures[0]
        return Archived(kept, supplemented, erased, left=waiting.count - kept)

    def _read(
        self, call_sids: Sequence[str], failures: list[CallflowError]
    ) -> Sequence[StoredCall]:
        """Those of them that are complete and can be read."""
        try:
            found = self.queue.read(call_sids)
        except StoreUnavailable:
            raise
        except Exception as error:
            if len(call_sids) == 1:
                failures.append(NotArchived(call_sids[0], error))
                return []
            return [one for call_sid in call_sids for one in self._read([call_sid], failures)]
        for call_sid in {*call_sids} - {stored.call_sid for stored in found}:
            # A failover has taken the record, or its end: it must not be found by every round.
            self.queue.settle(call_sid, "")
        return found

    def _keep_all(self, call_sids: Sequence[str], failures: list[CallflowError]) -> int:
        """How many of them the lasting store has now."""
        return sum(self._keep_one(stored, failures) for stored in self._read(call_sids, failures))

    def _keep_one(self, stored: StoredCall, failures: list[CallflowError]) -> bool:
        try:
            self._keep(stored)
        except CallflowError as error:
            if not isinstance(error, RecordRefused):
                raise
            failures.append(NotArchived(stored.call_sid, error))
        except Exception as error:
            # One record that nobody foresaw must not hold up all others.
            failures.append(NotArchived(stored.call_sid, error))
        else:
            return True
        return False

    def _keep(self, stored: StoredCall) -> None:
        from callflow.records.record_store import KeepResult

        if self.records.keep(self.complete(stored)) is KeepResult.ERASED:
            # Somebody has erased it since it was read: nothing of it may stay until its keys end.
            self.queue.forget(stored.call_sid)
        else:
            # What was written meanwhile is found when it is looked at again.
            self.queue.settle(stored.call_sid, stored.through)

    def complete(self, stored: StoredCall) -> CompletedCall:
        """The call as it is kept for good. Raises ValueError for what cannot be read."""
        from callflow.records.completed_call import CompletedCall

        fields = stored.fields()
        chunks = fields.get("retrieved_sop_chunks") or ()
        procedures = {chunk["sop"]: chunk["version"] for chunk in chunks}
        return CompletedCall(
            stored.call_sid,
            fields,
            stored.thread(),
            stored.lines,
            stored.views,
            {**self.answered_by, "procedures": procedures},
            stored.through,
        )

    def add_later(self, call_sids: Sequence[str], failures: list[CallflowError]) -> int:
        """Add what was written of calls that are kept. Says of how many."""
        erased = self.records.erased(call_sids)
        for call_sid in erased:
            # Whoever erased it could not reach the working keys, or they came with a failover.
            self.queue.forget(call_sid)
        through = self.records.through(call_sids)
        grown = [
            call_sid
            for call_sid in call_sids
            if call_sid not in erased
            # A database that was put back from yesterday's copy does not have it any more.
            and (
                call_sid not in through
                or self.queue.settle(call_sid, through[call_sid]) is Settled.GROWN
            )
        ]
        return sum(self._keep_all(batch, failures) for batch in _batches(grown))

    def _erase(self, now_ms: int, give_up: float) -> int:
        """At least one transaction, so that there is an end to it, and then as many as there is
        time for."""
        if self.keep_days is None:
            return 0
        before_ms, why = now_ms - self.keep_days * DAY_MS, f"older than {self.keep_days} days"
        count = 0
        while old := self.records.older_than(before_ms, ERASED_TOGETHER):
            gone = self.records.erase(old, by=RETENTION, why=why).calls
            for call_sid in gone:
                self.queue.forget(call_sid)
            count += len(gone)
            if time.monotonic() > give_up:
                break
        return count


def _batches(call_sids: Sequence[str]) -> list[Sequence[str]]:
    return [call_sids[start : start + BATCH] for start in range(0, len(call_sids), BATCH)]


class Archivist:
    """Runs rounds in a thread of its own, one at a time; whoever asks for one goes on at once."""

    def __init__(self, queue: ArchiveQueue, archive: Callable[[], Archive]) -> None:
        self._queue = queue
        self._archive = archive
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._failure = ""

    def start_round(self, by: str) -> bool:
        """Begin a round; False where the last one has not ended yet."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return False
            # A process that ends does not wait for it: the next round begins where it was.
            self._thread = threading.Thread(
                target=self._run, args=(by,), name="archivist", daemon=True
            )
            self._thread.start()
            return True

    def start_if_missed(self, by: str) -> bool:
        """The same, if nobody has begun a round for long."""
        return self._queue.claim_missed(by) and self.start_round(by)

    def wait(self, within_s: float) -> bool:
        """True once no round is under way; False when that takes longer."""
        thread = self._thread
        if thread is not None:
            thread.join(within_s)
        return thread is None or not thread.is_alive()

    def _run(self, by: str) -> None:
        failure = ""
        try:
            self._archive().round(by)
        except CallflowError as error:
            failure = str(error)
        # Told once: rounds are tried every few seconds for as long as it takes.
        if failure and failure != self._failure:
            _log.error("records are not archived: %s", failure)
        elif self._failure and not failure:
            _log.warning("records are archived again")
        self._failure = failure


def archivist(
    client: Client, timing: Timing, keeping: Keeping, models: Mapping[str, str | None]
) -> Archivist:
    """An archivist for these settings; `models` are what words replies.

    What talks to the database is imported in the thread of its first round.
    """
    queue = ArchiveQueue(Scripts(client), timing.completed_ttl_ms)
    return Archivist(queue, cache(lambda: archive(queue, keeping, models)))


def archive(queue: ArchiveQueue, keeping: Keeping, models: Mapping[str, str | None]) -> Archive:
    """What a round needs. Raises DriverMissing; nothing is asked yet."""
    from callflow.records.record_store import RecordStore

    records = RecordStore.open(keeping.url, keeping.key, longest_s=LONGEST_S)
    return Archive(queue, records, {"callflow": _version(), **models}, keeping.keep_days)


def _version() -> str:
    try:
        return importlib.metadata.version("callflow")
    except importlib.metadata.PackageNotFoundError:
        return "of a checkout"
