"""`callflow calls fact`: a person records what has happened outside of a call."""

from __future__ import annotations

import getpass
import json
from typing import Annotated

import typer

from callflow.cli import deployment, terminal


def fact(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
    facts: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME=VALUE…", help="Such as dispatch.requested=yes; NAME= takes one back."
        ),
    ],
    by: Annotated[
        str | None, typer.Option(help="Who records it; the user of this machine where left out.")
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Record facts about a call, such as a dispatch or an arrival time: from then on the agent may
    say so. All are checked before the first is recorded; who did it stands in the journal."""
    from callflow import bootstrap
    from callflow.call.facts import HUMAN_FACTS, InvalidFact, parsed

    given = {}
    for each in facts:
        name, equals, value = each.partition("=")
        if not equals:
            raise InvalidFact(name, "has no value: write NAME=VALUE, such as eta_minutes=20")
        if not value and name not in HUMAN_FACTS:
            parsed(name, value)
        given[name] = parsed(name, value) if value else None
    deployment.need()
    who = by or getpass.getuser()
    recorded = bootstrap.store().recorded
    noted = {name: recorded.note(call_sid, name, value, who) for name, value in given.items()}
    if as_json:
        terminal.line(json.dumps({"call_sid": call_sid, "recorded": noted}))
        return
    for name, new in noted.items():
        shown = "taken back" if given[name] is None else json.dumps(given[name])
        terminal.line(f"{name}: {shown}" if new else f"{name}: {shown}, as it stood already")
