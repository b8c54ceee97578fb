"""Who may look at a local stack: its board and its Flower have passwords, and no log has those."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest
import yaml

from callflow.access.passwords import matches
from callflow.access.users_file import Users
from callflow.cli import local_stack
from callflow.cli.local_stack import board_address, board_env
from callflow.lab.stack import FlowerUnguarded, LocalStack, free_port
from callflow.settings import Settings
from tests.cli.running import Cli
from tests.waiting import wait_until


def test_a_stack_without_users_has_an_admin_whose_password_its_owner_can_read(
    tmp_path: Path,
) -> None:
    env = board_env(Settings(), tmp_path, 8000)
    assert env["CALLFLOW_BOARD_URL"] == "http://127.0.0.1:8000"
    password_file = tmp_path / "admin-password"
    assert password_file.stat().st_mode & 0o777 == 0o600
    password = password_file.read_text().strip()
    (admin,) = Users(Path(env["CALLFLOW_USERS"])).all().values()
    assert admin.role == "admin"
    assert matches(password, admin.password)
    told = board_address(Settings(), tmp_path, env)
    assert told == f"http://127.0.0.1:8000/board · user admin · password in {password_file}"
    assert password not in told


def test_a_stack_that_starts_again_keeps_its_users(tmp_path: Path) -> None:
    board_env(Settings(), tmp_path, 8000)
    before = (tmp_path / "users.yaml").read_bytes(), (tmp_path / "admin-password").read_bytes()
    board_env(Settings(), tmp_path, 8001)
    after = (tmp_path / "users.yaml").read_bytes(), (tmp_path / "admin-password").read_bytes()
    assert after == before
    (tmp_path / "admin-password").unlink()
    assert "users in" in board_address(Settings(), tmp_path, board_env(Settings(), tmp_path, 8001))


@pytest.mark.parametrize(
    "given",
    [
        {"users": "somewhere.yaml"},
        {"oidc_issuer": "https://login.example.org", "oidc_client_id": "us"},
    ],
)
def test_a_stack_with_users_of_its_own_gets_no_admin(tmp_path: Path, given: dict[str, str]) -> None:
    settings = Settings.model_validate({**given, "board_url": "https://board.example.org"})
    env = board_env(settings, tmp_path, 8000)
    assert env == {"CALLFLOW_BOARD_URL": "https://board.example.org"}
    assert board_address(settings, tmp_path, env) == "https://board.example.org/board"
    assert list(tmp_path.iterdir()) == []


def test_a_secret_that_is_kept_meanwhile_is_its_owners_and_goes_with_the_stack(
    tmp_path: Path,
) -> None:
    path = tmp_path / "flower-password"
    path.write_text("left behind by a stack that was killed")
    path.chmod(0o644)
    with local_stack.temporary_secret(path, "a secret"):
        assert path.read_text() == "a secret\n"
        assert path.stat().st_mode & 0o777 == 0o600
    assert not path.exists()


def test_flower_is_not_started_without_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLOWER_BASIC_AUTH", raising=False)
    with LocalStack({}, tmp_path) as stack:
        with pytest.raises(FlowerUnguarded, match="FLOWER_BASIC_AUTH"):
            stack.start_flower(free_port())
        assert stack.processes == {}


def test_compose_starts_nothing_that_shows_calls_without_a_password() -> None:
    folder = Path(__file__).parents[2]
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    flowers = [one for one in services.values() if "flower" in one.get("command", "")]
    assert len(flowers) == 1
    for one in flowers:
        assert one["environment"]["FLOWER_BASIC_AUTH"].startswith("${FLOWER_BASIC_AUTH:?")
        assert "basic" not in one["command"]
    for one in services.values():
        assert all(str(port).startswith("127.0.0.1:") for port in one.get("ports", ()))
    assert "flower" not in (folder / "Dockerfile").read_text().rpartition("CMD")[2]


@pytest.mark.chaos
def test_a_local_stack_tells_where_its_passwords_are_and_no_log_has_them(cli: Cli) -> None:
    web, flower = free_port(), free_port()
    told = cli.home / "told"
    with told.open("wb") as out:
        ports = ("--web-port", str(web), "--flower-port", str(flower))
        up = cli.start("up", "--workers", "1", "--slots", "1", *ports, out=out.fileno())
    try:
        wait_until(lambda: "ready in" in told.read_text(), "the stack to be ready", within_s=60)
        data = cli.home / "data"
        kept = {name: data / f"{name}-password" for name in ("admin", "flower")}
        secrets = {name: path.read_text().strip() for name, path in kept.items()}
        for path in kept.values():
            assert path.stat().st_mode & 0o777 == 0o600
            assert path.name in told.read_text()
        with httpx.Client(base_url=f"http://127.0.0.1:{web}") as browser:
            assert browser.get("/board").status_code == 401
            page = browser.get("/board/sign-in")
            form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page.text))
            form |= {"name": "admin", "password": secrets["admin"]}
            origin = {"origin": f"http://127.0.0.1:{web}"}
            assert browser.post("/board/sign-in", data=form, headers=origin).status_code == 303
            assert browser.get("/board").status_code == 200
        dashboard = f"http://127.0.0.1:{flower}/api/workers"
        wait_until(lambda: _status(dashboard) == 401, "Flower to ask who it is", within_s=30)
        assert _status(dashboard, ("operator", secrets["flower"])) == 200
    finally:
        up.send_signal(signal.SIGINT)
        up.wait(30)
    assert not kept["flower"].exists()
    logs = [told, *(data / "logs").glob("*.log")]
    assert len(logs) > 5
    for log in logs:
        assert not [one for one in secrets.values() if one in log.read_text(errors="replace")]


def _status(url: str, auth: tuple[str, str] | None = None) -> int:
    try:
        return httpx.get(url, auth=auth, timeout=10).status_code
    except httpx.TransportError:
        return 0
