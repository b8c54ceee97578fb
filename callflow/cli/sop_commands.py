"""`callflow sop new | check | test | index`: write procedures, and see what they lead to."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from callflow.cli import terminal
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from callflow.lab.evaluation.rehearsal import Turn
    from callflow.retrieval.engine import Hit

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


def check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The operator's procedures.")],
    as_json: terminal.AsJson = False,
) -> None:
    """Check a folder of procedures; each problem on its own line, as path:line: reason."""
    from callflow.procedures import library

    problems = library.check(folder)
    # What workers will answer from: the operator's documents and the shipped ones.
    loaded = library.SopLibrary() if problems else library.SopLibrary.load(folder)
    notes = library.notes(loaded)
    if as_json:
        terminal.print_line(
            json.dumps(
                {
                    "ok": not problems,
                    "problems": [
                        {"path": str(each.path), "line": each.line, "reason": each.reason}
                        for each in problems
                    ],
                    "notes": notes,
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
        known = terminal.counted(len(loaded.documents), "scenario")
        terminal.print_line(f"{folder}: all right, {known} with those shipped")
        for note in notes:
            terminal.print_note(note)
    if problems:
        raise typer.Exit(1)


LIKELY = 5
"""So many scenarios are shown: what comes after them decides nothing."""

_WORTH_SHOWING = 0.005
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", re.ASCII)


def _language(given: str) -> str:
    if not _LANGUAGE.fullmatch(given):
        raise typer.BadParameter(f"{terminal.plain(given)!r} is no language: write en, es or zh-CN")
    return given


def try_out(
    utterance: Annotated[str, typer.Argument(metavar="WORDS", help="What the caller says.")],
    language: Annotated[
        str, typer.Option(callback=_language, help="What the call is held in: en, zh, es, …")
    ] = "en",
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="The operator's procedures; CALLFLOW_SOP_DIR if left out."),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(metavar="WORDS", help="What the caller said before; may be repeated."),
    ] = None,
    retrieval: Annotated[
        Literal["lexical", "semantic"] | None,
        typer.Option(help="How meaning is found; as in CALLFLOW_RETRIEVAL if left out."),
    ] = None,
    as_json: terminal.AsJson = False,
) -> None:
    """Try the procedures: which one these words find, how urgent they are, and the reply.

    Nobody is called and nothing is stored; the reply is that of the script, without a model.
    """
    from callflow.call.utterance import clean
    from callflow.lab.evaluation.rehearsal import (
        CALL_SID,
        Sources,
        assemble,
        nearest,
        open_call,
        rehearse,
    )

    parts = assemble(Sources.read(folder), retrieval)
    said = [clean(CALL_SID, words) for words in (*(after or ()), utterance)]
    turn = rehearse(said, open_call(language), parts.understanding, parts.responder)[-1]
    found = as_dict(turn, nearest(turn, parts.engine), parts.engine.urgencies)
    if as_json:
        terminal.print_line(json.dumps(found))
    else:
        _print_turn(found)


def as_dict(turn: Turn, hits: Sequence[Hit], urgencies: Mapping[str, str]) -> dict[str, Any]:
    """Return what came of a turn, for programs. Field names are a promise."""
    from callflow.language.requests import asks_for_human

    record, signs = turn.record, turn.signs
    said = record.said(record.heard, "caller") or ""
    return {
        "turn": record.heard,
        "language": record.language,
        "scenario": record.scenario_type,
        "open_scenarios": list(record.open_scenarios),
        "urgency": record.urgency,
        "likely": [
            {"scenario": name, "urgency": urgencies.get(name), "probability": round(value, 4)}
            for name, value in signs.scored.likely[:LIKELY]
        ],
        "danger_probability": round(signs.scored.danger, 4),
        "dangers": sorted(signs.dangers),
        "facts": dict(record.facts),
        "chunks": [
            {
                "id": hit.chunk_id,
                "scenario": hit.scenario,
                "section": hit.section,
                "score": round(hit.score, 4),
            }
            for hit in hits
        ],
        "all_clear": signs.released,
        "needs_human": turn.pieces[-1].needs_human
        or ("the caller asks for a person" if asks_for_human(said) else None),
        "reply": turn.reply,
    }


def _print_turn(found: Mapping[str, Any]) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=9, style="bold")
    grid.add_column()
    for name, words in _rows(found):
        grid.add_row(name, terminal.text(words))
    terminal.print_page(grid)


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from callflow.call.urgency import MEANINGS

    urgency = found["urgency"]
    yield "scenario", found["scenario"] or "unknown: the reply asks"
    if others := [name for name in found["open_scenarios"] if name != found["scenario"]]:
        yield "also open", terminal.sentence(others)
    likely = [each for each in found["likely"] if each["probability"] >= _WORTH_SHOWING]
    yield (
        "likely",
        terminal.sentence(
            f"{each['scenario']} {each['urgency']} {each['probability']:.0%}" for each in likely
        )
        or "nothing",
    )
    yield "urgency", f"{urgency}, {MEANINGS[urgency]}" if urgency else "unknown"
    yield (
        "danger",
        f"{terminal.sentence(found['dangers']) or 'none heard'}"
        f" · life at risk {found['danger_probability']:.0%}",
    )
    if found["all_clear"]:
        yield "all clear", "said: everybody is out, or nothing was the matter"
    yield "facts", terminal.sentence(_fact(*each) for each in found["facts"].items()) or "none"
    yield "language", found["language"]
    for index, each in enumerate(found["chunks"]):
        yield "" if index else "chunks", f"{each['score']:7.3f}  {each['id']}"
    if found["needs_human"]:
        yield "human", found["needs_human"]
    yield "reply", found["reply"] or "(silence: a machine called)"


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {', '.join(value) if isinstance(value, list | tuple) else value}"


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
        found = {"folder": str(folder), "scenarios": scenarios, "took_s": took_s}
        terminal.print_line(json.dumps(found))
        return
    terminal.print_line(
        f"{folder}: {terminal.counted(scenarios, 'scenario')}, ready after {took_s} s"
    )
