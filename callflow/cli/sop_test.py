"""`callflow sop test`: what one utterance would lead to, and what the caller would hear."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from callflow.cli import terminal

if TYPE_CHECKING:
    from callflow.lab.evaluation.rehearsal import Turn
    from callflow.retrieval.engine import Hit

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
    from callflow.lab.evaluation.rehearsal import CALL_SID, Sources, assemble, nearest, rehearse

    parts = assemble(Sources.read(folder), retrieval)
    said = [clean(CALL_SID, words) for words in (*(after or ()), utterance)]
    turn = rehearse(said, language, parts.understanding, parts.responder)[-1]
    told = as_dict(turn, nearest(turn, parts.engine), parts.engine.urgencies)
    if as_json:
        terminal.print_line(json.dumps(told))
    else:
        _show(told)


def as_dict(turn: Turn, hits: Sequence[Hit], urgencies: Mapping[str, str]) -> dict[str, Any]:
    """Return what came of a turn, for programs. Field names are a promise."""
    record, signs = turn.record, turn.signs
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
        "needs_human": turn.pieces[-1].needs_human,
        "reply": turn.reply,
    }


def _show(told: Mapping[str, Any]) -> None:
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=9, style="bold")
    grid.add_column()
    for name, words in _rows(told):
        grid.add_row(name, terminal.text(words))
    terminal.print_page(grid)


def _rows(told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    from callflow.call.urgency import MEANINGS

    urgency = told["urgency"]
    yield "scenario", told["scenario"] or "unknown: the reply asks"
    if others := [name for name in told["open_scenarios"] if name != told["scenario"]]:
        yield "also open", terminal.sentence(others)
    likely = [each for each in told["likely"] if each["probability"] >= _WORTH_SHOWING]
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
        f"{terminal.sentence(told['dangers']) or 'none heard'}"
        f" · life at risk {told['danger_probability']:.0%}",
    )
    if told["all_clear"]:
        yield "all clear", "said: everybody is out, or nothing was the matter"
    yield "facts", terminal.sentence(_fact(*each) for each in told["facts"].items()) or "none"
    yield "language", told["language"]
    for index, each in enumerate(told["chunks"]):
        yield "" if index else "chunks", f"{each['score']:7.3f}  {each['id']}"
    if told["needs_human"]:
        yield "human", told["needs_human"]
    yield "reply", told["reply"] or "(silence: a machine called)"


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {', '.join(value) if isinstance(value, list | tuple) else value}"
