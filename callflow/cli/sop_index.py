"""`callflow sop index`: build what finds procedures by meaning before the first worker needs it."""

from __future__ import annotations

import json
import time

import typer

from callflow.cli import terminal


def index(as_json: terminal.AsJson = False) -> None:
    """Build this machine's index of the procedures now; a worker that finds none builds it when it
    starts. Built already, nothing is done. For images and for machines that are being set up."""
    from callflow import bootstrap

    retrieval = bootstrap.retrieval()
    if retrieval == "lexical":
        terminal.print_note(
            "procedures are found by their words here, which needs no index; to find them by "
            "meaning: pip install 'callflow[semantic]', and do not set CALLFLOW_RETRIEVAL=lexical"
        )
        raise typer.Exit(1)
    began = time.monotonic()
    bootstrap.prepare()
    took_s = round(time.monotonic() - began, 1)
    folder, scenarios = bootstrap.index_dir(), len(bootstrap.library().documents)
    if as_json:
        told = {"folder": str(folder), "scenarios": scenarios, "took_s": took_s}
        terminal.print_line(json.dumps(told))
        return
    terminal.print_line(
        f"{folder}: {terminal.counted(scenarios, 'scenario')}, ready after {took_s} s"
    )
