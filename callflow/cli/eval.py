"""`callflow eval [calls]`: labelled utterances, or whole calls, through what answers callers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from callflow.cli import terminal
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from rich.table import Table

    from callflow.lab.evaluation.scoring import Bound, Evaluation

Retrieval = Annotated[
    Literal["lexical", "semantic"] | None,
    typer.Option(help="How meaning is found; as in CALLFLOW_RETRIEVAL if left out."),
]
SopDir = Annotated[
    Path | None, typer.Option(help="The operator's procedures; CALLFLOW_SOP_DIR if left out.")
]
Floor = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Exit 1 if the number is below; may be repeated."),
]
Ceiling = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Exit 1 if the number is above; may be repeated."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="For programs: one object on the last line of stdout.")
]

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
    retrieval: Retrieval = None,
    sop_dir: SopDir = None,
    guard: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labelled sentences for the guard, too.")
    ] = None,
    heard: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Score these transcripts of a recogniser instead."),
    ] = None,
    floor: Floor = None,
    ceiling: Ceiling = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="Show what was answered wrongly.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure how well callers are understood, on labelled utterances: those that callflow brings,
    unless files are named. callflow eval calls tries whole calls: see its own --help.

    Bounds hold any number of the report: scenario_accuracy, zh.recall_at_3, latency_ms.p50,
    guard.false_catches … With --heard transcripts are scored by how much of them was misheard, and
    bounds hold up_to_25.danger_recall and the like. Ends with 1 when one is broken, with 2 when
    nothing could be measured.
    """
    if [str(path) for path in (*(given or ()), *(heard or ()), guard)].count("-") > 1:
        raise typer.BadParameter("stdin can be read only once: give - only once")
    other_set = _require_both(chunks, examples)
    from callflow.lab.evaluation.scoring import as_dict

    try:
        bounds = _parse_bounds(floor or (), ceiling or ())
        if heard:
            _evaluate_heard(heard, bounds, retrieval, sop_dir, wrong=wrong, as_json=as_json)
            return
        result = _measure(given, other_set, retrieval, sop_dir, guard)
        report = as_dict(result, wrong=wrong)
        broken = [told for bound in bounds if (told := bound.missed(report)) is not None]
    except CallflowError as error:
        raise _unusable(error) from error
    if as_json:
        terminal.print_line(json.dumps(report))
    else:
        _print_report(report, result, wrong=wrong)
    _fail_if(broken)


def evaluate_calls(
    given: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Whole calls with labels; - reads stdin."),
    ] = None,
    runs: Annotated[
        int,
        typer.Option(
            min=1, max=20, help="How often: first as it stands, then with words misheard."
        ),
    ] = 5,
    retrieval: Retrieval = None,
    sop_dir: SopDir = None,
    floor: Floor = None,
    ceiling: Ceiling = None,
    wrong: Annotated[
        bool, typer.Option("--wrong", help="Show what was said in failed runs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Rehearse whole calls in memory and score them: those that callflow brings, unless files are
    named. Each call is passed or failed as a whole, and in every run or not.

    A FILE is a JSON array of calls, or a call on each line; only id, lang and lines must be there:

      {"id": "a", "lang": "en", "lines": ["we are stuck", {"says": "two of us, how long",
      "asks": ["how_long"], "tells": {"people": 2}, "danger": false, "urgency": "P3",
      "scenario": "entrapment_standard"}], "site": {"lift": "4", "address": "1 High Street"},
      "recorded": {"2": {"dispatch.requested": true}}, "human": 2, "needs": ["place"],
      "never": ["climb"], "ends": {"urgency": "P3", "scenario": "…", "facts": {"people": 2}}}

    danger: false means that neither procedure nor urgency may move; human, the turn by which a
    person must be fetched; needs, what is to be known or asked (place, people, injured); never,
    what no reply may hold. | stands between names of which any is right.

    Bounds hold any number of the report: pass_at_1, pass_all, answered, es.asked_again …
    Ends with 1 when one is broken, with 2 when nothing could be measured.
    """
    if [str(path) for path in given or ()].count("-") > 1:
        raise typer.BadParameter("stdin can be read only once: give - only once")
    from callflow.lab.evaluation.call_scoring import report_calls, try_calls
    from callflow.lab.evaluation.rehearsal import Sources, assemble
    from callflow.lab.evaluation.whole_calls import read_calls, shipped_calls

    try:
        bounds = _parse_bounds(floor or (), ceiling or ())
        sources = Sources.read(sop_dir)
        known = sources.words()
        files = given or [shipped_calls()]
        calls = [each for path in files for each in read_calls(path, sys.stdin.buffer, known)]
        report = report_calls(try_calls(calls, assemble(sources, retrieval), runs), wrong=wrong)
        broken = [told for bound in bounds if (told := bound.missed(report)) is not None]
    except CallflowError as error:
        raise _unusable(error) from error
    if as_json:
        terminal.print_line(json.dumps(report))
    else:
        _print_calls(report)
    _fail_if(broken)


class EvalCommand(TyperCommand):
    """Hands over to the command for whole calls where `calls` is the first word."""

    def make_context(self, info_name: str | None, args: list[str], *more: Any, **extra: Any) -> Any:
        """Return the context of whichever of the two was meant."""
        if args[:1] != ["calls"]:
            return super().make_context(info_name, args, *more, **extra)
        app = typer.Typer(add_completion=False)
        app.command("calls")(evaluate_calls)
        whole = typer.main.get_command(app)
        return whole.make_context(f"{info_name} calls", args[1:], *more, **extra)


def _unusable(error: CallflowError) -> typer.Exit:
    typer.echo(f"callflow: {terminal.plain(str(error))}", err=True)
    return typer.Exit(UNUSABLE)


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


def _evaluate_heard(
    files: list[Path],
    bounds: list[Bound],
    retrieval: Literal["lexical", "semantic"] | None,
    sop_dir: Path | None,
    *,
    wrong: bool,
    as_json: bool,
) -> None:
    from callflow.lab.evaluation.heard import read_heard, report_heard, try_heard
    from callflow.lab.evaluation.rehearsal import Sources, assemble

    sources = Sources.read(sop_dir)
    known = sources.words()
    lines = [each for path in files for each in read_heard(path, sys.stdin.buffer, known)]
    report = report_heard(try_heard(lines, assemble(sources, retrieval)), wrong=wrong)
    broken = [told for bound in bounds if (told := bound.missed(report)) is not None]
    if as_json:
        terminal.print_line(json.dumps(report))
    else:
        _print_heard(report)
    _fail_if(broken)


_HEARD_COLUMNS = {
    "scenario_accuracy": "scenario",
    "danger_recall": "danger heard",
    "missed_asked_back": "missed, asked back",
    "danger_false_alarms": "false alarms",
}


def _print_heard(report: Mapping[str, Any]) -> None:
    titles = ("n", *_HEARD_COLUMNS.values())
    table = terminal.table("words misheard", *titles, numbers=titles)
    for name, row in report.items():
        if name != "wrong":
            shown = name.replace("up_to_", "up to ") + (" %" if name != "all" else "")
            cells = (_format_percent(row[key]) for key in _HEARD_COLUMNS)
            table.add_row(shown, str(row["n"]), *cells)
    terminal.print_page(table)
    for each in report.get("wrong", ()):
        missed = " danger missed" if each["danger_missed"] else ""
        back = ", asked back" if each["asked_back"] else ""
        told = f"{each['id']} {each['label']} ({each['wer']:.0%}){missed}{back}: "
        terminal.print_line(terminal.plain(told + each["utterance"]))


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


_CALL_COLUMNS = {
    "calls": "calls",
    "pass_at_1": "passed",
    "pass_all": "every run",
    "answered": "answered",
    "asked_again": "asked again",
    "empty_replies": "empty",
    "false_up": "up",
    "false_down": "down",
    "moved": "moved",
    "repeated": "repeated",
    "mixed_address": "address",
    "long_replies": "long",
    "forbidden_spoken": "forbidden",
}
_SHARES = frozenset(("pass_at_1", "pass_all", "passed", "answered"))


def _print_calls(report: Mapping[str, Any]) -> None:
    titles = _CALL_COLUMNS.values()
    table = terminal.table("", *titles, numbers=titles)
    rows = [("all", report), *report["per_language"].items()]
    rows += [
        (f"run {run}", {"pass_at_1": each["passed"], "pass_all": None, **each})
        for run, each in enumerate(report["per_run"], start=1)
    ]
    for name, row in rows:
        cells = (
            _format_percent(row[key]) if key in _SHARES else str(row[key]) for key in _CALL_COLUMNS
        )
        table.add_row(name, *cells)
    terminal.print_page(table)
    for failed in report["failed"]:
        runs = ", ".join(str(run) for run in failed["failed_runs"])
        terminal.print_line("")
        terminal.print_line(terminal.plain(f"{failed['id']} ({failed['lang']}) fails run {runs}"))
        for why in failed["why"]:
            fault = why["fault"].replace("_", " ")
            place = f"run {why['run']}, turn {why['turn'] or '-'}"
            terminal.print_line(terminal.plain(f"  {place}: {fault}: {why['detail']}"))
        for run, lines in failed.get("transcripts", {}).items():
            for turn, (said, reply) in enumerate(lines, start=1):
                terminal.print_line(terminal.plain(f"    {run}.{turn} caller: {said}"))
                terminal.print_line(terminal.plain(f"    {run}.{turn}  agent: {reply}"))


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
