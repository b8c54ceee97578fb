"""Where errors leave the program: one clear sentence, no traceback, an exit code for scripts."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from callflow.errors import CallflowError

FAILED = 1
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C has ended."""


class PlainErrors(TyperGroup):
    """Runs a command; errors that callflow raises on purpose become a sentence and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except CallflowError as error:
            typer.echo(f"callflow: {error}", err=True)
            raise typer.Exit(FAILED) from error
        except KeyboardInterrupt as interrupt:
            raise typer.Exit(INTERRUPTED) from interrupt
        except BrokenPipeError as error:
            # `callflow calls ls | head`: whoever read us has seen enough. What is still buffered
            # must not raise again when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(FAILED) from error
