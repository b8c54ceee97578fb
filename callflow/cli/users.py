"""`callflow users`: who may sign in to the board with a name and a password."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.call.role import Role
from callflow.cli import deployment, terminal
from callflow.errors import CallflowError, SettingsError

if TYPE_CHECKING:
    from callflow.access.users_file import User

File = Annotated[
    Path | None, typer.Option("--file", help="The file of users.", show_default="CALLFLOW_USERS")
]
Name = Annotated[str, typer.Argument(help="Letters, digits and . @ + - _")]


class AccessMissing(CallflowError):
    """What hashes passwords is not installed."""


class UnknownUser(CallflowError):
    """Nobody of this name is in the file."""

    def __init__(self, name: str, path: Path) -> None:
        self.name = name
        super().__init__(
            f"there is no {terminal.plain(name)} in {path}: `callflow users ls` shows who is"
        )


class UserExists(CallflowError):
    """Somebody has this name already, or one that people would take for it."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"there is a {terminal.plain(name)} already: change them with `callflow users "
            "password` or `callflow users role`"
        )


class PasswordsDiffer(CallflowError):
    """The password was typed in two ways."""

    def __init__(self) -> None:
        super().__init__("the two passwords are not the same: nothing was changed; try again")


def add(
    name: Name,
    role: Annotated[Role, typer.Option(help="What they may do.")] = Role.VIEWER,
    telephone: Annotated[
        str | None, typer.Option(help="Where they are rung when they take a call over: +44…")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Of their pages: en or zh.", show_default="their browser's")
    ] = None,
    file: File = None,
) -> None:
    """Add somebody. The password is asked for, or read from the first line of standard input."""
    from pydantic import ValidationError

    from callflow.access.users_file import (
        User,
        Users,
        UsersError,
        edit_users,
        fold_name,
        refuse_bad_name,
    )

    passwords = _passwords()
    path = _path(file)
    refuse_bad_name(name)
    if path.exists() and Users(path).find(name):
        raise UserExists(name)
    password = _password(name)
    try:
        user = User.model_validate(
            {
                "role": role,
                "password": passwords.hashed(password),
                "telephone": telephone,
                "language": language,
            }
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise UsersError(path, f"cannot have {first['loc'][0]} so: {first['msg']}") from error
    with edit_users(path) as users:
        if fold_name(name) in map(fold_name, users):
            raise UserExists(name)
        users[name] = user
    terminal.print_line(f"{name} may sign in as {role}")


def ls(file: File = None, as_json: terminal.AsJson = False) -> None:
    """Who may sign in, and as what."""
    from callflow.access.users_file import Users

    users = Users(_path(file)).all()
    if as_json:
        shown = {"role", "telephone", "language"}
        listed = [
            {"name": name, **user.model_dump(mode="json", include=shown)}
            for name, user in users.items()
        ]
        terminal.print_line(json.dumps(listed, ensure_ascii=False))
        return
    table = terminal.table("name", "role", "telephone", "language")
    for name, user in users.items():
        table.add_row(
            *map(terminal.text, (name, user.role, user.telephone or "", user.language or ""))
        )
    terminal.print_page(table)


def rm(name: Name, file: File = None) -> None:
    """Remove somebody: their sessions end at once."""
    from callflow.access.users_file import edit_users

    path = _path(file)
    with edit_users(path) as users:
        called = _known(users, name, path)
        del users[called]
    terminal.print_line(f"{called} may sign in no more")


def password(name: Name, file: File = None) -> None:
    """Give somebody another password: their sessions end at once."""
    from callflow.access.users_file import Users, edit_users

    passwords, path = _passwords(), _path(file)
    given = passwords.hashed(_password(_known(Users(path).all(), name, path)))
    with edit_users(path) as users:
        called = _known(users, name, path)
        users[called] = users[called].model_copy(update={"password": given})
    terminal.print_line(f"{called} has another password")


def role(
    name: Name, role: Annotated[Role, typer.Argument(help="What they may do.")], file: File = None
) -> None:
    """Give somebody another role: their sessions end at once."""
    from callflow.access.users_file import edit_users

    path = _path(file)
    with edit_users(path) as users:
        called = _known(users, name, path)
        users[called] = users[called].model_copy(update={"role": role})
    terminal.print_line(f"{called} is {role}")


def log(
    call_sid: Annotated[
        str | None, typer.Option("--call", help="Who read this call, and acted in it.")
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Who signed in and out, or who read one call: oldest first. Whoever has ended up in a record
    that lasts is also in `callflow records show`."""
    from callflow import bootstrap
    from callflow.redis.scripts import Scripts
    from callflow.store.audit import Audit

    deployment.need()
    audit = Audit(Scripts(bootstrap.client()))
    lines = audit.sign_ins() if call_sid is None else audit.of_call(call_sid)
    if as_json:
        for one in lines:
            terminal.print_line(json.dumps(asdict(one), ensure_ascii=False))
        return
    table = terminal.table("at", "what", "by", "address")
    for one in lines:
        shown = (terminal.clock(one.at), one.what, one.by or "a name that nobody has", one.address)
        table.add_row(*map(terminal.text, shown))
    terminal.print_page(table)


def _path(file: Path | None) -> Path:
    from callflow import bootstrap

    path = file or bootstrap.settings().users
    if path is None:
        raise SettingsError(
            "CALLFLOW_USERS",
            "not set: name the file of users in it, or with --file (the one of `callflow up` is "
            "users.yaml in its data directory)",
        )
    return path


def _passwords() -> ModuleType:
    """The module that knows passwords. Raises AccessMissing."""
    try:
        from callflow.access import passwords
    except ModuleNotFoundError as error:
        raise AccessMissing(
            f"passwords are hashed by {error.name}: pip install 'callflow[web]'"
        ) from error
    return passwords


def _known(users: Mapping[str, User], name: str, path: Path) -> str:
    """The name as the file spells it. Raises UnknownUser."""
    from callflow.access.users_file import fold_name

    for called in users:
        if fold_name(called) == fold_name(name):
            return called
    raise UnknownUser(name, path)


def _password(name: str) -> str:
    """A new password from whoever sits here, or from a program's pipe; never from an argument,
    which everybody on the machine can read. Raises BadPassword and PasswordsDiffer."""
    refuse_bad = _passwords().refuse_bad
    if sys.stdin.isatty():
        given = getpass.getpass(f"Password for {name}: ")
        refuse_bad(given, name)
        if getpass.getpass("Once more: ") != given:
            raise PasswordsDiffer
        return given
    given = sys.stdin.readline().rstrip("\r\n")
    refuse_bad(given, name)
    return given
