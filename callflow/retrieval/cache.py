"""Keeps what is built of the procedures once per machine, in files that all its processes share.

Each thing has a folder of its own, named after its content. It is written beside its place and
moved there when it is whole, so nobody ever reads half of one. While one process builds, the others
wait for it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from callflow.errors import CallflowError

VERSIONS_KEPT: Final = 3
"""Of one kind, so many versions stay: a worker of the last release may still want its own."""

_WHOLE, _BUILDING = "whole.json", "building-"


class IndexFolderUnusable(CallflowError):
    """The folder of indexes can be neither read nor written as it is needed."""

    def __init__(self, folder: Path, reason: str) -> None:
        self.folder = folder
        self.reason = reason
        super().__init__(
            f"{folder}: no place for the search index ({reason}); make the folder writable, or "
            "name another one"
        )


def cached_folder(folder: Path, kind: str, content: str, write: Callable[[Path], None]) -> Path:
    """Return the place in `folder` that holds what `write(place)` writes, calling it if need be.

    `content` says all that it depends on: what is kept for the same is not built again. Raises
    IndexFolderUnusable.
    """
    name = sha256(f"{content} {sys.byteorder}".encode()).hexdigest()[:32]
    place = folder / f"{kind}-{name}"
    if not _is_whole(place):
        with _locked(folder):
            if not _is_whole(place):  # another process may have built it while we waited
                _build(place, write)
                _remove_old(folder, kind, place)
    return place


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system lets go of it when its holder is killed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise IndexFolderUnusable(folder, error.strerror or str(error)) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Under the lock nobody builds: what is half built was left by a process that was killed.
        for left in folder.glob(f"{_BUILDING}*"):
            shutil.rmtree(left)
        yield
    finally:
        os.close(lock)


def _is_whole(place: Path) -> bool:
    """True when every file has the size that was noted when all of them had been written."""
    noted = place / _WHOLE
    if not noted.is_file():
        return False
    try:
        sizes = json.loads(noted.read_bytes())["sizes"]
    except (ValueError, KeyError, TypeError):
        return False  # cut off by a power failure: built anew
    return all(_size(place / name) == size for name, size in sizes.items())


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else -1


def _remove_old(folder: Path, kind: str, newest: Path) -> None:
    others = [each.parent for each in folder.glob(f"{kind}-*/{_WHOLE}") if each.parent != newest]
    others.sort(key=lambda each: each.stat().st_mtime_ns, reverse=True)
    for old in others[VERSIONS_KEPT - 1 :]:
        shutil.rmtree(old)


def _build(place: Path, write: Callable[[Path], None]) -> None:
    try:
        half = Path(mkdtemp(prefix=_BUILDING, dir=place.parent))
        half.chmod(0o755)  # other users' workers may map it
        write(half)
        files = sorted(each for each in half.rglob("*") if each.is_file())
        sizes = {str(each.relative_to(half)): each.stat().st_size for each in files}
        (half / _WHOLE).write_text(json.dumps({"sizes": sizes}), encoding="utf-8")
        if place.exists():
            shutil.rmtree(place)  # it was damaged
        half.replace(place)
    except OSError as error:
        raise IndexFolderUnusable(place.parent, error.strerror or str(error)) from error
