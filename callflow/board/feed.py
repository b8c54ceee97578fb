"""Feeds browsers with the board: one reader of the store in each web process, for all who look.

The store is asked again and again while somebody looks, so nothing that is lost on the way makes
the board wrong. Every state of it has a version; whoever follows is told what has changed since the
one they have, so a slow board misses steps and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from callflow.board.board_reader import BoardReader, BoardState, EncodedRow
from callflow.board.rows import BoardRow, encode_json
from callflow.call.history import JournalEntry
from callflow.errors import StoreError
from callflow.store.reader import CallsOverview, CallSummary

log = logging.getLogger(__name__)

STALE_MS: Final = 1_000
"""What is shown equals the record within a second, or it says that it may not."""

REMEMBERED: Final = 1_000
"""Versions for which is known what has gone since, some minutes: with an older one all is told."""

LOOK_EVERY_S: Final = 0.25

PER_CALL_S: Final = 0.000_06
"""With more than 4,000 calls it is done less often: one takes some 6 µs of the server's time, which
is the callers', and a tenth of that is enough. With 10,000 it is right within a second still."""

LEAST_PAUSE_S: Final = 0.05

LINGER_S: Final = 60.0
"""So long the looking goes on behind the last one who looked: metrics are scraped every half minute
or so, and a page that is loaded anew finds its last hour."""

FRESH_S: Final = 1.0
"""Whoever looks first waits for what is no older."""

CLOCK_EVERY_S: Final = 0.5
"""So often those who follow are told at least what time it is, and how old what they see is."""

LineListener = Callable[[str, CallSummary, list[JournalEntry]], None]
OverviewListener = Callable[[CallsOverview], None]


@dataclass(frozen=True, slots=True)
class BoardClock:
    """What time it is, and how old what is shown is. It goes on while the store is gone."""

    now_ms: int
    """the server's clock, as far as it is known"""
    as_of_ms: int
    """the same clock when all this was read; 0 before the first time"""
    trouble: str = ""
    """why it could not be read since, or not all of it"""

    def to_dict(self) -> dict[str, Any]:
        """As boards are told it."""
        age_ms = max(0, self.now_ms - self.as_of_ms)
        return {
            "now_ms": self.now_ms,
            "as_of_ms": self.as_of_ms,
            "age_ms": age_ms,
            "stale": age_ms > STALE_MS,
            "trouble": self.trouble,
        }


@dataclass(frozen=True)
class RowChanges:
    """All rows (`whole`), or those that have changed since some version and the calls that left."""

    whole: bool
    rows: Sequence[EncodedRow]
    gone: Sequence[str]

    @cached_property
    def text(self) -> str:
        """The members of the JSON object, for all who are told the same."""
        rows = ",".join(one.text for one in self.rows)
        if self.whole:
            return f'"rows":[{rows}]'
        return f'"changed":[{rows}],"gone":{encode_json(self.gone)}'


@dataclass(frozen=True, slots=True)
class BoardUpdate:
    """What a board is told at one moment. `changes` is None where only time has passed."""

    version: int
    header: Mapping[str, Any]
    changes: RowChanges | None

    @property
    def kind(self) -> str:
        """snapshot, change or clock."""
        if self.changes is None:
            return "clock"
        return "snapshot" if self.changes.whole else "change"

    def to_json(self) -> str:
        """One line: `version`, `header`, and `rows`, or `changed` and `gone`, or none of them."""
        changes = "" if self.changes is None else f",{self.changes.text}"
        return f'{{"version":{self.version},"header":{encode_json(self.header)}{changes}}}'


@dataclass(frozen=True, slots=True)
class BoardSnapshot:
    """The whole board at one moment: rows in their order, and the header."""

    version: int
    now_ms: int
    rows: tuple[BoardRow, ...]
    header: Mapping[str, Any]


class BoardVersions:
    """The board as it is, and what has changed in it since each version. Not for threads."""

    def __init__(self) -> None:
        self.version = 0
        self.figures: Mapping[str, Any] = {}
        self._rows: Mapping[str, EncodedRow] = {}
        self._changed_in: dict[str, int] = {}
        self._gone_in: dict[str, int] = {}
        self._since: dict[int | None, RowChanges | None] = {}

    @property
    def calls(self) -> int:
        """How many are shown."""
        return len(self._rows)

    def update(self, state: BoardState) -> bool:
        """The board as it was just read. True where that makes another version."""
        before, version = self._rows, self.version + 1
        changed = [sid for sid, row in state.rows.items() if before.get(sid) is not row]
        gone = before.keys() - state.rows.keys()
        figures = _figures(state)
        if not changed and not gone and figures == self.figures:
            return False
        self.version = version
        self._rows, self._since = state.rows, {}
        for sid in changed:
            self._changed_in[sid] = version
            self._gone_in.pop(sid, None)
        for sid in gone:
            del self._changed_in[sid]
            self._gone_in[sid] = version
        if version % REMEMBERED == 0:
            forgotten = version - REMEMBERED
            self._gone_in = {sid: at for sid, at in self._gone_in.items() if at > forgotten}
        self.figures = figures
        return True

    def since(self, version: int | None, clock: BoardClock) -> BoardUpdate:
        """What whoever has `version` is to be told; all of it for None, and for versions that are
        too old or were never."""
        if version not in self._since:
            self._since[version] = self._changes(version)
        changes = self._since[version]
        # With every change: figures follow from rows. Alone, the time is enough.
        figures = {} if changes is None else self.figures
        return BoardUpdate(self.version, {**figures, **clock.to_dict()}, changes)

    def snapshot(self, clock: BoardClock) -> BoardSnapshot:
        """All of it at this moment."""
        rows = sorted((one.row for one in self._rows.values()), key=lambda row: row.order)
        header = {**self.figures, **clock.to_dict()}
        return BoardSnapshot(self.version, clock.now_ms, tuple(rows), header)

    def _changes(self, version: int | None) -> RowChanges | None:
        if version == self.version:
            return None
        if version is None or not max(0, self.version - REMEMBERED) < version < self.version:
            rows = sorted(self._rows.values(), key=lambda one: one.row.order)
            return RowChanges(True, rows, ())
        return RowChanges(
            False,
            [one for sid, one in self._rows.items() if self._changed_in[sid] > version],
            [sid for sid, at in self._gone_in.items() if at > version],
        )


def _figures(state: BoardState) -> dict[str, Any]:
    rows = [one.row for one in state.rows.values()]
    active = [row for row in rows if row.outcome is None]
    silence = state.silence
    workforce = asdict(state.workforce)
    # How long ago it was changes with every look, and the lamp says what it means.
    del workforce["swept_ms"]
    return {
        "active": len(active) + state.overview.hidden,
        "hidden": state.overview.hidden,
        "calls": dict(Counter(row.word for row in rows)),
        "urgencies": dict(Counter(row.urgency or "none" for row in active)),
        "since_ms": state.since_ms,
        "takeovers": state.takeovers,
        "silence_ms": None if silence is None else silence.ms,
        "silence_call": None if silence is None else silence.call_sid,
        **workforce,
    }


class Feed:
    """One per web process, for its event loop: `async with feed.running():` around all else.

    While nobody looks nothing is asked. While the store is gone what was read last is shown with
    its age, and all goes on by itself when it is back.
    """

    def __init__(self, reader: BoardReader) -> None:
        self.name = secrets.token_hex(4)
        """Of this process: versions are counted by each for itself."""
        self._reader = reader
        self._versions = BoardVersions()
        self._as_of_ms = 0
        self._read_at = 0.0
        self._tried_at = float("-inf")
        self._trouble = ""
        self._readers_wanted = 0
        self._last_wanted = float("-inf")
        self._ending = False
        self.idle = True
        """Nobody looks, and nothing is asked."""
        self._wanted = asyncio.Event()
        self._round_done = asyncio.Event()
        self._on_lines: list[LineListener] = []
        self._on_overview: list[OverviewListener] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read for as long as the block runs, in a thread of its own."""
        with ThreadPoolExecutor(1, thread_name_prefix="feed") as thread:
            task = asyncio.create_task(self._run(thread))
            try:
                yield
            finally:
                self.end()
                task.cancel()
                await asyncio.wait({task})

    def end(self) -> None:
        """Let all who follow go: a process that is about to end would wait for their streams."""
        self._ending = True
        self._end_round()

    def on_lines(self, listener: LineListener) -> None:
        """Call `listener`, in the event loop, once with each line that is written into a journal
        while this process reads. Lines from before its first reading are left out."""
        self._on_lines.append(listener)

    def on_overview(self, listener: OverviewListener) -> None:
        """Call `listener` with the overview of each reading, before the lines that came with it."""
        self._on_overview.append(listener)

    @contextmanager
    def keep_reading(self) -> Iterator[None]:
        """Read on while the block runs, and for LINGER_S after it."""
        self._readers_wanted += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._readers_wanted -= 1
            self._last_wanted = time.monotonic()

    def clock(self) -> BoardClock:
        """What time it is by the server's clock, and how old the board is."""
        passed_ms = round(1000 * (time.monotonic() - self._read_at)) if self._as_of_ms else 0
        return BoardClock(self._as_of_ms + passed_ms, self._as_of_ms, self._trouble)

    def snapshot(self) -> BoardSnapshot:
        """The board as it was read last, whenever that was: see `fresh`."""
        return self._versions.snapshot(self.clock())

    async def fresh(self) -> BoardSnapshot:
        """The board as it was at most FRESH_S ago; an older one where the store does not answer,
        whose header says so."""
        asked_at = time.monotonic()
        with self.keep_reading():
            while self._tried_at < asked_at - FRESH_S and not self._ending:
                await self._round_done.wait()
            return self.snapshot()

    async def follow(self, version: int | None = None) -> AsyncGenerator[BoardUpdate, None]:
        """All that whoever has `version` of this process' board (None: nothing) does not have, then
        each change as it is seen, and in between at least every CLOCK_EVERY_S what time it is."""
        with self.keep_reading():
            await self.fresh()
            known_trouble, sent_at = "", float("-inf")
            while not self._ending:
                done = self._round_done
                update = self._versions.since(version, self.clock())
                due = time.monotonic() >= sent_at + CLOCK_EVERY_S
                if update.changes is not None or due or known_trouble != self._trouble:
                    version, sent_at, known_trouble = (
                        update.version,
                        time.monotonic(),
                        self._trouble,
                    )
                    yield update
                with suppress(TimeoutError):
                    async with asyncio.timeout(CLOCK_EVERY_S):
                        await done.wait()

    async def _run(self, thread: ThreadPoolExecutor) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if not self._readers_wanted and time.monotonic() > self._last_wanted + LINGER_S:
                self._wanted.clear()
                self.idle = True
                await self._wanted.wait()
            self.idle = False
            began = time.monotonic()
            try:
                self._accept(await loop.run_in_executor(thread, self._reader.read), began)
            except StoreError as error:
                self._trouble = str(error)
            except Exception as error:
                # Ours to mend, and no reason to stop: calls are answered by this process, and those
                # who look are told that what they see is old, and why.
                log.exception("the board could not be read")
                self._trouble = f"the board's reader failed ({type(error).__name__}): see the log"
            self._tried_at = time.monotonic()
            self._end_round()
            every_s = max(LOOK_EVERY_S, PER_CALL_S * self._versions.calls)
            await asyncio.sleep(max(LEAST_PAUSE_S, began + every_s - time.monotonic()))

    def _accept(self, state: BoardState, began: float) -> None:
        # As old as the question: what changed while it was under way is not in the answer.
        self._as_of_ms, self._read_at = state.overview.now_ms, began
        self._trouble = state.trouble
        self._versions.update(state)
        for tell in self._on_overview:
            tell(state.overview)
        for call_sid, (call, entries) in state.lines.items():
            for listen in self._on_lines:
                listen(call_sid, call, entries)

    def _end_round(self) -> None:
        done, self._round_done = self._round_done, asyncio.Event()
        done.set()
