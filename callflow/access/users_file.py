"""Reads and writes the file of local users: names, roles and hashed passwords, as YAML or JSON.

`callflow users` writes it, whole or not at all; whoever deploys callflow brings the same file to
every web process. It is read again when it changes, so that somebody who was removed is out at
once.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from callflow import strict_yaml
from callflow.access.sessions import BoardUser, SessionUser, hash_token
from callflow.call.role import Role
from callflow.errors import CallflowError
from callflow.strict_yaml import YamlError

_NAME = re.compile(r"\w[\w.@+-]{0,63}")


class UsersError(CallflowError):
    """A file of users that cannot be used: nobody in it can sign in until it can."""

    def __init__(self, path: Path, reason: str, line: int | None = None) -> None:
        self.path = path
        self.reason = reason
        where = path if line is None else f"{path}:{line}"
        super().__init__(f"the file of users {where} {reason}")


class BadName(CallflowError):
    """A name that nobody can have."""

    def __init__(self, name: str) -> None:
        shown = name[:64].encode("ascii", "backslashreplace").decode()
        super().__init__(
            f"{shown or 'an empty name'} is no name for a user: write up to 64 letters, digits and "
            ". @ + - _, beginning with a letter or a digit"
        )


class User(BaseModel):
    """One entry of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    role: Role
    password: str = Field(pattern=r"^\$argon2id\$")
    """Its hash."""
    telephone: str | None = Field(None, pattern=r"^\+[1-9]\d{6,14}$")
    """Where they are rung when they take a call over, E.164 (ITU-T E.164: at most 15 digits)."""
    language: Literal["en", "zh"] | None = None
    """Of the pages; None: as their browser asks for."""

    @field_validator("telephone", mode="before")
    @classmethod
    def _without_spaces(cls, number: object) -> object:
        return re.sub(r"[ ()./-]", "", number) if isinstance(number, str) else number

    def session_user(self, name: str, language: str = "en") -> SessionUser:
        """Who they are to a session. `language`: what their browser asks for."""
        person = BoardUser(name, self.role, self.telephone, self.language or language)
        stamp = hash_token(f"{self.role} {self.password}")
        return SessionUser(person, "local", fold_name(name), stamp)


def fold_name(name: str) -> str:
    """What two names have in common that people would take for the same."""
    return unicodedata.normalize("NFKC", name).casefold()


def refuse_bad_name(name: str) -> None:
    """Raises BadName."""
    if not _NAME.fullmatch(name) or unicodedata.normalize("NFC", name) != name:
        raise BadName(name)


class Users:
    """The file as it is now. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._cached: tuple[object, Mapping[str, tuple[str, User]]] = None, {}

    def find(self, name: str) -> tuple[str, User] | None:
        """Somebody, with their name as the file spells it; None where there is nobody of it.

        Raises UsersError for a file that cannot be read: whoever was in it is not let in meanwhile.
        """
        return self._current().get(fold_name(name))

    def all(self) -> dict[str, User]:
        """Everybody, by name. Raises UsersError."""
        return dict(self._current().values())

    def _current(self) -> Mapping[str, tuple[str, User]]:
        try:
            found = self.path.stat()
        except OSError as error:
            raise UsersError(self.path, f"cannot be read: {error.strerror}") from error
        state = found.st_mtime_ns, found.st_size, found.st_ino, found.st_ctime_ns
        known, users = self._cached
        if known != state:
            users = {fold_name(name): (name, user) for name, user in read_users(self.path).items()}
            self._cached = state, users
        return users


def read_users(path: Path) -> dict[str, User]:
    """Everybody in the file at `path`, by name. Raises UsersError."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise UsersError(path, f"cannot be read: {reason}") from error
    try:
        document = _parse(path, text)
    except YamlError as error:
        raise UsersError(path, error.reason, error.line) from error
    except json.JSONDecodeError as error:
        raise UsersError(path, "is no JSON", error.lineno) from error
    except (ValueError, RecursionError) as error:
        raise UsersError(path, "is no JSON") from error
    users = {name: _validate(path, name, fields) for name, fields in document.items()}
    if len({fold_name(name) for name in users}) < len(users):
        raise UsersError(path, "has two names that differ in nothing but capitals")
    return users


def _parse(path: Path, text: str) -> dict[str, Any]:
    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, value in pairs:
            if name in found:
                raise UsersError(path, f"has {name} twice")
            found[name] = value
        return found

    if is_json(path):
        document = json.loads(text, object_pairs_hook=refuse_duplicates)
    else:
        document = strict_yaml.parse(text)
    users = document.get("users") if isinstance(document, dict) else None
    if users in (None, ""):
        users = {}
    if not isinstance(document, dict) or set(document) - {"users"} or not isinstance(users, dict):
        raise UsersError(path, "must have `users:` alone, and under it a name for each user")
    return users


def _validate(path: Path, name: object, fields: object) -> User:
    try:
        refuse_bad_name(str(name))
        return User.model_validate(fields)
    except BadName as error:
        raise UsersError(path, f"has a name that cannot be: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UsersError(path, f"has {name} with a wrong {where or 'entry'}: {first['msg']}") from (
            error
        )


def is_json(path: Path) -> bool:
    """How the file at `path` is written: as JSON, or as YAML."""
    return path.suffix.lower() == ".json"


@contextmanager
def edit_users(path: Path) -> Iterator[MutableMapping[str, User]]:
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
        users = read_users(path) if path.exists() else {}
        yield users
        _replace_file(path, _serialize(path, users))
    except OSError as error:
        raise UsersError(path, f"cannot be written: {error.strerror}") from error
    finally:
        os.close(lock)


def _serialize(path: Path, users: MutableMapping[str, User]) -> str:
    document = {
        "users": {
            name: user.model_dump(mode="json", exclude_none=True) for name, user in users.items()
        }
    }
    if is_json(path):
        return json.dumps(document, ensure_ascii=False, indent=2) + "\n"
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False)


def _replace_file(path: Path, text: str) -> None:
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
