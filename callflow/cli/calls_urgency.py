"""`callflow calls urgency`: a person says how urgent a call is."""

from __future__ import annotations

import json
from typing import Annotated, Literal

import typer

from callflow.cli import acting, deployment, terminal

Level = Literal["P1", "P2", "P3", "P4", "P5"]


def urgency(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
    level: Annotated[Level, typer.Argument(help="P1, life at risk now, to P5, a test.")],
    reason: Annotated[
        str, typer.Option(help="Why; needed for less urgent than what was heard.")
    ] = "",
    by: acting.By = None,
    request: acting.Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Say how urgent a call is: it stands until something graver is heard in it."""
    from callflow import bootstrap
    from callflow.celery import wake

    deployment.need()
    done, waits = bootstrap.store().desk_work.urge(
        call_sid, level, acting.who(by), request=acting.named(request), reason=reason
    )
    if waits:
        # It goes ahead of those that are less urgent now.
        wake(call_sid, urgency=level)
    said = f"{level}" if done else f"{level}, as it was set before"
    terminal.line(json.dumps({"call_sid": call_sid, "done": done}) if as_json else said)
