"""`callflow twilio fallback`: the document to be kept at the carrier for when we are all gone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import terminal
from callflow.errors import CallflowError, SettingsError

if TYPE_CHECKING:
    from callflow.sites.directory import Sites
    from callflow.sites.site import Site


class SiteNotChosen(CallflowError):
    """It is not clear whose people are to be rung."""

    def __init__(self, reason: str, known: list[str]) -> None:
        self.known = known
        listed = ", ".join(known) if known else "none"
        super().__init__(f"{reason}; name one with --site: {listed}")


def fallback(
    site: Annotated[
        str | None, typer.Option("--site", metavar="ID", help="Whose people are rung.")
    ] = None,
    sites: Annotated[
        Path | None,
        typer.Option("--sites", metavar="FILE", help="The sites; default: CALLFLOW_SITES."),
    ] = None,
) -> None:
    """Print the TwiML to host at the carrier: it rings a site's people without any help of ours."""
    from callflow import bootstrap
    from callflow.sites.directory import Sites
    from callflow.twilio.fallback import document

    path = sites or bootstrap.settings().sites
    if path is None:
        raise SettingsError(
            "CALLFLOW_SITES", "not set: name the file of your sites there, or with --sites FILE"
        )
    chosen = _chosen(Sites.load(path), site)
    ladder = [(human.number, human.ring_s) for human in chosen.humans]
    terminal.line(document([chosen.language], ladder, chosen.number_to_show))
    terminal.note(f"for site {chosen.id}; host it at the carrier, then `callflow twilio setup`")


def _chosen(known: Sites, wanted: str | None) -> Site:
    every = {each.id: each for each in known}
    if wanted is not None:
        if wanted not in every:
            raise SiteNotChosen(f"there is no site {wanted!r}", list(every))
        return every[wanted]
    if len(every) != 1:
        raise SiteNotChosen(f"there are {len(every)} sites", list(every))
    return next(iter(every.values()))
