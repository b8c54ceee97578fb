"""Writes the file of users: whole or not at all, for its owner's eyes alone."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

import yaml

from callflow.access.users import User, UsersError, is_json, read


@contextmanager
def changing(path: Path) -> Iterator[MutableMapping[str, User]]:
    """The users in `path`, to be changed; what has become of them is written when the block ends.

    One writer at a time; readers see what was before or what comes after, never a part. The file's
    mode becomes 0600. A block that raises changes nothing. Raises UsersError.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Beside the file, since that itself is replaced.
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise UsersError(path, f"cannot be written: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        users = read(path) if path.exists() else {}
        yield users
        _write(path, _text(path, users))
    except OSError as error:
        raise UsersError(path, f"cannot be written: {error.strerror}") from error
    finally:
        os.close(lock)


def _text(path: Path, users: MutableMapping[str, User]) -> str:
    said = {
        "users": {
            name: user.model_dump(mode="json", exclude_none=True) for name, user in users.items()
        }
    }
    if is_json(path):
        return json.dumps(said, ensure_ascii=False, indent=2) + "\n"
    return yaml.safe_dump(said, allow_unicode=True, sort_keys=False)


def _write(path: Path, text: str) -> None:
    # A link may lead to where the file really is: that one is replaced, and the link stays.
    place = path.resolve()
    fd, draft = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)  # Its mode is 0600.
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(place)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise
    folder = os.open(place.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
