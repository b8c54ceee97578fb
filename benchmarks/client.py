"""The callers' process: reads orders from stdin, lets a crowd talk, answers on stdout.

`python -m benchmarks.client CONTESTANT URL CALLS`. A process of its own, because the contestants
read their settings once per process and because its CPU is the client's and nobody else's. It ends
with its owner: stdin closes then.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Self

from benchmarks.crowd import Crowd, talk


class Client:
    """The owner's end: starts the process, and orders crowds of it."""

    def __init__(self, contestant: str, url: str, calls: int, env: Mapping[str, str]) -> None:
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.client", contestant, url, str(calls)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
            text=True,
        )

    def talk(self, calls: int, turns: int, batches: int = 1) -> Crowd:
        """Let a crowd talk and wait until all have hung up."""
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(json.dumps([calls, turns, batches]) + "\n")
        self._popen.stdin.flush()
        for line in self._popen.stdout:
            if line.startswith("{"):
                return Crowd(**json.loads(line))
            print(line, end="", file=sys.stderr)
        raise RuntimeError(f"the callers' process ended with {self._popen.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._popen.wait()


async def _serve(contestant: str, url: str, calls: int) -> None:
    from benchmarks.contestants import connect

    orders: asyncio.Queue[str] = asyncio.Queue()
    owner = asyncio.create_task(_read_orders(orders))
    async with connect(contestant)(url, calls) as caller:
        while order := await orders.get():
            crowd = asyncio.create_task(talk(caller, *json.loads(order)))
            await asyncio.wait({crowd, owner}, return_when=asyncio.FIRST_COMPLETED)
            if not crowd.done():
                # The owner died in the middle, and with it the workers: no reply will come, and
                # the threads that wait for one cannot be told.
                os._exit(1)
            print(json.dumps(asdict(crowd.result())), flush=True)


async def _read_orders(orders: asyncio.Queue[str]) -> None:
    """Put every line of stdin into `orders`, and an empty one at its end."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def read() -> None:
        for line in sys.stdin:
            loop.call_soon_threadsafe(orders.put_nowait, line)
        loop.call_soon_threadsafe(orders.put_nowait, "")
        loop.call_soon_threadsafe(ended.set)

    # Not the loop's own threads: those are what callers are served by.
    threading.Thread(target=read, daemon=True).start()
    await ended.wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
