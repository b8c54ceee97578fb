"""Runs `callflow demo`: workers are killed in the middle of turns, and the calls go on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from callflow.lab.chaos.chaos_plan import DemoPlan, Kill

if TYPE_CHECKING:
    from rich.live import Live

    from callflow.call.record import CallRecord
    from callflow.lab.chaos.demo_report import DemoScreen

_PLAN = DemoPlan()


def demo(
    calls: Annotated[int, typer.Option(min=1, max=1000, help="People in lifts.")] = _PLAN.calls,
    turns: Annotated[
        int, typer.Option(min=1, max=1000, help="Things each of them says.")
    ] = _PLAN.turns,
    kill: Annotated[Kill, typer.Option(help="What is killed, or frozen.")] = _PLAN.kill,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between kills.")] = _PLAN.every_s,
    seed: Annotated[int, typer.Option(help="The same seed gives the same callers.")] = _PLAN.seed,
    workers: Annotated[int, typer.Option(min=2, max=64, help="Workers.")] = _PLAN.workers,
    slots: Annotated[
        int, typer.Option(min=1, max=64, help="Turns that one worker runs at once.")
    ] = _PLAN.slots,
    pace: Annotated[
        float, typer.Option(min=0, max=10, help="Seconds before each sentence.")
    ] = _PLAN.pace_s,
    speed: Annotated[
        float, typer.Option(min=1, max=100, help="How much faster than life everybody speaks.")
    ] = _PLAN.speed,
    backlog: Annotated[
        int, typer.Option(min=0, max=10_000, help="Turns of other calls kept waiting.")
    ] = _PLAN.backlog,
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
    from callflow.lab.chaos.demo_report import demo_summary
    from callflow.lab.chaos.demo_run import DemoWatcher, run_demo
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
