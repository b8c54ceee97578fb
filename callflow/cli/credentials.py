"""Makes up the secrets of a local stack and keeps them in its data directory, for its owner alone.

They are shown nowhere else: what a terminal shows may be a log, or somebody's screen recording.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from callflow.settings import PREFIX, Settings

USERS, ADMIN_PASSWORD, FLOWER_PASSWORD = "users.yaml", "admin-password", "flower-password"

ADMIN = "admin"


def random_password() -> str:
    """One that nobody can guess: 144 bits."""
    return secrets.token_urlsafe(18)


def write_secret(path: Path, secret: str) -> None:
    """Write a secret into a new file of mode 0600 in place of whatever is there."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(f"{secret}\n")


@contextmanager
def temporary_secret(path: Path, secret: str) -> Iterator[None]:
    """Keep a secret in a file for as long as the block runs."""
    write_secret(path, secret)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def board_env(settings: Settings, data_dir: Path, port: int) -> dict[str, str]:
    """What the web process of a local stack on `port` must know for its board.

    Where the settings name neither users nor a provider of accounts, the stack has users of its
    own, with an admin to begin with. A stack that starts again has those that it had.
    """
    env = {f"{PREFIX}BOARD_URL": settings.board_url or f"http://127.0.0.1:{port}"}
    if settings.users is not None or settings.oidc_issuer is not None:
        return env
    users = data_dir / USERS
    if not users.exists():
        _make_admin(users, data_dir / ADMIN_PASSWORD)
    return {**env, f"{PREFIX}USERS": str(users.resolve())}


def _make_admin(users: Path, password_file: Path) -> None:
    from callflow.access.passwords import hashed
    from callflow.access.users_file import User, edit_users
    from callflow.call.role import Role

    password = random_password()
    # First where it can be read: killed in between, the stack makes another admin next time.
    write_secret(password_file, password)
    with edit_users(users) as known:
        known[ADMIN] = User(role=Role.ADMIN, password=hashed(password))


def board_address(settings: Settings, data_dir: Path, env: dict[str, str]) -> str:
    """Where the board is, and who can sign in there."""
    where = f"{env[f'{PREFIX}BOARD_URL']}/board"
    password = data_dir / ADMIN_PASSWORD
    if settings.users is not None or settings.oidc_issuer is not None:
        return where
    if not password.exists():
        return f"{where} · users in {data_dir / USERS}"
    return f"{where} · user {ADMIN} · password in {password}"
