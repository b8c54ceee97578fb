"""`callflow calls end`: a person ends a call, and says what became of it."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from callflow.cli import acting, deployment, terminal


def end(
    call_sid: Annotated[str, typer.Argument(metavar="CALLSID", help="Twilio's name of the call.")],
    what: Annotated[
        str,
        typer.Argument(
            metavar="DISPOSITION",
            help="released, emergency_service, handed_over, resolved, false_alarm, test, prank or "
            "nobody_there.",
        ),
    ],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Also where somebody may still be trapped.")
    ] = False,
    by: acting.By = None,
    request: acting.Request = None,
    as_json: terminal.AsJson = False,
) -> None:
    """End a call and close its line. Where somebody may still be trapped it is not ended, unless
    their release was recorded or you confirm."""
    from callflow import bootstrap
    from callflow.call.disposition import disposition

    outcome = disposition(what)
    deployment.need()
    done = bootstrap.store().desk_work.end(
        bootstrap.snapshots().read,
        call_sid,
        outcome,
        acting.who(by),
        request=acting.named(request),
        confirmed=confirm,
    )
    ringing = bootstrap.ringing()
    ringing.call_off(call_sid)
    closed = ringing.hang_up(call_sid)
    if as_json:
        terminal.line(json.dumps({"call_sid": call_sid, "done": done, "closed": closed}))
        return
    terminal.line(f"ended: {outcome}" if done else f"ended before: {outcome}")
    if not closed:
        terminal.line(
            "the carrier could not be asked to close the line: its next request closes it"
        )
