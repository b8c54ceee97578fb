"""Finds the server that holds the calls, and leaves word where a local one is.

`callflow up` writes the address of its server into `<data_dir>/url` and keeps the file locked while
it lives. The lock ends with the process, however that died, so a file that nobody locks is stale.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from callflow.errors import CallflowError

URL_VARIABLE = "CALLFLOW_REDIS_URL"
RECORDS_VARIABLE = "CALLFLOW_RECORDS_URL"
RECORDS = "records.db"
"""Where records of a local stack last, in its data directory."""
_LOCK_DEADLINE_S = 0.5
_POLL_S = 0.01


class AlreadyUp(CallflowError):
    """Another local stack runs in the same data directory."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            f"a local stack runs in {data_dir} already: talk to it with `callflow call`, end it "
            "with Ctrl-C where it was started, or choose another place with --data-dir"
        )


class NoDataDir(CallflowError):
    """The data directory cannot be made, or not be written to."""

    def __init__(self, data_dir: Path, reason: str) -> None:
        super().__init__(
            f"the data directory {data_dir} cannot be used: {reason}; choose another place with "
            "--data-dir or CALLFLOW_DATA_DIR"
        )


def find() -> str | None:
    """Find the server and make it the one of this process; None when there is none.

    It is the one that the settings name, or that of the local stack in the data directory. Raises
    SettingsError, for an address that is none too.
    """
    from callflow import bootstrap

    settings = bootstrap.settings()
    url = settings.redis_url
    if url is None and (url := read_url(settings.data_dir)) is not None:
        # A call that this process ends is to last as those of the stack do.
        keep_records(settings.data_dir)
    if url is not None:
        use(url)
    return url


def keep_records(data_dir: Path) -> bool:
    """Have complete calls last in a local stack's data directory, unless the settings name another
    place; False where what that needs is not installed."""
    from callflow import bootstrap

    if bootstrap.settings().archiving:
        return True
    if importlib.util.find_spec("sqlalchemy") is None:
        return False
    os.environ[RECORDS_VARIABLE] = f"sqlite:///{(data_dir / RECORDS).absolute()}"
    bootstrap.forget()
    return True


def need() -> str:
    """The same, but raises SettingsError when there is none."""
    from callflow import bootstrap

    url = find()
    if url is None:
        bootstrap.client()
        raise AssertionError("bootstrap.client() says what to do without a server")
    return url


def use(url: str) -> None:
    """Make this server the one of this process and of those that it starts."""
    from callflow import bootstrap

    os.environ[URL_VARIABLE] = url
    bootstrap.forget()
    bootstrap.client()


def read_url(data_dir: Path) -> str | None:
    """The address that a living `callflow up` left in `data_dir`; None when there is none."""
    try:
        fd = os.open(data_dir / "url", os.O_RDONLY)
    except OSError:
        return None
    try:
        if _lock(fd, fcntl.LOCK_SH, deadline_s=0):
            return None
        return os.read(fd, 4096).decode(errors="replace").strip() or None
    finally:
        os.close(fd)


@contextmanager
def announced(data_dir: Path) -> Iterator[Callable[[str], None]]:
    """Be the one local stack in `data_dir`. Yields what writes the server's URL, for its owner
    alone, where `read_url` finds it; the file goes in the end.

    Raises AlreadyUp and NoDataDir.
    """
    path = data_dir / "url"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = _own(path)
    except OSError as error:
        raise NoDataDir(data_dir, error.strerror or str(error)) from error
    try:
        yield lambda url: _write(fd, url)
    finally:
        path.unlink(missing_ok=True)
        os.close(fd)


def _write(fd: int, url: str) -> None:
    os.pwrite(fd, f"{url}\n".encode(), 0)


def _own(path: Path) -> int:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _lock(fd, fcntl.LOCK_EX, deadline_s=_LOCK_DEADLINE_S):
            os.close(fd)
            raise AlreadyUp(path.parent)
        with contextlib.suppress(FileNotFoundError):
            # A stack that has just ended may have removed the file between our two steps.
            if os.fstat(fd).st_ino == path.stat().st_ino:
                os.fchmod(fd, 0o600)
                os.ftruncate(fd, 0)
                return fd
        os.close(fd)


def _lock(fd: int, how: int, *, deadline_s: float) -> bool:
    """True once the lock is ours. A reader holds it for an instant, so a writer tries for a bit."""
    give_up = time.monotonic() + deadline_s
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= give_up:
                return False
            time.sleep(_POLL_S)
