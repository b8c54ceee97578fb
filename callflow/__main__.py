"""`callflow` on the command line, and `python -m callflow`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from callflow.errors import CallflowError


def main() -> None:
    """Run the command line; ends the process with 0, 1 (it went wrong) or 2 (it was misused)."""
    store = os.environ.get("CALLFLOW_REDIS_URL")
    if (
        sys.argv[1:3] == ["doctor", "--node"]
        and len(sys.argv) == 4
        and store
        and sys.argv[3].strip()
    ):
        sys.exit(_health(sys.argv[3], store))

    from callflow import logs
    from callflow.cli import app

    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell has its background jobs ignore Ctrl-C (`callflow up &`, CI), and all that they
        # start: whoever sends it to us all the same wants us to end.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever started us: nobody listens, and the call goes on all the same.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A terminal that cannot show a letter, or sends half of one, must not end a call.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    # A command that needs the settings refuses what is none of them.
    form, level = (os.environ.get(f"CALLFLOW_LOG_{name}") for name in ("FORMAT", "LEVEL"))
    logs.configure("json" if form == "json" else "text", level if level in logs.LEVELS else None)
    app()


def _health(node: str, store_url: str) -> int:
    """`callflow doctor --node NAME`, which every container asks every few seconds: without the
    command line and the settings, whose import costs as much CPU again."""
    from callflow.health.node_check import check_node
    from callflow.redis.url import BROKER_SERVICE

    broker_url = os.environ.get("CALLFLOW_BROKER_URL") or store_url
    service = os.environ.get("CALLFLOW_BROKER_SERVICE") or BROKER_SERVICE
    try:
        well, told = check_node(node, store_url, broker_url, service)
    except CallflowError as error:
        well, told = False, f"callflow: {error}"
    print(told)
    return 0 if well else 1


if __name__ == "__main__":
    main()
