"""The directory of an embedded server: one server works on it at a time."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from callflow.errors import CallflowError

# A killed owner's guardian needs some milliseconds to end the server and to let go of the lock.
_LOCK_DEADLINE_S = 1.0
_POLL_S = 0.005


class EmbeddedServerError(CallflowError):
    """The embedded server cannot be used."""


class DataDirInUse(EmbeddedServerError):
    """Another server works on the data directory; nothing in it was touched."""

    def __init__(self, data_dir: Path, owner: str) -> None:
        self.data_dir = data_dir
        self.owner = owner
        super().__init__(
            f"{data_dir} is in use by process {owner}: stop that one, or choose another directory"
        )


def lock(data_dir: Path) -> int:
    """Lock `data_dir` for this process and those that inherit the descriptor; return it."""
    fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_DEADLINE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                named = os.read(fd, 64).decode(errors="replace").split()
                os.close(fd)
                raise DataDirInUse(data_dir, _first_living(named)) from None
            time.sleep(_POLL_S)
        else:
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
            return fd


def _first_living(pids: list[str]) -> str:
    """Who holds the lock: the owner, or a server left behind by a killed owner and guardian."""
    for pid in pids:
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(pid), 0)
            return pid
    return "unknown"
