"""The states of the board by version, and what has changed between two of them. No I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Final

from callflow.board.reader import Seen, Shown
from callflow.board.sight import Row, as_json

STALE_MS: Final = 1_000
"""What is shown equals the record within a second, or it says that it may not."""

REMEMBERED: Final = 1_000
"""Versions for which is known what has gone since, some minutes: with an older one all is told."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What time it is, and how old what is shown is. It goes on while the store is gone."""

    now_ms: int
    """the server's clock, as far as it is known"""
    as_of_ms: int
    """the same clock when all this was read; 0 before the first time"""
    trouble: str = ""
    """why it could not be read since, or not all of it"""

    def as_dict(self) -> dict[str, Any]:
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
class Changes:
    """All rows (`whole`), or those that have changed since some version and the calls that left."""

    whole: bool
    shown: Sequence[Shown]
    gone: Sequence[str]

    @cached_property
    def text(self) -> str:
        """The members of the JSON object, for all who are told the same."""
        rows = ",".join(one.text for one in self.shown)
        if self.whole:
            return f'"rows":[{rows}]'
        return f'"changed":[{rows}],"gone":{as_json(self.gone)}'

    def as_dict(self) -> dict[str, Any]:
        """The same for Python."""
        rows = [one.row.as_dict() for one in self.shown]
        return {"rows": rows} if self.whole else {"changed": rows, "gone": list(self.gone)}


@dataclass(frozen=True, slots=True)
class News:
    """What a board is told at one moment. `changes` is None where only time has passed."""

    version: int
    header: Mapping[str, Any]
    changes: Changes | None

    @property
    def kind(self) -> str:
        """snapshot, change or clock."""
        if self.changes is None:
            return "clock"
        return "snapshot" if self.changes.whole else "change"

    def as_dict(self) -> dict[str, Any]:
        """`version`, `header`, and `rows`, or `changed` and `gone`, or none of them."""
        changes = {} if self.changes is None else self.changes.as_dict()
        return {"version": self.version, "header": dict(self.header), **changes}

    def as_json(self) -> str:
        """The same as text, on one line."""
        changes = "" if self.changes is None else f",{self.changes.text}"
        return f'{{"version":{self.version},"header":{as_json(self.header)}{changes}}}'


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The whole board at one moment: rows in their order, and the header."""

    version: int
    now_ms: int
    rows: tuple[Row, ...]
    header: Mapping[str, Any]


class State:
    """The board as it is, and what is known of how it came to be. Not for threads."""

    def __init__(self) -> None:
        self.version = 0
        self.figures: Mapping[str, Any] = {}
        self._shown: Mapping[str, Shown] = {}
        self._changed_in: dict[str, int] = {}
        self._gone_in: dict[str, int] = {}
        self._since: dict[int | None, Changes | None] = {}

    @property
    def calls(self) -> int:
        """How many are shown."""
        return len(self._shown)

    def take(self, seen: Seen) -> bool:
        """The board as it was just read. True where that makes another version."""
        before, version = self._shown, self.version + 1
        changed = [sid for sid, shown in seen.shown.items() if before.get(sid) is not shown]
        gone = before.keys() - seen.shown.keys()
        figures = _figures(seen)
        if not changed and not gone and figures == self.figures:
            return False
        self.version = version
        self._shown, self._since = seen.shown, {}
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

    def since(self, version: int | None, clock: Clock) -> News:
        """What whoever has `version` is to be told; all of it for None, and for versions that are
        too old or were never."""
        if version not in self._since:
            self._since[version] = self._changes(version)
        changes = self._since[version]
        # With every change: figures follow from rows. Alone, the time is enough.
        figures = {} if changes is None else self.figures
        return News(self.version, {**figures, **clock.as_dict()}, changes)

    def snapshot(self, clock: Clock) -> Snapshot:
        """All of it at this moment."""
        rows = sorted((one.row for one in self._shown.values()), key=lambda row: row.order)
        header = {**self.figures, **clock.as_dict()}
        return Snapshot(self.version, clock.now_ms, tuple(rows), header)

    def _changes(self, version: int | None) -> Changes | None:
        if version == self.version:
            return None
        if version is None or not max(0, self.version - REMEMBERED) < version < self.version:
            shown = sorted(self._shown.values(), key=lambda one: one.row.order)
            return Changes(True, shown, ())
        return Changes(
            False,
            [one for sid, one in self._shown.items() if self._changed_in[sid] > version],
            [sid for sid, at in self._gone_in.items() if at > version],
        )


def _figures(seen: Seen) -> dict[str, Any]:
    rows = [one.row for one in seen.shown.values()]
    active = [row for row in rows if row.outcome is None]
    silence = seen.silence
    staffed = asdict(seen.staffed)
    # How long ago it was changes with every look, and the lamp says what it means.
    del staffed["swept_ms"]
    return {
        "active": len(active) + seen.look.hidden,
        "hidden": seen.look.hidden,
        "calls": dict(Counter(row.word for row in rows)),
        "urgencies": dict(Counter(row.urgency or "none" for row in active)),
        "since_ms": seen.since_ms,
        "takeovers": seen.takeovers,
        "silence_ms": None if silence is None else silence.ms,
        "silence_call": None if silence is None else silence.call_sid,
        **staffed,
    }
