"""Reloads the procedures of a running process when the operator's folder changes.

A change is looked for at most every two seconds, by name, size and time of each file, and read by a
thread of its own, so that no caller waits for it. A folder with a mistake in it is not taken: the
procedures stay as they were, and a line in the log names the mistake, once for each change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

from callflow.errors import CallflowError
from callflow.procedures.library import SopLibrary

log = logging.getLogger(__name__)

CHECK_S: Final = 2.0
"""How often the folder is checked, at most."""

Built = TypeVar("Built")
_Signature = tuple[tuple[str, int, int], ...]


class Reloader(Generic[Built]):
    """What has been built of the procedures, built anew when the operator's folder changes."""

    def __init__(
        self, own_dir: Path | None, library: SopLibrary, build: Callable[[SopLibrary], Built]
    ) -> None:
        """Build from `library`, which was read from `own_dir` just now. Raises what `build` does.

        `build` is called again in a thread, for each change."""
        self._own_dir = own_dir
        self._build = build
        self._signature = _signature(own_dir)
        self._current = build(library)
        self._checked_at = time.monotonic()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def current(self) -> Built:
        """The newest that could be built. Never waits for a file."""
        now = time.monotonic()
        if (
            self._own_dir is not None
            and now - self._checked_at >= CHECK_S
            and self._lock.acquire(False)
        ):
            try:
                self._checked_at = now
                self._check()
            finally:
                self._lock.release()
        return self._current

    def _check(self) -> None:
        signature = _signature(self._own_dir)
        reading = self._thread is not None and self._thread.is_alive()
        if signature != self._signature and not reading:
            self._signature = signature
            self._thread = threading.Thread(target=self._reload, name="procedures", daemon=True)
            self._thread.start()

    def _reload(self) -> None:
        try:
            self._current = self._build(SopLibrary.load(self._own_dir))
        except CallflowError as error:
            log.error("the procedures stay as they were: %s", error)
        else:
            # A warning, since one who changes procedures wants to see it at any log level.
            log.warning("the procedures of %s were read anew", self._own_dir)


def _signature(folder: Path | None) -> _Signature:
    """What tells one state of a folder from another; empty for one that is not there."""
    found = []
    try:
        for path in sorted(folder.glob("*.md")) if folder is not None else ():
            status = path.stat()
            found.append((path.name, status.st_mtime_ns, status.st_size))
    except OSError:
        # It is being changed under our eyes: the next look sees how it has become.
        return ()
    return tuple(found)
