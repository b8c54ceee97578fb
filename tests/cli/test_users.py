"""`callflow users`: whoever looks after a small site says who may sign in."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.access.passwords import matches
from callflow.access.users_file import Users
from callflow.redis.scripts import Scripts
from callflow.store.audit import Audit
from tests.cli.running import Cli, Ran
from tests.parts import SID, Parts

WORDS = "a few words in a row"


@pytest.fixture
def file(cli: Cli, tmp_path: Path) -> Path:
    path = tmp_path / "users.yaml"
    cli.set("CALLFLOW_USERS", str(path))
    return path


def add(cli: Cli, name: str, *options: str, said: str = f"{WORDS}\n") -> Ran:
    return cli.run("users", "add", name, *options, said=said)


def test_somebody_is_added_changed_listed_and_removed(cli: Cli, file: Path) -> None:
    assert add(cli, "ana", "--role", "dispatcher", "--telephone", "+44 1632 960101").code == 0
    assert file.stat().st_mode & 0o777 == 0o600
    assert matches(WORDS, Users(file).all()["ana"].password)
    assert cli.run("users", "role", "ANA", "admin").out == "ana is admin\n"
    assert cli.run("users", "password", "ana", said="quite another row of words\n").code == 0
    found = Users(file).all()["ana"]
    assert matches("quite another row of words", found.password)
    listed = cli.run("users", "ls", "--json")
    assert listed.json == [
        {"name": "ana", "role": "admin", "telephone": "+441632960101", "language": None}
    ]
    assert "admin" in cli.run("users", "ls").out
    assert "argon2" not in listed.out + cli.run("users", "ls").out
    assert cli.run("users", "rm", "ana").code == 0
    assert Users(file).all() == {}


def test_a_password_is_never_an_argument(cli: Cli, file: Path) -> None:
    for command in (("add", "ana"), ("password", "ana")):
        assert cli.run("users", *command, WORDS).code == 2
        assert cli.run("users", *command, "--password", WORDS).code == 2
    assert not file.exists()


def test_a_password_is_in_nothing_that_is_shown(cli: Cli, file: Path) -> None:
    for said in (WORDS, "too short"):
        shown = add(cli, "ana", said=f"{said}\n")
        assert said not in shown.out + shown.err


def test_a_bad_password_adds_nobody(cli: Cli, file: Path) -> None:
    for said in ("", "short\n", "\n"):
        add(cli, "ana", said=said).failed_with("at least 15 are needed")
    assert not file.exists()


def test_nobody_is_added_twice(cli: Cli, file: Path) -> None:
    assert add(cli, "ana").code == 0
    before = file.read_bytes()
    add(cli, "Ana").failed_with("there is a Ana already")
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("rm", "bo"), "there is no bo"),
        (("password", "bo"), "there is no bo"),
        (("role", "bo", "admin"), "there is no bo"),
        (("add", "a b"), "no name for a user"),
        (("add", "../bo"), "no name for a user"),
        (("add", "bo", "--telephone", "0123"), "cannot have telephone"),
        (("add", "bo", "--language", "fr"), "cannot have language"),
    ],
)
def test_mistakes_are_told_and_change_nothing(
    cli: Cli, file: Path, args: tuple[str, ...], says: str
) -> None:
    add(cli, "ana")
    before = file.read_bytes()
    cli.run("users", *args, said=f"{WORDS}\n").failed_with(says)
    assert file.read_bytes() == before


def test_without_a_file_it_says_how_to_name_one(cli: Cli) -> None:
    cli.run("users", "ls").failed_with("CALLFLOW_USERS: not set")


def test_another_file_can_be_named(cli: Cli, file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    assert add(cli, "ana", "--file", str(other)).code == 0
    assert list(Users(other).all()) == ["ana"]
    assert not file.exists()


def test_who_signed_in_and_who_read_a_call_is_listed(
    cli: Cli, parts: Parts, redis_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    audit = Audit(Scripts(parts.client))
    audit.record_sign_in("signed_in", "ana", "192.0.2.1")
    audit.record_sign_in("refused", "", "192.0.2.2")
    audit.record(SID, "ana", "read")
    signed = cli.run("users", "log", "--json").events
    assert [(one["what"], one["by"], one["address"]) for one in signed] == [
        ("signed_in", "ana", "192.0.2.1"),
        ("refused", "", "192.0.2.2"),
    ]
    assert "a name that nobody has" in cli.run("users", "log").out
    (read,) = cli.run("users", "log", "--call", SID, "--json").events
    assert (read["what"], read["by"]) == ("read", "ana")
    cli.run("users", "log", "--call", "no such").failed_with("no valid CallSid")
