"""The file of users: what may stand in it; it is written whole, and for its owner alone."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from callflow.access.passwords import BadPassword, hashed, matches, refuse_bad
from callflow.access.users_file import User, Users, UsersError, edit_users
from callflow.call.role import Role

HASH = hashed("a few words in a row")


def add(path: Path, name: str, role: Role = Role.VIEWER) -> None:
    with edit_users(path) as users:
        users[name] = User(role=role, password=HASH)


@pytest.mark.parametrize("name", ["users.yaml", "users.json"])
def test_what_was_written_is_read_and_belongs_to_its_owner_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "made" / name
    with edit_users(path) as users:
        users["ana"] = User(
            role=Role.ADMIN, password=HASH, telephone="+44 1632 960-101", language="zh"
        )
        users["on"] = User(role=Role.VIEWER, password=HASH)
        users["李娜"] = User(role=Role.DISPATCHER, password=HASH)
    assert path.stat().st_mode & 0o777 == 0o600
    found = Users(path).all()
    assert list(found) == ["ana", "on", "李娜"]
    assert found["ana"].telephone == "+441632960101"
    assert [user.role for user in found.values()] == ["admin", "viewer", "dispatcher"]
    if name.endswith(".json"):
        assert json.loads(path.read_text())["users"]["on"]["role"] == "viewer"


def test_a_wide_open_file_is_closed_when_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("users: {}\n")
    path.chmod(0o666)
    add(path, "ana")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_change_that_fails_changes_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    add(path, "ana")
    before = path.read_bytes()

    def fail() -> None:
        with edit_users(path) as users:
            users.clear()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert path.read_bytes() == before
    assert sorted(one.name for one in tmp_path.iterdir()) == [".users.yaml.lock", "users.yaml"]


def test_many_writers_lose_nobody(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    threads = [threading.Thread(target=add, args=(path, f"user{n}")) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(Users(path).all()) == {f"user{n}" for n in range(12)}


def test_a_reader_sees_each_change_and_never_a_part_of_one(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    add(path, "ana")
    users, stop, seen = Users(path), threading.Event(), []

    def read() -> None:
        while not stop.is_set():
            seen.append(len(users.all()))

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(20):
        add(path, f"user{number}")
    stop.set()
    reader.join()
    assert seen == sorted(seen)
    assert len(users.all()) == 21


def test_names_are_the_same_whatever_their_capitals(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    add(path, "Ana")
    found = Users(path).find("aNA")
    assert found is not None
    assert found[0] == "Ana"
    assert Users(path).find("an") is None


ENTRY = f"{{role: viewer, password: '{HASH}'}}"

BROKEN = [
    ("users: [", ":1 is no YAML"),
    ("- ana", "must have `users:` alone"),
    ("people: {}", "must have `users:` alone"),
    ("users: {ana: viewer}", "ana with a wrong entry"),
    ("users: {ana: {role: boss, password: x}}", "ana with a wrong role"),
    ("users: {ana: {role: viewer, password: in-the-clear}}", "ana with a wrong password"),
    (f"users: {{'a b': {ENTRY}}}", "no name for a user"),
    (f"users: {{ana: {ENTRY}, ANA: {ENTRY}}}", "differ in nothing but capitals"),
    (f"users: {{ana: {ENTRY}, ana: {ENTRY}}}", "twice"),
    ("users: &a {b: *a}", "lists too deep in one another"),
]


def test_a_file_that_cannot_be_used_says_why_and_tells_no_hash(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    for text, says in BROKEN:
        path.write_text(text)
        with pytest.raises(UsersError, match=says) as told:
            Users(path).find("ana")
        assert HASH not in str(told.value)
        assert "in-the-clear" not in str(told.value)


def test_a_name_twice_in_json_is_a_mistake_too(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    path.write_text('{"users": {"ana": {"role": "viewer"}, "ana": {"role": "admin"}}}')
    with pytest.raises(UsersError, match="ana twice"):
        Users(path).find("ana")


def test_a_file_that_is_not_there_lets_nobody_in(tmp_path: Path) -> None:
    with pytest.raises(UsersError, match="No such file"):
        Users(tmp_path / "users.yaml").find("ana")


def test_an_empty_file_has_nobody_in_it(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("users:\n")
    assert Users(path).all() == {}


def test_passwords_that_are_easily_guessed_are_not_taken() -> None:
    for password in ("", "fourteen chars", "a" * 40, "abab" * 10, "x y" * 100, "anabelle-12345678"):
        with pytest.raises(BadPassword) as told:
            refuse_bad(password, "anabelle")
        assert not password or password not in str(told.value)


def test_a_few_words_in_a_row_are_taken() -> None:
    for password in (
        "correct horse battery",
        "电梯里的人正在等待我们帮助他们",
        " a b c d e f g h ",
    ):
        refuse_bad(password, "ana")
        assert matches(password, hashed(password))
        assert not matches(password + " ", hashed(password))


def test_letters_typed_on_another_keyboard_are_the_same_password() -> None:
    assert matches(
        "un cafe\u0301 tre\u0300s serre\u0301", hashed("un caf\u00e9 tr\u00e8s serr\u00e9")
    )
