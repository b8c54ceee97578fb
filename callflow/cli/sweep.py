"""`callflow sweep`: one round of the watchdog by hand."""

from __future__ import annotations

import json
from dataclasses import asdict

from callflow.cli import deployment, terminal


def sweep(as_json: terminal.AsJson = False) -> None:
    """Sweep once: give the calls of dead or silent workers to living ones."""
    from callflow import bootstrap

    deployment.need()
    done = bootstrap.watchdog().sweep(by="operator")
    if as_json:
        terminal.line(json.dumps(asdict(done)))
        return
    passed = terminal.sentence(
        (
            f"{done.to_worker} to a worker" if done.to_worker else "",
            f"{done.to_human} to a human" if done.to_human else "",
        )
    )
    terminal.line(f"taken back   {done.reclaimed}" + (f"  ({passed})" if passed else ""))
    terminal.line(f"woken again  {done.woken}")
    terminal.line(f"abandoned    {done.abandoned}")
