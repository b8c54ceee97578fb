"""The users of deploy/acl, as tests make them known to servers."""

from __future__ import annotations

import secrets
from pathlib import Path

from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import Client, connect

ACL = Path(__file__).parents[1] / "deploy" / "acl" / "callflow.acl"
PASSWORD = secrets.token_hex(8)


def granted(user: str) -> set[str]:
    """The commands of one line of the file."""
    line = next(one for one in ACL.read_text().splitlines() if one.split()[1] == user)
    return {word[1:] for word in line.split() if word.startswith("+")}


def users() -> tuple[str, ...]:
    """The users of the file, all with the same password, as lines of a server's configuration."""
    return tuple(f"{line} >{PASSWORD}" for line in ACL.read_text().splitlines())


def grant(server: EmbeddedServer) -> None:
    """Make them known to a server that runs; it forgets them when it ends."""
    with connect(server.url) as admin:
        for line in users():
            allow(admin, *line.split()[1:])


def url_of(server: EmbeddedServer, user: str) -> str:
    """Where one of them finds the server."""
    return f"redis://{user}:{PASSWORD}@127.0.0.1:{server.port}/0"


def allow(admin: Client, user: str, *rules: str) -> None:
    """Add rules to what a user may do, or take them away (`-command`)."""
    admin.execute_command("ACL", "SETUSER", user, *rules)  # type: ignore[no-untyped-call]


def refusals(server: EmbeddedServer) -> list[str]:
    """What was refused to callflow's users since it was asked last; but CONFIG, which the doctor
    asks for and takes for `unknown`, and CLIENT SETINFO, by which kombu's client tells its name."""
    with connect(server.url) as admin:
        log = admin.acl_log()
        admin.acl_log_reset()
    told = [f"{one['username']} {one['reason']} {one['object']}" for one in log]
    return [one for one in told if not one.endswith(("config|get", "client|setinfo"))]
