"""`callflow call`: be the caller, in a terminal or through a pipe."""

from __future__ import annotations

import os
import re
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import deployment, terminal

if TYPE_CHECKING:
    from callflow.cli.voice import Voice

_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(-[A-Za-z0-9]{1,8})*", re.ASCII)


def _language(given: str) -> str:
    if not _LANGUAGE.fullmatch(given):
        raise typer.BadParameter(f"{terminal.plain(given)!r} is no language: write en, de or en-GB")
    return given


def call(
    site: Annotated[str | None, typer.Option(help="Which lift calls.")] = None,
    language: Annotated[
        str, typer.Option(callback=_language, help="What the caller speaks: en, de, …")
    ] = "en",
    call_sid: Annotated[
        str | None,
        typer.Option(metavar="CALLSID", help="Go on with this call, or give a new one its name."),
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the call open at the end of input.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON line for each event.")
    ] = False,
) -> None:
    """Call in and talk: each line is one utterance, an empty one is silence, Ctrl-D hangs up.

    Ctrl-C leaves the call open. Through a pipe replies come on stdout, all else on stderr. Where no
    server is found a local stack is started for as long as the call lasts.
    """
    from callflow.cli.voice import JsonVoice, TextVoice

    sid = call_sid if call_sid is not None else f"CA{os.urandom(16).hex()}"
    _check(sid)
    voice: Voice = JsonVoice() if as_json else TextVoice()
    with ExitStack() as running:
        url, ours = _server(voice, running)
        _talk(voice, sid, url, site=site, language=language, keep=keep, lasting=not ours)


def _check(call_sid: str) -> None:
    """Raise InvalidCallSid now: nothing has to be started to find that out."""
    from callflow.store.keys import call_keys

    call_keys(call_sid)


def _server(voice: Voice, running: ExitStack) -> tuple[str, bool]:
    """The URL of the server that holds the calls, and True when it was started for this call."""
    from callflow import bootstrap
    from callflow.health.server import refuse_unfit

    url = deployment.find()
    if url is not None:
        refuse_unfit(bootstrap.client())
        if not bootstrap.leases().present_now():
            voice.note("no worker is at work there: replies come once one is started")
        return url, False
    from callflow.cli.local import Local, Size

    bootstrap.library()  # Workers would not start with a bad procedure, and say so in a log.
    voice.note("no server is configured or running here: starting a local stack for this call …")
    local = Local(None, Size(workers=1, slots=2, pool="threads"), threading.Event(), running)
    url = local.start_server()
    local.start_processes()
    if not local.wait_until_at_work(voice.note):
        voice.note(f"the local stack is slow: what it says is in {local.log_dir}")
    return url, True


def _talk(
    voice: Voice,
    sid: str,
    url: str,
    *,
    site: str | None,
    language: str,
    keep: bool,
    lasting: bool,
) -> None:
    from callflow.cli.conversation import Conversation
    from callflow.errors import CallflowError

    conversation = Conversation(sid, url, voice)
    way_back = f"the call stays open: callflow call --call-sid {sid}"
    try:
        if conversation.begin(site=site, language=language):
            conversation.talk()
            if keep:
                voice.note(way_back)
            else:
                conversation.hang_up()
    except (CallflowError, KeyboardInterrupt):
        if lasting and conversation.open:
            voice.note(way_back)
        raise
