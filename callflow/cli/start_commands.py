"""`callflow up` and `callflow web`: the whole local stack, or the process of the carrier alone."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from callflow.cli.local_stack import SupervisedStack


class Pool(StrEnum):
    """What the slots of a worker are."""

    PREFORK = "prefork"
    THREADS = "threads"


def up(
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers that run turns.")] = 2,
    slots: Annotated[int, typer.Option(min=1, max=256, help="Turns at once in each.")] = 4,
    pool: Annotated[Pool, typer.Option(help="What the slots are.")] = Pool.PREFORK,
    flower_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of Flower, the Celery dashboard.")
    ] = 5555,
    web_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Port of the web process, which answers calls.")
    ] = 8000,
    no_web: Annotated[bool, typer.Option("--no-web", help="No telephone.")] = False,
    no_flower: Annotated[bool, typer.Option("--no-flower", help="No dashboard.")] = False,
    data_dir: Annotated[
        Path | None,
        typer.Option(help="Where the server's data and the logs are.", show_default=".callflow"),
    ] = None,
) -> None:
    """Start server, workers, watchdog, beat, web process and Flower here; Ctrl-C ends all of it.

    A part that dies is started again. With CALLFLOW_REDIS_URL the calls are on that server; else
    one is started that keeps them in the data directory.
    """
    from callflow import bootstrap
    from callflow.cli import local_stack
    from callflow.lab.carrier.phone_account import plan_phone

    if data_dir is not None:
        os.environ["CALLFLOW_DATA_DIR"] = str(data_dir)
        bootstrap.forget()
    here = bootstrap.settings().data_dir
    if not deployment.keep_records(here):
        terminal.print_note(
            "no lasting records: they are not installed (pip install 'callflow[records]')"
        )
    bootstrap.library()  # Here a bad procedure is one sentence; in the workers, one in each log.
    size = local_stack.Size(workers, slots, str(pool))
    with _catch_signals() as ended, ExitStack() as running:
        announce = running.enter_context(deployment.announced(here))
        port = None if no_flower else local_stack.flower_port(flower_port)
        answers_on = None if no_web else local_stack.web_port(web_port)
        line = None if answers_on is None else plan_phone(bootstrap.settings(), answers_on)
        stack = local_stack.SupervisedStack(here, size, ended, running)
        announce(stack.start_server())
        stack.start_processes(port, line)
        _print_parts(stack)
        _supervise(stack, ended)
        terminal.print_note("ending all of it …")


def _print_parts(stack: SupervisedStack) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for name, what in stack.description():
        grid.add_row(terminal.text(name, "bold"), terminal.text(what))
    terminal.console().print(grid)


def _supervise(stack: SupervisedStack, ended: threading.Event) -> None:
    from callflow.cli.local_stack import POLL_S

    began = time.monotonic()
    console = terminal.console()
    if stack.wait_until_at_work(_print_news):
        took_s = time.monotonic() - began
        console.print(terminal.text(f"ready in {took_s:.1f} s", "bold green"))
        terminal.print_note(
            "call it: callflow phone · type to it: callflow call · watch: callflow calls watch · "
            "end all of it: Ctrl-C"
        )
    elif not ended.is_set():
        _print_news(
            f"not everything is at work yet: read {stack.log_dir}, or ask `callflow doctor`"
        )
    while not ended.wait(POLL_S):
        for news in stack.supervisor.look(time.monotonic()):
            _print_news(news)


def _print_news(news: str) -> None:
    terminal.console().print(
        terminal.text(time.strftime("%H:%M:%S"), "dim"), terminal.text(news), soft_wrap=True
    )


@contextmanager
def _catch_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and a closed terminal set; a second Ctrl-C is impatience."""
    ended = threading.Event()

    def end(number: int, _: object) -> None:
        if ended.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        ended.set()

    before = {
        number: signal.signal(number, end)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Level(StrEnum):
    """What is logged: this, and what is worse."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


class WebMissing(CallflowError):
    """The packages of the web process are not installed."""


def web(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8000,
    log_level: Annotated[
        Level, typer.Option(help="What is logged, unless CALLFLOW_LOG_LEVEL is set.")
    ] = Level.WARNING,
) -> None:
    """Answer Twilio's voice webhooks and ConversationRelay sockets, until Ctrl-C.

    Keeps nothing: run as many as you like behind one address, and kill any of them. What it needs:
    CALLFLOW_REDIS_URL, CALLFLOW_PUBLIC_URL, CALLFLOW_SITES, CALLFLOW_TWILIO_AUTH_TOKEN; to ring
    humans also CALLFLOW_TWILIO_ACCOUNT_SID.
    """
    try:
        from callflow.web import app
    except ModuleNotFoundError as error:
        raise WebMissing(
            f"the web process needs {error.name}: pip install 'callflow[web]'"
        ) from error
    from callflow import bootstrap, logs
    from callflow.language.danger import dangers

    known = bootstrap.settings()
    logs.configure(known.log_format, known.log_level or log_level)
    deployment.need()
    app.check_settings(bootstrap.settings(), host)
    if known.unsigned:
        terminal.print_note(app.UNSIGNED)
    if bootstrap.telephone() is None:
        terminal.print_note("no CALLFLOW_TWILIO_ACCOUNT_SID: nobody can be rung, whatever happens")
    # Reads its lists, before anybody can speak: it takes a third of a second of a processor, and
    # four callers at once would each wait for all of four readings.
    dangers("", "")
    app.serve(host, port)
