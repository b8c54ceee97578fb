"""`callflow chaos`: everything is struck at random, and callers tell what they noticed."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.chaos.plan import KINDS, Plan, unknown
from callflow.cli import screen
from callflow.errors import CallflowError

if TYPE_CHECKING:
    from rich.console import Console

    from callflow.chaos.run import Progress
    from callflow.chaos.verdict import Verdict
    from callflow.chaos.witness import Testimony

PROMISE_BROKEN = 1
MACHINE_FAILED = 3

_PLAN = Plan()


def chaos(
    seed: Annotated[
        int, typer.Option(help="The same seed gives the same callers and strikes.")
    ] = _PLAN.seed,
    seconds: Annotated[
        float, typer.Option(min=1, max=86_400, help="For how long callers call and are struck.")
    ] = _PLAN.seconds,
    calls: Annotated[int, typer.Option(min=1, max=1000, help="Calls at once.")] = _PLAN.calls,
    strikes: Annotated[
        str, typer.Option(help="Kinds of strikes, separated by commas.", show_default="all")
    ] = "all",
    every: Annotated[
        float, typer.Option(min=0, help="Seconds between strikes, on average.")
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
    was kept, 1 where one was broken, and 3 where the machine itself failed.
    """
    plan = Plan(
        seed=seed,
        seconds=seconds,
        calls=calls,
        strikes=_kinds(strikes),
        every_s=every,
        min_replicas=min_replicas,
        logs=logs,
    )
    # A run that is told to end ends its servers and processes first, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    out = screen.console(sys.stderr if as_json else None)
    try:
        told = _kept(judge) if judge is not None else _seen(plan, out)
        verdict = _judged(told, report, testimony)
    except CallflowError as error:
        typer.echo(f"callflow: {error}", err=True)
        raise typer.Exit(MACHINE_FAILED) from error
    except Exception as error:
        # Python would end with 1, which says that a promise was broken.
        out.print_exception()
        raise typer.Exit(MACHINE_FAILED) from error
    _show(verdict, told, out)
    if as_json:
        print(verdict.as_json())
    raise typer.Exit(0 if verdict.good else PROMISE_BROKEN)


def _kinds(names: str) -> tuple[str, ...]:
    if names == "all":
        return tuple(KINDS)
    asked = tuple(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if wrong := unknown(asked):
        raise typer.BadParameter(
            f"there is no strike called {', '.join(wrong)}: known are all, {', '.join(KINDS)}",
            param_hint="--strikes",
        )
    return asked


def _seen(plan: Plan, out: Console) -> Testimony:
    from callflow import bootstrap
    from callflow.chaos.run import Watcher, run

    bootstrap.library()  # Workers would not start with a bad procedure, and say so in a log.
    if not out.is_terminal:
        return run(plan, Watcher(out.print))
    with out.status("starting servers and processes") as status:
        return run(plan, Watcher(out.print, lambda progress: status.update(_words(progress, plan))))


def _words(progress: Progress, plan: Plan) -> str:
    return (
        f"{progress.at_s:.0f} of {plan.seconds:.0f} s, {progress.calls} calls, "
        f"{progress.answered} turns answered, {progress.strikes} strikes"
    )


def _kept(path: Path) -> Testimony:
    from callflow.chaos.witness import Testimony

    return Testimony.from_json(path.read_bytes())


def _judged(told: Testimony, report: Path | None, testimony: Path | None) -> Verdict:
    from callflow.chaos.judge import judge
    from callflow.chaos.report import page

    # First of all, so that a judge who stumbles can be asked again.
    if testimony is not None:
        testimony.write_text(told.to_json(), encoding="utf-8")
    verdict = judge(told)
    if report is not None:
        report.write_text(page(told, verdict), encoding="utf-8")
    return verdict


def _show(verdict: Verdict, told: Testimony, out: Console) -> None:
    from callflow.chaos.report import harmed, summary

    out.print(summary(verdict))
    if verdict.harmed:
        out.print(harmed(told, verdict))
