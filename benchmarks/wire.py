"""What is asked of the server for one turn: requests as they arrive, by name.

INFO counts the commands inside scripts as well; MONITOR tells them apart from what came over the
wire. It slows the server down, so it runs after all that is timed.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from importlib import resources

import redis

from benchmarks.crowd import Crowd
from callflow.redis.scripts import load

_LAST = "benchmarks:monitored"


def requests_per_turn(client: redis.Redis, work: Callable[[], Crowd]) -> dict[str, float]:
    """Requests by command (or `script:name`) while `work` runs, divided by its turns.

    The requests of whatever else goes on, such as sweeps, are among them.
    """
    seen: Counter[str] = Counter()
    monitor: redis.client.Monitor
    with client.monitor() as monitor:  # type: ignore[no-untyped-call]
        reader = threading.Thread(target=_count, args=(monitor, seen), daemon=True)
        reader.start()
        turns = len(work().turn_s)
        client.get(_LAST)
        reader.join(10)
    return {name: count / max(1, turns) for name, count in seen.most_common()}


def _count(monitor: redis.client.Monitor, seen: Counter[str]) -> None:
    scripts = _scripts()
    # Not `listen`: the parser of redis-py stumbles over some of the messages.
    while True:
        line = monitor.connection.read_response(disable_decoding=True)
        text = bytes(line).decode(errors="replace")
        found = re.match(r"[\d.]+ \[\d+ (\S+)\] \"(\w+)\"(?: \"([^\"]*)\")?", text)
        if found is None or found[1] == "lua":
            continue
        if found[3] == _LAST:
            return
        name = found[2].lower()
        seen[f"script:{scripts.get(found[3], '?')}" if name == "evalsha" else name] += 1


def _scripts() -> dict[str, str]:
    """SHA-1 → name of every script of callflow."""
    folder = resources.files("callflow.store") / "lua"
    names = [file.name.removesuffix(".lua") for file in folder.iterdir()]
    return {load(name).sha: name for name in names if name != "prelude"}
