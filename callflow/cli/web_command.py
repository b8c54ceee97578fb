"""`callflow web`: the process that the carrier talks to."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from callflow.cli import deployment, terminal
from callflow.errors import CallflowError


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
