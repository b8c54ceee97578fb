"""`callflow calls note`: a person writes something down about a call."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callflow.cli import acting, deployment, terminal


def note(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
    text: Annotated[str, typer.Argument(help="What is to be kept; nobody speaks it.")],
    by: acting.By = None,
    request: acting.Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Keep a note with the record of a call: for colleagues, and never for the caller."""
    from callflow import bootstrap

    deployment.need()
    done = bootstrap.store().desk_work.remark(
        call_sid, text, acting.who(by), request=acting.named(request)
    )
    said = "noted" if done else "noted before"
    terminal.line(json.dumps({"call_sid": call_sid, "done": done}) if as_json else said)
