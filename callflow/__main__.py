"""`callflow` on the command line, and `python -m callflow`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from callflow.cli import app


def main() -> None:
    """Run the command line; ends the process with 0, 1 (it went wrong) or 2 (it was misused)."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            # Closed by whoever started us: nobody listens, and the call goes on all the same.
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # A terminal that cannot show a letter, or sends half of one, must not end a call.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()


if __name__ == "__main__":
    main()
