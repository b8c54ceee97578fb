"""`python -m benchmarks board`: one web process, many boards open, many calls that talk.

The boards are streams of server-sent events over HTTP, each signed in. This process plays the
workers: a caller speaks, is claimed, hears the first words of a reply and then all of it, again and
again. Every word tells when it was written, so each board measures how long it took to be shown.
Boards, workers and clock are in this process: what they take is part of every time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import machine
from benchmarks.lines import PUBLIC_URL, TOKEN
from benchmarks.talkers import Talkers
from benchmarks.telephone import Size, listens, spread
from benchmarks.waiting import wait_until
from callflow.access.sessions import Sessions
from callflow.access.users_file import User, edit_users
from callflow.call.role import Role
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import LocalStack, StackProcess, free_port
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.settings import Settings
from callflow.store.calls import CallStore
from callflow.store.keys import SHARDS

ARGUMENTS: Final = {
    "calls": "active calls",
    "boards": "boards that are open",
    "seconds": "for how long it is measured",
    "every_s": "seconds between two turns of a call",
    "turn_s": "seconds that a turn takes",
}

QUIET_S: Final = 5.0
"""So long the same calls talk while no board is open, to compare with."""

WARM_S: Final = 2.0

ZRANGES_PER_LOOK: Final = 2 * SHARDS

_STAMPED = re.compile(rb'"call_sid":"(\w+)"[^\0]*?"last":\["\w+","(?:at (\d+)|[^"])')


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    calls: int = 1000
    boards: int = 20
    seconds: float = 20.0
    every_s: float = 10.0
    turn_s: float = 1.0


@dataclass
class Board:
    """One board that is open. `after_s`: from a write to the board, for each word that it saw."""

    number: int
    after_s: list[float] = field(default_factory=list)
    events: int = 0
    sent: int = 0
    """bytes"""
    _seen: dict[bytes, int] = field(default_factory=dict)

    async def follow(self, port: int, token: str) -> None:
        """Read until cancelled."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**24)
        try:
            writer.write(
                f"GET /board/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
                f"Cookie: callflow-session={token}\r\n\r\n".encode()
            )
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.partition(b"\r\n")[0], head
            while size := int(await reader.readline(), 16):
                self._take((await reader.readexactly(size + 2))[:-2])
        finally:
            writer.close()

    def _take(self, event: bytes) -> None:
        now_ms = 1000 * time.monotonic()
        self.events += 1
        self.sent += len(event)
        whole = b"event: snapshot" in event[:200]
        for row in event.split(b'{"call_sid"')[1:]:
            found = _STAMPED.match(b'"call_sid"' + row)
            if found is None or found[2] is None:
                continue
            sid, at_ms = found[1], int(found[2])
            if at_ms > self._seen.get(sid, 0):
                self._seen[sid] = at_ms
                if not whole:  # There it had stood for a while.
                    self.after_s.append((now_ms - at_ms) / 1000)

    def reset(self) -> None:
        """What came before was to warm up."""
        self.after_s, self.events, self.sent = [], 0, 0


async def watch(
    plan: Plan, client: Client, web: StackProcess, port: int, token: str
) -> dict[str, Any]:
    """Measure with no board open, and then with all of them."""
    quiet = await _measure(client, web, QUIET_S, [])
    boards = [Board(number) for number in range(plan.boards)]
    following = [asyncio.create_task(board.follow(port, token)) for board in boards]
    await asyncio.sleep(WARM_S)
    for board in boards:
        board.reset()
    busy = await _measure(client, web, plan.seconds, following)
    for task in following:
        task.cancel()
    await asyncio.wait(following)
    after_s = [one for board in boards for one in board.after_s]
    assert after_s, "no board was told anything"
    per = plan.seconds * plan.boards
    return {
        "boards": {
            **spread(after_s),
            "words": len(after_s),
            "events_per_s": round(sum(one.events for one in boards) / per, 1),
            "kb_per_s": round(sum(one.sent for one in boards) / per / 1000),
        },
        "quiet": quiet,
        "busy": busy,
    }


async def _measure(
    client: Client, web: StackProcess, seconds: float, following: list[asyncio.Task[None]]
) -> dict[str, float]:
    """Shares of a core, memory, and how often all calls were looked at, for so many seconds."""
    before, asked, began = Size.of(web), _asked(client), time.monotonic()
    most_mb = before.rss_mb
    while (left_s := began + seconds - time.monotonic()) > 0:
        await asyncio.sleep(min(0.5, left_s))
        most_mb = max(most_mb, Size.of(web).rss_mb)
        for task in following:
            assert not task.done(), task.exception()
    took_s = time.monotonic() - began
    server_cpu_s, zranges = (b - a for a, b in zip(asked, _asked(client), strict=True))
    return {
        "web_cpu_share": round((Size.of(web).cpu_s - before.cpu_s) / took_s, 3),
        "web_rss_mb": round(most_mb, 1),
        "server_cpu_share": round(server_cpu_s / took_s, 3),
        "looks_per_s": round(zranges / ZRANGES_PER_LOOK / took_s, 2),
    }


def _asked(client: Client) -> tuple[float, float]:
    info = client.info("everything")
    cpu_s = info["used_cpu_user"] + info["used_cpu_sys"]
    return cpu_s, info.get("cmdstat_zrange", {"calls": 0})["calls"]


def run(plan: Plan, scratch: Path) -> dict[str, Any]:
    """Measure against a server and a web process of its own."""
    with EmbeddedServer.start() as server, connect(server.url) as client:
        store = CallStore(Scripts(client), Settings().timing)
        talkers = Talkers(store, plan.calls, plan.every_s, plan.turn_s)
        talkers.open_all()
        with _web(server.url, scratch) as (web, port, user):
            token = Sessions(Scripts(client)).begin(user.session_user("benchmark"))
            with talkers.talking():
                found = asyncio.run(watch(plan, client, web, port, token))
    return {**found, "turns": talkers.turns, "talkers_late_ms": round(1000 * talkers.late_s)}


@contextmanager
def _web(url: str, scratch: Path) -> Iterator[tuple[StackProcess, int, User]]:
    port, users = free_port(), scratch / "users.json"
    with edit_users(users) as known:
        # Nobody signs in with a password here.
        known["benchmark"] = user = User(role=Role.VIEWER, password="$argon2id$none")
    env = {
        "CALLFLOW_REDIS_URL": url,
        "CALLFLOW_BROKER_URL": "",
        "CALLFLOW_PUBLIC_URL": PUBLIC_URL,
        "CALLFLOW_BOARD_URL": f"http://127.0.0.1:{port}",
        "CALLFLOW_USERS": str(users),
        "CALLFLOW_TWILIO_AUTH_TOKEN": TOKEN,
        "CALLFLOW_SITES": str(resources.files("callflow.lab.chaos") / "demo_sites.yaml"),
    }
    with LocalStack(env, scratch / "logs") as stack:
        web = stack.start_web(port)
        wait_until(lambda: listens(port), "the web process listens", 60)
        yield web, port, user


def main(arguments: list[str] | None = None) -> int:
    """Measure and print. With `--json` the last line of stdout is the whole result."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks board", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    for name, what in ARGUMENTS.items():
        usual = Plan.__dataclass_fields__[name].default
        flag = f"--{name.removesuffix('_s')}"
        help_ = f"{what} (default: {usual})"
        parser.add_argument(flag, dest=name, type=type(usual), default=usual, help=help_)
    asked = parser.parse_args(arguments)
    result: dict[str, Any] = {"machine": machine.describe()}
    with tempfile.TemporaryDirectory(prefix="callflow-benchmarks-") as scratch:
        result |= run(Plan(**{name: getattr(asked, name) for name in ARGUMENTS}), Path(scratch))
    if asked.json:
        print(json.dumps(result))
    else:
        show(result)
    return 0


def show(result: dict[str, Any]) -> None:
    """Print everything."""
    console = Console(width=120)
    console.print(" · ".join(f"{name} {value}" for name, value in result["machine"].items()))
    for name in ("boards", "quiet", "busy"):
        table = Table(title=_TITLES[name], title_justify="left")
        for heading in result[name]:
            table.add_column(heading.replace("_", " "), justify="right")
        table.add_row(*map(str, result[name].values()))
        console.print(table)
    late_ms = result["talkers_late_ms"]
    console.print(f"{result['turns']} turns; what was to be said was late by {late_ms} ms at most")


_TITLES: Final = {
    "boards": "from a write to a board, and what each board is sent",
    "quiet": "no board is open",
    "busy": "all boards are open",
}
