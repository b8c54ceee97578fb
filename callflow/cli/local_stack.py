"""Runs a local stack: starts its parts, waits until they are at work, and starts again what dies.

The secrets that it makes up are kept in its data directory, for its owner alone. They are shown
nowhere else: what a terminal shows may be a log, or somebody's screen recording.

A part that dies soon after its start is given longer and longer pauses: a mistake in the settings
must not become a loop that heats the machine.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from callflow import bootstrap
from callflow.cli import deployment, terminal
from callflow.errors import CallflowError, StoreUnavailable
from callflow.health.server_checks import refuse_unfit
from callflow.lab.carrier.phone_account import LocalPhone, published
from callflow.lab.embedded_server import EmbeddedServer
from callflow.lab.stack import FLOWER_AUTH, LocalStack, StackProcess
from callflow.redis.client import address
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


FLOWER_USER = "operator"

READY_WITHIN_S = 30.0
"""Python starts in a second or two, on a busy machine in ten."""

POLL_S = 0.1

SOON_S = 5.0
"""A part that lived for less has not worked at all."""

LONGEST_PAUSE_S = 30.0


class PortInUse(CallflowError):
    """Another program listens where one of our processes should."""

    def __init__(self, port: int, who: str, way_out: str) -> None:
        self.port = port
        super().__init__(f"port {port} is taken: choose another for {who} with {way_out}")


@dataclass(slots=True)
class Part:
    """Something that should be running; `start` raises CallflowError when it cannot."""

    name: str
    is_alive: Callable[[], bool]
    start: Callable[[], None]
    describe_death: Callable[[], str]
    started_at: float = 0.0
    failures: int = 0
    again_at: float | None = None
    """When it will be started again; None while it is not known to be dead."""


class Supervisor:
    """Looks after parts; `look` does one round and is called several times a second."""

    def __init__(self) -> None:
        self._parts: list[Part] = []

    def add(self, part: Part, now: float) -> None:
        """Look after a part that has just been started, at monotonic `now`, s."""
        part.started_at = now
        self._parts.append(part)

    def look(self, now: float) -> Iterator[str]:
        """Start what has died (monotonic `now`, s); one sentence for each thing that happened."""
        for part in self._parts:
            if part.is_alive():
                continue
            if part.again_at is None:
                yield self._plan_restart(part, now)
            if part.again_at is not None and now >= part.again_at:
                yield self._restart(part, now)

    def _plan_restart(self, dead: Part, now: float) -> str:
        dead.failures = dead.failures + 1 if now - dead.started_at < SOON_S else 0
        pause_s = min(LONGEST_PAUSE_S, 2.0 ** (dead.failures - 1)) if dead.failures else 0.0
        dead.again_at = now + pause_s
        news = f"{dead.name} {dead.describe_death()}"
        return f"{news}; next try in {pause_s:.0f} s" if pause_s else news

    def _restart(self, dead: Part, now: float) -> str:
        dead.started_at, dead.again_at = now, None
        try:
            dead.start()
        except CallflowError as error:
            return f"{dead.name} does not start: {error}"
        return f"{dead.name} was started again"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    workers: int = 1
    slots: int = 4
    pool: str = "prefork"

    @property
    def names(self) -> list[str]:
        """The names of the workers that run turns."""
        return [f"worker{number}" for number in range(1, self.workers + 1)]


class SupervisedStack:
    """One local stack. What it starts ends with `running`, in the opposite order.

    `here` is the data directory, or None for a scratch server that leaves nothing behind. Once
    `ended` is set nothing is waited for any more.
    """

    def __init__(
        self, here: Path | None, size: Size, ended: threading.Event, running: ExitStack
    ) -> None:
        self.supervisor = Supervisor()
        self._here = here
        self._size = size
        self._ended = ended
        self._running = running
        self._processes: dict[str, StackProcess] = {}
        self._embedded: EmbeddedServer | None = None
        self._flower = self._board = ""
        self._phone: LocalPhone | None = None

    @property
    def log_dir(self) -> Path:
        """Where each process writes what it has to say."""
        home = self._here or (self._embedded.data_dir if self._embedded else Path())
        return home / "logs"

    def start_server(self) -> str:
        """Start the embedded server unless the settings name another; make it this process's own.

        Returns its URL. Raises StoreUnfit for a server that could lose calls.
        """
        url = bootstrap.settings().redis_url if self._here else None
        if url is None:
            self._embedded = self._running.enter_context(EmbeddedServer.start(self._here))
            server = self._embedded
            # It comes back with its data, port and password; how it ended nobody can tell.
            part = Part("server", lambda: server.alive, server.restart, lambda: "ended")
            self.supervisor.add(part, time.monotonic())
            url = server.url
        deployment.use(url)
        refuse_unfit(bootstrap.client())
        return url

    def start_processes(
        self, flower_port: int | None = None, phone: LocalPhone | None = None
    ) -> None:
        """Start workers, watchdog and beat; Flower on `flower_port`, the web process that
        `phone` plans."""
        env = {deployment.URL_VARIABLE: os.environ[deployment.URL_VARIABLE]}
        if self._here is None:
            env[deployment.RECORDS_VARIABLE] = ""  # What leaves nothing behind is no record either.
        if phone is not None:
            env |= phone.env
            if self._here is not None:
                board = board_env(bootstrap.settings(), self._here, phone.port)
                self._board = board_address(bootstrap.settings(), self._here, board)
                env |= board
        if flower_port is not None:
            env[FLOWER_AUTH] = self._flower_credentials(flower_port)
        events = flower_port is not None
        stack = self._running.enter_context(LocalStack(env, self.log_dir, events=events))
        for name in self._size.names:
            self._start(
                name,
                partial(stack.start_worker, name, slots=self._size.slots, pool=self._size.pool),
            )
        self._start("watchdog", stack.start_watchdog)
        self._start("beat", stack.start_beat)
        if phone is not None:
            self._phone = phone
            self._start("web", partial(stack.start_web, phone.port))
            if self._here is not None:
                self._running.enter_context(published(phone, self._here))
        if flower_port is not None:
            self._start("flower", partial(stack.start_flower, flower_port))

    def _start(self, name: str, launch: Callable[[], StackProcess]) -> None:
        if self._ended.is_set():
            return

        def start() -> None:
            self._processes[name] = launch()

        def is_alive() -> bool:
            return self._processes[name].alive

        start()
        part = Part(name, is_alive, start, lambda: _describe_death(self._processes[name]))
        self.supervisor.add(part, time.monotonic())

    def wait_until_at_work(self, tell: Callable[[str], None]) -> bool:
        """True once every worker is present and somebody sweeps; False when told to end, or when
        it takes too long. What dies meanwhile is started again and told about."""
        deadline = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < deadline and not self._ended.is_set():
            if self._at_work():
                return True
            for news in self.supervisor.look(time.monotonic()):
                tell(news)
            self._ended.wait(POLL_S)
        return False

    def _at_work(self) -> bool:
        leases = bootstrap.leases()
        try:
            present = {name.partition("@")[0] for name in leases.present_now()}
            swept = leases.last_sweep() is not None
        except StoreUnavailable:
            return False
        listening = self._phone is None or is_listening(self._phone.port)
        return swept and present.issuperset(self._size.names) and listening

    def description(self) -> Iterator[tuple[str, str]]:
        """What runs where, as name and words; of passwords it tells where they are."""
        where = address(bootstrap.client())
        if self._embedded is not None:
            yield "server", f"{where}, process {self._embedded.pid}, data in {self._here}"
        else:
            yield "server", f"{where}, from {deployment.URL_VARIABLE}"
        for name, process in self._processes.items():
            yield name, terminal.sentence((f"process {process.pid}", self._describe(name)))
        if self._board:
            yield "board", self._board
        yield "logs", str(self.log_dir)

    def _describe(self, name: str) -> str:
        if name in self._size.names:
            return f"{terminal.counted(self._size.slots, 'slot')} ({self._size.pool})"
        if name == "web" and self._phone is not None:
            return f"http://127.0.0.1:{self._phone.port}, known as {self._phone.public_url}"
        return self._flower if name == "flower" else ""

    def _flower_credentials(self, port: int) -> str:
        """User and password as Flower wants them: the user's own, or some that the stack keeps in
        its data directory while it runs."""
        where = f"http://127.0.0.1:{port}"
        if given := os.environ.get(FLOWER_AUTH):
            self._flower = f"{where} · user and password as in {FLOWER_AUTH}"
            return given
        path, password = self.log_dir.parent / FLOWER_PASSWORD, random_password()
        self._running.enter_context(temporary_secret(path, password))
        self._flower = f"{where} · user {FLOWER_USER} · password in {path}"
        return f"{FLOWER_USER}:{password}"


def _describe_death(process: StackProcess) -> str:
    code = process.popen.returncode
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with {code}"
    return f"{how} (log: {process.log})"


def is_listening(port: int) -> bool:
    """True when somebody on this machine takes connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(POLL_S)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def flower_port(port: int) -> int | None:
    """The port for Flower; None, and a notice, when it is not installed. Raises PortInUse."""
    if importlib.util.find_spec("flower") is None:
        terminal.print_note("no Flower: it is not installed (pip install 'callflow[flower]')")
        return None
    return _free_port(port, "Flower", "--flower-port, or --no-flower")


def web_port(port: int) -> int | None:
    """The port for the web process; None, and a notice, when it is missing. Raises PortInUse."""
    if importlib.util.find_spec("uvicorn") is None:
        terminal.print_note("no telephone: it is not installed (pip install 'callflow[web]')")
        return None
    return _free_port(port, "the web process", "--web-port, or --no-web")


def _free_port(port: int, who: str, way_out: str) -> int:
    """The port, or PortInUse: found out later, it would be one line in a log."""
    with socket.socket() as probe:
        # As Flower does, so that a port whose last connections are fading away is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortInUse(port, who, way_out) from error
    return port
