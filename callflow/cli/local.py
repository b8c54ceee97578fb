"""A local stack as the commands want it: started, looked after, and known to be at work."""

from __future__ import annotations

import importlib.util
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from callflow import bootstrap
from callflow.cli import credentials, deployment, terminal
from callflow.cli.credentials import FLOWER_PASSWORD
from callflow.cli.exchange import Exchange, handed_out
from callflow.cli.supervision import ProcessPart, ServerPart, Supervisor
from callflow.errors import CallflowError, StoreUnavailable
from callflow.health.server import refuse_unfit
from callflow.lab.server.embedded import EmbeddedServer
from callflow.lab.stack import FLOWER_AUTH, LocalStack, StackProcess
from callflow.redis.client import address

FLOWER_USER = "operator"

READY_WITHIN_S = 30.0
"""Python starts in a second or two, on a busy machine in ten."""

POLL_S = 0.1


class PortTaken(CallflowError):
    """Another program listens where one of our processes should."""

    def __init__(self, port: int, who: str, way_out: str) -> None:
        self.port = port
        super().__init__(f"port {port} is taken: choose another for {who} with {way_out}")


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


class Local:
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
        self._parts: list[ProcessPart] = []
        self._embedded: EmbeddedServer | None = None
        self._flower = self._board = ""
        self._exchange: Exchange | None = None

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
            self.supervisor.add(ServerPart(self._embedded), time.monotonic())
            url = self._embedded.url
        deployment.use(url)
        refuse_unfit(bootstrap.client())
        return url

    def start_processes(
        self, flower_port: int | None = None, exchange: Exchange | None = None
    ) -> None:
        """Start workers, watchdog and beat; Flower on `flower_port`, the web process that
        `exchange` plans."""
        env = {deployment.URL_VARIABLE: os.environ[deployment.URL_VARIABLE]}
        if self._here is None:
            env[deployment.RECORDS_VARIABLE] = ""  # What leaves nothing behind is no record either.
        if exchange is not None:
            env |= exchange.env
            if self._here is not None:
                board = credentials.board_env(bootstrap.settings(), self._here, exchange.port)
                self._board = credentials.board_words(bootstrap.settings(), self._here, board)
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
        if exchange is not None:
            self._exchange = exchange
            self._start("web", partial(stack.start_web, exchange.port))
            if self._here is not None:
                self._running.enter_context(handed_out(exchange, self._here))
        if flower_port is not None:
            self._start("flower", partial(stack.start_flower, flower_port))

    def _start(self, name: str, launch: Callable[[], StackProcess]) -> None:
        if not self._ended.is_set():
            part = ProcessPart(name, launch)
            self._parts.append(part)
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
            return swept and present.issuperset(self._size.names) and self._answers_calls()
        except StoreUnavailable:
            return False

    def _answers_calls(self) -> bool:
        """True when the web process is there, or there is to be none."""
        if self._exchange is None:
            return True
        with socket.socket() as probe:
            probe.settimeout(POLL_S)
            return probe.connect_ex(("127.0.0.1", self._exchange.port)) == 0

    def description(self) -> Iterator[tuple[str, str]]:
        """What runs where, as name and words; of passwords it tells where they are."""
        where = address(bootstrap.client())
        if self._embedded is not None:
            yield "server", f"{where}, process {self._embedded.pid}, data in {self._here}"
        else:
            yield "server", f"{where}, from {deployment.URL_VARIABLE}"
        for part in self._parts:
            yield (
                part.name,
                terminal.sentence((f"process {part.process.pid}", self._detail(part.name))),
            )
        if self._board:
            yield "board", self._board
        yield "logs", str(self.log_dir)

    def _detail(self, name: str) -> str:
        if name in self._size.names:
            return f"{terminal.counted(self._size.slots, 'slot')} ({self._size.pool})"
        if name == "web" and self._exchange is not None:
            return f"http://127.0.0.1:{self._exchange.port}, known as {self._exchange.public_url}"
        return self._flower if name == "flower" else ""

    def _flower_credentials(self, port: int) -> str:
        """User and password as Flower wants them: the user's own, or some that the stack keeps in
        its data directory while it runs."""
        where = f"http://127.0.0.1:{port}"
        if given := os.environ.get(FLOWER_AUTH):
            self._flower = f"{where} · user and password as in {FLOWER_AUTH}"
            return given
        path, password = self.log_dir.parent / FLOWER_PASSWORD, credentials.random_password()
        self._running.enter_context(credentials.kept_meanwhile(path, password))
        self._flower = f"{where} · user {FLOWER_USER} · password in {path}"
        return f"{FLOWER_USER}:{password}"


def flower_port(port: int) -> int | None:
    """The port for Flower; None, and a notice, when it is not installed. Raises PortTaken."""
    if importlib.util.find_spec("flower") is None:
        terminal.note("no Flower: it is not installed (pip install 'callflow[flower]')")
        return None
    return _free(port, "Flower", "--flower-port, or --no-flower")


def web_port(port: int) -> int | None:
    """The port for the web process; None, and a notice, when it is missing. Raises PortTaken."""
    if importlib.util.find_spec("uvicorn") is None:
        terminal.note("no telephone: it is not installed (pip install 'callflow[web]')")
        return None
    return _free(port, "the web process", "--web-port, or --no-web")


def _free(port: int, who: str, way_out: str) -> int:
    """The port, or PortTaken: found out later, it would be one line in a log."""
    with socket.socket() as probe:
        # As Flower does, so that a port whose last connections are fading away is no obstacle.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortTaken(port, who, way_out) from error
    return port
