"""Runs `callflow demo` and `callflow chaos`: processes die, and callers should not notice."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.cli import terminal
from callflow.cli.terminal import INTERRUPTED
from callflow.errors import CallflowError
from callflow.lab.chaos.chaos_plan import KINDS, DemoPlan, Kill, Plan, unknown_kinds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

    from callflow.call.record import CallRecord
    from callflow.lab.chaos.chaos_run import RunProgress
    from callflow.lab.chaos.demo_run import DemoScreen
    from callflow.lab.chaos.judge import Verdict
    from callflow.lab.chaos.run_evidence import RunEvidence

PROMISE_BROKEN = 1
REFUSED = 2
MACHINE_FAILED = 3

_PLAN = Plan()
_WITH_JUDGE = {"judge", "report", "testimony", "as_json"}
"""The parameters that mean something where nothing is run."""


@dataclass(frozen=True, slots=True)
class _Files:
    """What is read instead of a run, and what is written of it."""

    judge: Path | None
    report: Path | None
    testimony: Path | None


def chaos(
    ctx: typer.Context,
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same callers and strikes.")
    ] = _PLAN.seed,
    seconds: Annotated[
        float,
        typer.Option(
            min=1,
            max=86_400,
            help="For how long callers call and are struck. A run lasts up to 40 s longer: to "
            "start, and until the last calls have settled.",
        ),
    ] = _PLAN.seconds,
    calls: Annotated[int, typer.Option(min=1, max=1000, help="Calls at once.")] = _PLAN.calls,
    strikes: Annotated[
        str, typer.Option(help="Kinds of strikes, separated by commas.", show_default="all")
    ] = "all",
    every: Annotated[
        float,
        typer.Option(min=0.01, max=86_400, help="Seconds between strikes, on average."),
    ] = _PLAN.every_s,
    min_replicas: Annotated[
        int, typer.Option(min=0, max=1, help="Replicas that must have a write: there is one.")
    ] = _PLAN.min_replicas,
    logs: Annotated[Path | None, typer.Option(help="Keep the processes' logs here.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write a report here, as HTML.")] = None,
    testimony: Annotated[Path | None, typer.Option(help="Keep what was heard here.")] = None,
    judge: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Judge what was kept; strike nothing."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Strike servers, processes and networks under calls, and judge what the callers heard.

    A stack of its own, with real servers, processes and signals. Ends with 0 where every promise
    was kept, 1 where one was broken, 2 where what was asked for was refused, such as a file that
    is no testimony, 3 where the machine itself failed, a file could not be written or nothing was
    tried (nobody spoke, or nothing was struck), and 130 where it was interrupted.
    """
    kinds = _kinds(strikes)
    files = _Files(judge, report, testimony)
    _refuse_unusable(files, ctx)
    plan = Plan(seed, seconds, calls, kinds, every, min_replicas, logs=logs)
    raise typer.Exit(_carry_out(plan, files, as_json))


def _kinds(names: str) -> tuple[str, ...]:
    if names == "all":
        return tuple(KINDS)
    asked = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    known = f"known are all, {', '.join(KINDS)}"
    if not asked:
        raise typer.BadParameter(
            f"a run without strikes shows nothing, name one or more: {known}",
            param_hint="--strikes",
        )
    if wrong := unknown_kinds(asked):
        raise typer.BadParameter(
            f"there is no strike called {terminal.plain(', '.join(wrong))}: {known}",
            param_hint="--strikes",
        )
    return asked


def _refuse_unusable(files: _Files, ctx: typer.Context) -> None:
    """Before anything is started: nobody shall wait for a run that cannot be told afterwards."""
    if files.judge is not None:
        for parameter in ctx.command.params:
            source = ctx.get_parameter_source(parameter.name or "")
            if source and source.name == "COMMANDLINE" and parameter.name not in _WITH_JUDGE:
                raise typer.BadParameter(
                    f"nothing is run where --judge judges what was kept: leave out "
                    f"{parameter.opts[0]}",
                    param_hint="--judge",
                )
    taken = {} if files.judge is None else {files.judge.resolve(): "--judge"}
    for option, path in (("--testimony", files.testimony), ("--report", files.report)):
        if path is None:
            continue
        if other := taken.get(path.resolve()):
            raise typer.BadParameter(
                f"{path} is the file of {other} already: name another one", param_hint=option
            )
        taken[path.resolve()] = option
        _refuse_unwritable(path, option)


def _refuse_unwritable(path: Path, option: str) -> None:
    new = not os.path.lexists(path)
    try:
        # Only the system knows all that can be in the way, such as quotas and long names.
        with path.open("ab"):
            pass
        if new:
            path.unlink()
    except OSError as error:
        raise typer.BadParameter(
            f"{path} cannot be written ({error.strerror}): it must be a file that may be written, "
            "or a new one in a directory that exists and may be written",
            param_hint=option,
        ) from error


def _carry_out(plan: Plan, files: _Files, as_json: bool) -> int:
    """Do all of it, and tell the exit code."""
    from callflow.lab.chaos.chaos_report import page
    from callflow.lab.chaos.judge import judge
    from callflow.lab.chaos.run_evidence import EvidenceRefused

    # A run that is told to end ends its servers and processes first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = terminal.console(sys.stderr if as_json else None)
    evidence: RunEvidence | None = None
    verdict: Verdict | None = None
    try:
        evidence = _read_evidence(files.judge) if files.judge is not None else _run(plan, out)
        # First of all, so that a judge who stumbles can be asked again.
        written = [_write(files.testimony, evidence.to_json)]
        verdict = judge(evidence)
        _show(verdict, evidence, out, as_json)
        written.append(_write(files.report, lambda: page(evidence, verdict)))
    except KeyboardInterrupt:
        typer.echo(f"callflow: {_interruption(evidence, verdict)}", err=True)
        return INTERRUPTED
    except CallflowError as error:
        typer.echo(f"callflow: {error}", err=True)
        return REFUSED if isinstance(error, EvidenceRefused) else MACHINE_FAILED
    except Exception:
        # Python would end with 1, which says that a promise was broken.
        out.print_exception()
        return MACHINE_FAILED
    if not all(written) or verdict.untried or verdict.unstruck:
        return MACHINE_FAILED
    return 0 if verdict.good else PROMISE_BROKEN


def _interruption(evidence: RunEvidence | None, verdict: Verdict | None) -> str:
    if verdict is not None:
        return "interrupted: the report was not finished"
    if evidence is not None:
        return "interrupted: nothing was judged"
    return "interrupted: nothing was judged, and what was heard so far was dropped"


def _run(plan: Plan, out: Console) -> RunEvidence:
    from callflow import bootstrap
    from callflow.lab.chaos.chaos_run import RunWatcher, run

    bootstrap.library()  # Workers would not start with a bad procedure, and say so in a log.
    if not out.is_terminal:
        return run(plan, RunWatcher(out.print))
    with out.status("starting servers and processes") as status:
        return run(
            plan,
            RunWatcher(out.print, lambda progress: status.update(_progress_line(progress, plan))),
        )


def _progress_line(progress: RunProgress, plan: Plan) -> str:
    return (
        f"{progress.at_s:.0f} of {plan.seconds:.0f} s, {progress.calls} calls, "
        f"{progress.answered} turns answered, {progress.strikes} strikes"
    )


def _read_evidence(path: Path) -> RunEvidence:
    from callflow.lab.chaos.run_evidence import EvidenceRefused, RunEvidence

    try:
        text = path.read_bytes()
    except OSError as error:
        raise EvidenceRefused(str(path), f"it cannot be read ({error.strerror})") from error
    return RunEvidence.from_json(text, str(path))


def _write(path: Path | None, content: Callable[[], str]) -> bool:
    """False, and a sentence for people, where `path` could not be written."""
    if path is None:
        return True
    try:
        path.write_text(content(), encoding="utf-8")
    except OSError as error:
        typer.echo(
            f"callflow: {path} could not be written ({error.strerror}): what is in it is not whole",
            err=True,
        )
        return False
    return True


def _show(verdict: Verdict, evidence: RunEvidence, out: Console, as_json: bool) -> None:
    from callflow.lab.chaos.chaos_report import harmed, summary

    out.print(summary(verdict))
    if verdict.harmed:
        out.print(harmed(evidence, verdict))
    if as_json:
        print(verdict.as_json(), flush=True)
    if verdict.untried:
        typer.echo("callflow: nothing was tried: nobody said a word", err=True)
    elif verdict.unstruck:
        typer.echo("callflow: nothing was tried: nothing was struck", err=True)
    if verdict.unmade:
        typer.echo(f"callflow: asked for, and not made: {', '.join(verdict.unmade)}", err=True)


_DEMO = DemoPlan()


def demo(
    calls: Annotated[int, typer.Option(min=1, max=1000, help="People in lifts.")] = _DEMO.calls,
    turns: Annotated[
        int, typer.Option(min=1, max=1000, help="Things each of them says.")
    ] = _DEMO.turns,
    kill: Annotated[Kill, typer.Option(help="What is killed, or frozen.")] = _DEMO.kill,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between kills.")] = _DEMO.every_s,
    seed: Annotated[int, typer.Option(help="The same seed gives the same callers.")] = _DEMO.seed,
    workers: Annotated[int, typer.Option(min=2, max=64, help="Workers.")] = _DEMO.workers,
    slots: Annotated[
        int, typer.Option(min=1, max=64, help="Turns that one worker runs at once.")
    ] = _DEMO.slots,
    pace: Annotated[
        float, typer.Option(min=0, max=10, help="Seconds before each sentence.")
    ] = _DEMO.pace_s,
    speed: Annotated[
        float, typer.Option(min=1, max=100, help="How much faster than life everybody speaks.")
    ] = _DEMO.speed,
    backlog: Annotated[
        int, typer.Option(min=0, max=10_000, help="Turns of other calls kept waiting.")
    ] = _DEMO.backlog,
    logs: Annotated[
        Path | None, typer.Option(help="Keep the workers' logs in this folder.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object at the end.")] = False,
) -> None:
    """Kill processes in the middle of emergency calls and see what the callers notice.

    The callers are a simulated carrier's: real webhooks and relay sockets, real processes.
    """
    from rich.console import Console
    from rich.live import Live

    from callflow import bootstrap
    from callflow.lab.chaos.demo_run import DemoWatcher, demo_summary, run_demo
    from callflow.settings import load

    # A demo that is told to end ends its workers and its server first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plan = DemoPlan(calls, turns, kill, every, seed, workers, slots, pace, speed, backlog, logs)
    bootstrap.library()  # Workers would not start with a bad procedure, and say so in a log.
    screen = Console(stderr=as_json)
    if screen.is_terminal:
        with Live(console=screen, auto_refresh=False, vertical_overflow="ellipsis") as live:
            result = run_demo(plan, load(), DemoWatcher(_draw_on(live), lambda _: None))
    else:
        result = run_demo(plan, load(), DemoWatcher(lambda *_: None, screen.print))
    screen.print(demo_summary(result, seed))
    if as_json:
        print(json.dumps(result.as_dict()))
    raise typer.Exit(0 if result.good else 1)


def _draw_on(live: Live) -> Callable[[DemoScreen, dict[str, CallRecord], list[str]], None]:
    def draw(demo_screen: DemoScreen, records: dict[str, CallRecord], workers: list[str]) -> None:
        live.update(demo_screen.frame(records, workers), refresh=True)

    return draw
