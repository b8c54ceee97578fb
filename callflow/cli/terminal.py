"""Writes to the terminal for all commands: tables, times, safe text, errors as one sentence.

Rich leaves colour and boxes out where stdout is no terminal, and honours NO_COLOR. What callers
said is never read as markup.
"""

from __future__ import annotations

import os
import sys
import time
import unicodedata
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer
from typer.core import TyperGroup

from callflow.errors import CallflowError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from callflow.call.record import CallRecord

AsJson = Annotated[bool, typer.Option("--json", help="For programs: JSON on stdout.")]

SPEAKER_STYLES = {"caller": "bold cyan", "agent": "green", "human": "magenta"}

FAILED = 1
INTERRUPTED = 130
"""What a shell reports for a program that Ctrl-C has ended."""

WIDE = 240
"""Columns of a page that nobody looks at: programs that read us must not find cut lines."""

_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_JOINERS = "\u200d\ufe0f"  # They hold emoji together, and move nothing.


def console(file: TextIO | None = None) -> Console:
    """A console on stdout, or on `file`."""
    from rich.console import Console

    file = file or sys.stdout
    made = Console(file=file, highlight=False, markup=False, emoji=False)
    return made if made.is_terminal else Console(
        file=file, highlight=False, markup=False, emoji=False, width=WIDE
    )  # fmt: skip


def print_page(*parts: RenderableType) -> None:
    """Tables and texts under one another on stdout; for programs without spaces at line ends."""
    out = console()
    if out.is_terminal:
        out.print(*parts, sep="\n")
        return
    with out.capture() as captured:
        out.print(*parts, sep="\n")
    for each in captured.get().splitlines():
        print_line(each.rstrip())


def table(*columns: str, numbers: Collection[str] = ()) -> Table:
    """An empty table of the one look that all our tables have. The last column gives way where
    there is little room; `numbers` are those to be aligned to the right."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
    made.expand = True
    for column in columns[:-1]:
        made.add_column(column, no_wrap=True, justify="right" if column in numbers else "left")
    made.add_column(columns[-1], no_wrap=True, overflow="ellipsis", ratio=1, min_width=16)
    return made


def text(words: str, style: str = "") -> Text:
    """A cell or a phrase that is shown as it is."""
    from rich.text import Text

    return Text(plain(words), style)


def print_line(words: str) -> None:
    """One line of output, as it is."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def print_note(words: str) -> None:
    """One line for the person beside the machine output: on stderr, dim on a terminal."""
    console(sys.stderr).print(words, style="dim", soft_wrap=True)


def plain(words: str) -> str:
    """`words` without what could move a cursor, hide words or turn their order around."""
    return "".join(
        "\ufffd" if unicodedata.category(char) in _INVISIBLE and char not in _JOINERS else char
        for char in words
    )


def span(ms: int) -> str:
    """A length of time as people say it: `0.4 s`, `12 s`, `3 min`, `2 h`."""
    seconds = max(0, ms) / 1000
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def clock(at_ms: int) -> str:
    """A moment as the clock on this machine's wall shows it, with its date unless it is today's."""
    then = time.localtime(at_ms / 1000)
    today = then[:3] == time.localtime()[:3]
    return time.strftime("%H:%M:%S" if today else "%Y-%m-%d %H:%M:%S", then)


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def sentence(parts: Iterable[str]) -> str:
    """Those parts that say something, in a row."""
    return " · ".join(part for part in parts if part)


class PlainErrors(TyperGroup):
    """Runs a command; errors that callflow raises on purpose become a sentence and exit code 1."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
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


def render_transcript(record: CallRecord) -> Table:
    """All that was said, with the times at which it was stored, and a reply still being spoken."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    for entry in record.conversation_thread:
        grid.add_row(
            text(clock(entry.at), "dim"),
            text(entry.role, SPEAKER_STYLES[entry.role]),
            text(entry.text) if entry.text else text("(silence)", "dim"),
        )
    if record.draft is not None and record.draft.turn > record.answered:
        said = text(record.draft.text)
        said.append(" … being said", "dim")
        agent = text("agent", SPEAKER_STYLES["agent"])
        grid.add_row(text("now", "dim"), agent, said)
    return grid
