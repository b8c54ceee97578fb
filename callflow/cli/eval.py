"""`callflow eval`: labelled utterances through what answers callers, and what came of it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from callflow.cli import terminal
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from rich.table import Table

    from callflow.lab.evaluation.scoring import Bound, Evaluation

UNUSABLE = 2
"""Nothing was measured: 1 is kept for numbers that are out of bounds."""

_COLUMNS = {
    "scenario_accuracy": "scenario",
    "call_accuracy": "worked on",
    "danger_recall": "danger heard",
    "danger_false_alarms": "false alarms",
    "recall_at_1": "recall@1",
    "recall_at_3": "recall@3",
    "mrr": "MRR",
}


def evaluate(
    given: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Labelled utterances; - reads stdin."),
    ] = None,
    chunks: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Retrieve from these chunks, not ours …")
    ] = None,
    examples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="… which callers ask for like this.")
    ] = None,
    retrieval: Annotated[
        Literal["lexical", "semantic"] | None,
        typer.Option(help="How meaning is found; as in CALLFLOW_RETRIEVAL if left out."),
    ] = None,
    sop_dir: Annotated[
        Path | None, typer.Option(help="The operator's procedures; CALLFLOW_SOP_DIR if left out.")
    ] = None,
    guard: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labelled sentences for the guard, too.")
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Exit 1 if the number is below; may be repeated."),
    ] = None,
    ceiling: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Exit 1 if the number is above; may be repeated."),
    ] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Show what was answered wrongly.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="For programs: one object on the last line of stdout.")
    ] = False,
) -> None:
    """Measure how well callers are understood, on labelled utterances: those that callflow brings,
    unless files are named.

    Bounds hold any number of the report: scenario_accuracy, zh.recall_at_3, latency_ms.p50,
    guard.false_catches … Ends with 1 when one is broken, with 2 when nothing could be measured.
    """
    if [str(path) for path in (*(given or ()), guard)].count("-") > 1:
        raise typer.BadParameter("stdin can be read only once: give - only once")
    other_set = _require_both(chunks, examples)
    from callflow.lab.evaluation.scoring import as_dict

    try:
        bounds = _parse_bounds(floor or (), ceiling or ())
        result = _measure(given, other_set, retrieval, sop_dir, guard)
        report = as_dict(result, wrong=wrong)
        broken = [told for bound in bounds if (told := bound.missed(report)) is not None]
    except CallflowError as error:
        typer.echo(f"callflow: {terminal.plain(str(error))}", err=True)
        raise typer.Exit(UNUSABLE) from error
    if as_json:
        terminal.print_line(json.dumps(report))
    else:
        _print_report(report, result, wrong=wrong)
    _fail_if(broken)


def _fail_if(broken: list[str]) -> None:
    for sentence in broken:
        typer.echo(f"callflow: {sentence}", err=True)
    if broken:
        raise typer.Exit(1)


def _require_both(chunks: Path | None, examples: Path | None) -> tuple[Path, Path] | None:
    if chunks is None and examples is None:
        return None
    if chunks is None or examples is None:
        raise typer.BadParameter("--chunks and --examples belong together: give both or none")
    return chunks, examples


def _parse_bounds(floors: Iterable[str], ceilings: Iterable[str]) -> list[Bound]:
    from callflow.lab.evaluation.scoring import Bound

    return [
        *(Bound.of("floor", given) for given in floors),
        *(Bound.of("ceiling", given) for given in ceilings),
    ]


def _measure(
    given: list[Path] | None,
    other_set: tuple[Path, Path] | None,
    retrieval: Literal["lexical", "semantic"] | None,
    sop_dir: Path | None,
    guard: Path | None,
) -> Evaluation:
    from callflow.lab.evaluation.dataset import read, shipped
    from callflow.lab.evaluation.evaluate import evaluate, read_sentences
    from callflow.lab.evaluation.rehearsal import Sources, assemble

    procedures = Sources.read(sop_dir, other_set)
    known = procedures.words()
    files = given or shipped()
    labelled = [each for path in files for each in read(path, sys.stdin.buffer, known)]
    sentences = [] if guard is None else read_sentences(guard, sys.stdin.buffer, known)
    return evaluate(labelled, assemble(procedures, retrieval), sentences)


def _print_report(report: Mapping[str, Any], result: Evaluation, *, wrong: bool) -> None:
    terminal.print_page(_score_table(report))
    terminal.print_line("")
    for sentence in _summarize(report):
        terminal.print_line(sentence)
    if report["confusions"]:
        terminal.print_line("")
        terminal.print_page(_confusion_table(report["confusions"]))
    if wrong and report["wrong"]:
        terminal.print_line("")
        terminal.print_page(_mistake_table(report["wrong"]))
    mistakes = (*result.guard.mistakes, *result.replies.caught) if wrong else ()
    for each in mistakes:
        told = f"caught by the rule {each.rule!r}" if each.rule else "not caught"
        terminal.print_line(
            terminal.plain(f"{each.where} ({each.language}) {told}: {each.sentence}")
        )


def _score_table(report: Mapping[str, Any]) -> Table:
    table = terminal.table("", "n", *_COLUMNS.values(), "", numbers=("n", *_COLUMNS.values()))
    for name, row in (("all", report), *report["per_language"].items()):
        cells = (
            _format_percent(row[key]) if key != "mrr" else _format_number(row[key])
            for key in _COLUMNS
        )
        table.add_row(name, str(row["n"]), *cells, "")
    return table


def _summarize(report: Mapping[str, Any]) -> Iterator[str]:
    times, guard, replies = report["latency_ms"], report["guard"], report["replies"]
    yield "classify + retrieve  " + terminal.sentence(
        f"{name} {_format_number(value)} ms" for name, value in times.items()
    )
    yield "replies              " + terminal.sentence(
        (
            f"{replies['n']} with {terminal.counted(replies['sentences'], 'sentence')}",
            f"{report['unknown']} to callers of whom nothing is known yet",
            f"{replies['empty_replies']} empty",
            f"{replies['caught_in_replies']} caught by the guard",
        )
    )
    yield "guard                " + terminal.sentence(
        (
            f"{guard['false_catches']} of {guard['own_sentences']} own sentences caught",
            f"{guard['waiting_caught']} of {guard['waiting_sentences']} caught before their fact",
            f"{guard['caught']} of {guard['forbidden']} forbidden caught"
            if guard["forbidden"]
            else "",
            f"{guard['harmless_caught']} of {guard['harmless']} harmless caught"
            if guard["harmless"]
            else "",
        )
    )


def _confusion_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = terminal.table("label", "n", "right", "taken for", numbers=("n", "right"))
    for row in rows:
        taken = ", ".join(
            f"{each['scenario'] or 'nothing'} {each['n']}×" for each in row["taken_for"]
        )
        table.add_row(
            terminal.text(row["label"]), str(row["n"]), str(row["right"]), terminal.text(taken)
        )
    return table


def _mistake_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = terminal.table("id", "label", "taken for", "", "danger", "what was said", numbers=("",))
    for row in rows:
        table.add_row(
            terminal.text(f"{row['id']} {row['lang']}"),
            terminal.text(row["label"]),
            terminal.text(row["scenario"] or "nothing"),
            _format_percent(row["probability"]),
            terminal.text(row["danger"] or "", "bold red"),
            terminal.text(row["utterance"]),
        )
    return table


def _format_percent(value: float | None) -> str:
    return "—" if value is None else f"{value * 100:.1f} %"


def _format_number(value: float | None) -> str:
    return "—" if value is None else f"{value:.3g}"
