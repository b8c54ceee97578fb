"""`callflow sop new`: begin a procedure, from a template or from the one that callflow brings."""

from __future__ import annotations

import json
import re
import time
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from callflow.cli import terminal
from callflow.errors import CallflowError

_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")
_MOST_TITLE_CHARS = 200


class ProcedureNotWritten(CallflowError):
    """A file that was to be written and was not; what is there was left as it was."""

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        super().__init__(f"{path}: {reason}")


def _scenario(given: str) -> str:
    # readme.md is a note to people in every folder, and no procedure.
    if not _ID.fullmatch(given) or given == "readme":
        raise typer.BadParameter(
            f"{terminal.plain(given)!r} is no id of a scenario: write lower-case letters, digits "
            "and _, such as power_failure"
        )
    return given


def _title(given: str | None) -> str | None:
    if given is None:
        return None
    if not given.strip() or len(given) > _MOST_TITLE_CHARS or terminal.plain(given) != given:
        raise typer.BadParameter(f"write one line of at most {_MOST_TITLE_CHARS} characters")
    return given.strip()


def new(
    scenario: Annotated[
        str,
        typer.Argument(metavar="ID", callback=_scenario, help="The scenario: gas_leak."),
    ],
    folder: Annotated[Path, typer.Option("--dir", help="Where to write ID.md.")] = Path(),
    title: Annotated[
        str | None, typer.Option(callback=_title, help="What it is called, in one line.")
    ] = None,
) -> None:
    """Begin a procedure: a template to be filled, or a copy of the one that callflow brings.

    The path comes on stdout. No file is ever replaced.
    """
    from callflow.procedures.library import SopLibrary

    shipped = SopLibrary.load().documents.get(scenario)
    path = folder / f"{scenario}.md"
    if shipped is None:
        text = _template(scenario, title or scenario.replace("_", " ").capitalize())
    else:
        text = _copy(shipped.path, title)
    _write(path, text)
    terminal.print_line(str(path))
    if shipped is None:
        terminal.print_note(
            "1. Fill every empty bullet, in each language; remove languages you do not speak.\n"
            "   Under ### Callers write how callers put it: the more ways, the surer it is found.\n"
            f"2. callflow sop check {folder}    refuses the folder until nothing is left empty\n"
            f'3. callflow sop test "what the caller says" --dir {folder}\n'
            "4. CALLFLOW_SOP_DIR names the folder that workers answer from. Fill a procedure\n"
            "   elsewhere before it goes there."
        )
    else:
        terminal.print_note(
            f"{scenario} is one that callflow brings: this is a copy, and takes its place where\n"
            "CALLFLOW_SOP_DIR names this folder. Change its version together with its text."
        )


def _template(scenario: str, title: str) -> str:
    text = files("callflow.cli").joinpath("sop_template.md").read_text(encoding="utf-8")
    return (
        text.replace("{id}", scenario)
        .replace("{title}", json.dumps(title, ensure_ascii=False))
        .replace("{version}", time.strftime("%Y-%m-%d"))
    )


def _copy(path: Path, title: str | None) -> str:
    text = path.read_text(encoding="utf-8")
    if title is None:
        return text
    line = f"title: {json.dumps(title, ensure_ascii=False)}"
    return re.sub(r"^title:.*$", lambda _: line, text, count=1, flags=re.MULTILINE)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        if path.parent.is_dir():
            reason = "is there already and was left as it is; edit it, or choose another ID"
        else:
            reason = f"{path.parent} is no folder; name another with --dir"
        raise ProcedureNotWritten(path, reason) from error
    except OSError as error:
        reason = f"cannot be written ({error.strerror}); name another folder with --dir"
        raise ProcedureNotWritten(path, reason) from error
