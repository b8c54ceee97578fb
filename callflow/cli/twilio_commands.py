"""`callflow twilio`: the settings of a number at Twilio, and its fallback document."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import terminal
from callflow.errors import CallflowError, SettingsError

if TYPE_CHECKING:
    from callflow.sites.directory import Sites
    from callflow.sites.site import Site
    from callflow.twilio.rest import HeldNumber, Numbers, NumberSettings


class SiteNotChosen(CallflowError):
    """It is not clear whose people are to be rung."""

    def __init__(self, reason: str, known: list[str]) -> None:
        self.known = known
        listed = ", ".join(known) if known else "none"
        super().__init__(f"{reason}; name one with --site: {listed}")


def setup(
    number: Annotated[
        str, typer.Option("--number", metavar="+44…", help="The number that lifts call.")
    ],
    fallback_url: Annotated[
        str | None,
        typer.Option(
            "--fallback-url", metavar="URL", help="Where the carrier keeps the fallback document."
        ),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Set it at Twilio.")] = False,
    as_json: terminal.AsJson = False,
) -> None:
    """Print a number's settings, and what differs at Twilio; with --apply, set it there."""
    from callflow import bootstrap
    from callflow.twilio.phone_numbers import e164
    from callflow.twilio.rest import TelephoneError, wanted_settings

    e164(number)
    public_url = bootstrap.settings().public_url
    if public_url is None:
        raise SettingsError(
            "CALLFLOW_PUBLIC_URL", "not set: Twilio must know where to reach us (https://…)"
        )
    settings = wanted_settings(public_url, fallback_url)
    numbers = _numbers(needed=apply)
    held: HeldNumber | None = None
    if numbers is not None:
        try:
            held = numbers.read(number)
        except TelephoneError as error:
            if apply:
                raise
            terminal.print_note(f"what is set now cannot be told: {error}")
    changes = settings.other_than(held.settings) if held is not None else {}
    if apply and numbers is not None and held is not None:
        changes = numbers.change(held, settings)
    if as_json:
        _print_json(number, settings, held, changes, apply)
    else:
        _print(settings, held, changes, apply)
    if fallback_url is None:
        terminal.print_note(
            "the fallback address is our own: when all of ours is gone, so is it. Host what "
            "`callflow twilio fallback` prints at the carrier, and give it with --fallback-url"
        )


def _numbers(*, needed: bool) -> Numbers | None:
    from callflow import bootstrap
    from callflow.twilio.rest import Numbers

    known = bootstrap.settings()
    if known.twilio_account_sid is None or known.twilio_auth_token is None:
        if needed:
            raise SettingsError(
                "CALLFLOW_TWILIO_ACCOUNT_SID",
                "not set, or CALLFLOW_TWILIO_AUTH_TOKEN is not: --apply needs both",
            )
        return None
    return Numbers(
        known.twilio_account_sid, known.twilio_auth_token.get_secret_value(), known.twilio_api_url
    )


def _print(
    settings: NumberSettings, held: HeldNumber | None, changes: dict[str, str], applied: bool
) -> None:
    before = asdict(held.settings) if held is not None else {}
    for name, value in asdict(settings).items():
        if value or name in changes:
            terminal.print_line(f"{name:<24}{value or '(none)'}")
        if name in changes:
            word = "was" if applied else "now"
            terminal.print_line(terminal.plain(f"{'':<16}{word:>6}  {before[name] or '(none)'}"))
    if held is None:
        terminal.print_note("set these for the number at Twilio, or let --apply do it")
    elif not changes:
        terminal.print_note("this is how it is set at Twilio")
    elif applied:
        terminal.print_note(f"changed at Twilio: {', '.join(changes)}")
    else:
        terminal.print_note(
            f"{terminal.counted(len(changes), 'setting')} to change; --apply does it"
        )


def _print_json(
    number: str,
    settings: NumberSettings,
    held: HeldNumber | None,
    changes: dict[str, str],
    applied: bool,
) -> None:
    terminal.print_line(
        json.dumps(
            {
                "number": number,
                "wanted": asdict(settings),
                "present": None if held is None else asdict(held.settings),
                "different": list(changes),
                "applied": applied,
            }
        )
    )


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
    from callflow.twilio.twiml import document

    path = sites or bootstrap.settings().sites
    if path is None:
        raise SettingsError(
            "CALLFLOW_SITES", "not set: name the file of your sites there, or with --sites FILE"
        )
    chosen = choose_site(Sites.load(path), site)
    ladder = [(human.number, human.ring_s) for human in chosen.humans]
    terminal.print_line(document([chosen.language], ladder, chosen.number_to_show))
    terminal.print_note(
        f"for site {chosen.id}; host it at the carrier, then `callflow twilio setup`"
    )


def choose_site(known: Sites, wanted: str | None) -> Site:
    """The site with the id `wanted`, or the only one. Raises SiteNotChosen."""
    every = {each.id: each for each in known}
    if wanted is not None:
        if wanted not in every:
            raise SiteNotChosen(f"there is no site {wanted!r}", list(every))
        return every[wanted]
    if len(every) != 1:
        raise SiteNotChosen(f"there are {len(every)} sites", list(every))
    return next(iter(every.values()))
