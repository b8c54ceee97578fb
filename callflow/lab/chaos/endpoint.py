"""One address in front of the servers, as a managed Redis gives it, with a network that misbehaves.

A TCP proxy in a process of its own (`proxy.py`), steered over a pipe, that ends with its owner. It
knows no Redis: bytes go through as they are. What it can do to them is what networks do: be slow,
lose an answer, break, or fall silent; and a failover behind one name.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

from callflow.errors import CallflowError

HOST = "127.0.0.1"
_END_TIMEOUT_S = 5.0


class EndpointFailed(CallflowError):
    """The proxy process has ended, or refused an order; nothing passes through it any more."""

    def __init__(self, order: str, answer: str) -> None:
        self.order = order
        self.answer = answer
        super().__init__(
            f"the endpoint answered {answer or 'nothing'!r} to {order!r}: start another one"
        )


class Endpoint:
    """A running proxy: `start` it, give clients its `port`, and make its network misbehave.

    Every order returns once it is in force. May be used from several threads.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        """Not for use: see `start`."""
        self._process = process
        self._lock = threading.Lock()
        self.port = int(self._answer("start"))

    @classmethod
    def start(cls, target_port: int) -> Endpoint:
        """Listen on a free port of 127.0.0.1, in front of what listens on `target_port` there.

        Nobody has to listen there yet: connections are reset until somebody does.
        """
        process = subprocess.Popen(
            [sys.executable, "-m", "callflow.lab.chaos.proxy", str(target_port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C is for the owner, who may still want to speak with the servers.
            start_new_session=True,
        )
        return cls(process)

    def point_at(self, port: int, *, keep_open: bool = False) -> None:
        """A failover: new connections go to `port`, the open ones are reset.

        `keep_open`: they stay with the server that they have, as when two servers change roles.
        """
        self._order(f"point_at {port}")
        if not keep_open:
            self.reset()

    def delay(self, ms: int) -> None:
        """Everything takes `ms` milliseconds longer, on each way, from now on; 0: no longer."""
        self._order(f"delay {ms}")

    def drop_replies(self, count: int, containing: str = "") -> None:
        """The next `count` answers get lost although what was asked was done; connections reset.

        Only answers to what contains the word (a command's name) are lost; "" is any. What a
        subscriber is sent without having asked is no answer.
        """
        self._order(f"drop_replies {count} {containing}")

    def reset(self) -> None:
        """Every open connection breaks, on both sides."""
        self._order("reset")

    def mute(self) -> None:
        """Nothing passes and nothing is refused: also a new connection is accepted, and starves.

        What is sent meanwhile waits, as it does in the buffers of a cut network, until `heal`.
        """
        self._order("mute")

    def heal(self) -> None:
        """Back to plain forwarding, what was held back first."""
        self._order("heal")

    def stop(self) -> None:
        """End it: every connection breaks. Twice is once."""
        with self._lock:
            if self._process.stdin is not None and not self._process.stdin.closed:
                self._process.stdin.close()
                self._process.wait(_END_TIMEOUT_S)
            if self._process.stdout is not None:
                self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()

    def _order(self, order: str) -> None:
        with self._lock:
            stdin = self._process.stdin
            assert stdin is not None
            if stdin.closed:
                raise EndpointFailed(order, "stopped")
            try:
                stdin.write(f"{order}\n")
                stdin.flush()
            except BrokenPipeError as error:
                raise EndpointFailed(order, "") from error
            if (answer := self._answer(order)) != "ok":
                raise EndpointFailed(order, answer)

    def _answer(self, order: str) -> str:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise EndpointFailed(order, "")
        return line.strip()
