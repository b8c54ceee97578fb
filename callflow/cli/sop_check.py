"""`callflow sop check`: say what is wrong in a folder of procedures before it meets a caller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from callflow.cli import terminal


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The operator's procedures.")],
    as_json: terminal.AsJson = False,
) -> None:
    """Check a folder of procedures; each problem on its own line, as path:line: reason."""
    from callflow.procedures import library

    problems = library.check(folder)
    if as_json:
        terminal.print_line(
            json.dumps(
                {
                    "ok": not problems,
                    "problems": [
                        {"path": str(each.path), "line": each.line, "reason": each.reason}
                        for each in problems
                    ],
                }
            )
        )
    elif problems:
        for each in problems:
            terminal.print_line(str(each))
        terminal.print_note(
            f"{terminal.counted(len(problems), 'problem')}: this folder would not be loaded"
        )
    else:
        # What workers will answer from: the operator's documents and the shipped ones.
        known = len(library.SopLibrary.load(folder).documents)
        terminal.print_line(
            f"{folder}: all right, {terminal.counted(known, 'scenario')} with those shipped"
        )
    if problems:
        raise typer.Exit(1)
