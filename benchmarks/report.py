"""The ratios that matter, and tables for people."""

from __future__ import annotations

from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

AT_MOST = {"turn_p50_vs_bare_celery": 1.3, "cpu_per_turn_vs_seed_50": 1 / 3, "sweep_100k_vs_1k": 2}
AT_LEAST = {"throughput_vs_seed_50": 3}
"""What callflow shall reach, by ratio."""


def target(name: str) -> str:
    """What a ratio shall reach, in a few characters; empty where nothing is set."""
    stem = name.removesuffix("_threads")
    if stem in AT_MOST:
        return f"≤ {AT_MOST[stem]:.3g}"
    return f"≥ {AT_LEAST[stem]:.3g}" if stem in AT_LEAST else ""


def verdict(name: str, value: float) -> str:
    """`reached`, `missed`, or nothing where no target is set."""
    stem = name.removesuffix("_threads")
    if not target(name):
        return ""
    reached = value <= AT_MOST[stem] if stem in AT_MOST else value >= AT_LEAST[stem]
    return "reached" if reached else "missed"


def ratios(result: dict[str, Any]) -> dict[str, float]:
    """callflow in prefork against the others, where the run holds both; `_threads`: in threads.

    Each is the median of the rounds' own ratios: what else the machine did in a round hit both.
    """
    found: dict[str, float] = {}
    if "contestants" in result:
        found |= _of_turns(result["contestants"])
    if "sweep" in result:
        times = result["sweep"]["callflow_ms"]
        low, high = min(times, key=int), max(times, key=int)
        name = f"sweep_{int(high) // 1000}k_vs_{int(low) // 1000}k"
        found[name] = times[high] / times[low]
    return found


def _of_turns(contestants: dict[str, Any]) -> dict[str, float]:
    found: dict[str, float] = {}
    seed = contestants["seed"]["levels"]
    for suffix in ("", "-threads"):
        ours, bare = (contestants[f"{name}{suffix}"]["levels"] for name in ("callflow", "bare"))
        tail = suffix.replace("-", "_")
        if "1" in ours:
            found[f"turn_p50_vs_bare_celery{tail}"] = _ratio(ours["1"], bare["1"], "p50_ms")
        for calls in ours.keys() - {"1"}:
            pair = ours[calls], seed[calls]
            found[f"throughput_vs_seed_{calls}{tail}"] = _ratio(*pair, "turns_per_s")
            found[f"cpu_per_turn_vs_seed_{calls}{tail}"] = _ratio(*pair, "cpu_s_per_1000")
    return dict(sorted(found.items()))


def _ratio(ours: dict[str, Any], theirs: dict[str, Any], what: str) -> float:
    rounds = zip(ours["rounds"], theirs["rounds"], strict=True)
    return float(median(mine[what] / its[what] for mine, its in rounds))


def show(result: dict[str, Any]) -> None:
    """Print everything."""
    console = Console(width=120)
    console.print(" · ".join(f"{name} {value}" for name, value in result["machine"].items()))
    if "contestants" in result:
        for calls in result["plan"]["calls"]:
            console.print(_turns(result, str(calls)))
        console.print(_requests(result["contestants"]))
    if "sweep" in result:
        console.print(_sweep(result["sweep"]))
    console.print(_ratios(result["ratios"]))


def _turns(result: dict[str, Any], calls: str) -> Table:
    plan = result["plan"]
    table = Table(
        title=f"{calls} calls at once, {plan['turns']} turns each, {plan['rounds']} rounds, "
        f"2 workers × {plan['slots']} slots; CPU in s per 1,000 turns",
        title_justify="left",
    )
    table.add_column("")
    for heading in (
        *("turns/s", "p50 ms", "p95", "p99", "CPU server", "workers", "client"),
        *("commands/turn", "KB/turn", "failed"),
    ):
        table.add_column(heading, justify="right")
    for name, scored in result["contestants"].items():
        level = scored["levels"][calls]
        table.add_row(
            name,
            f"{level['turns_per_s']:.0f}",
            *(f"{level[f'p{q}_ms']:.1f}" for q in (50, 95, 99)),
            *(f"{level[f'{who}_cpu_s_per_1000']:.2f}" for who in ("server", "worker", "client")),
            f"{level['commands_per_turn']:.1f}",
            f"{level['bytes_per_turn'] / 1000:.1f}",
            str(level["failed"]),
        )
    return table


def _requests(contestants: dict[str, Any]) -> Table:
    table = Table(
        title="Requests per turn as they arrive at the server, one call at once; memory per call",
        title_justify="left",
    )
    for heading in ("", "KB per finished call", "all", "of these"):
        table.add_column(heading)
    for name, scored in contestants.items():
        asked = scored["requests_per_turn"]
        table.add_row(
            name,
            f"{scored['bytes_per_call'] / 1000:.1f}",
            f"{sum(asked.values()):.1f}",
            ", ".join(f"{what} {count:.1f}" for what, count in asked.items() if count >= 0.05),
        )
    return table


def _sweep(sweep: dict[str, Any]) -> Table:
    table = Table(title="One sweep that finds nothing to do, median ms", title_justify="left")
    table.add_column("calls in progress", justify="right")
    table.add_column("callflow", justify="right")
    table.add_column("seed (SCAN + GET)", justify="right")
    for size, ours in sweep["callflow_ms"].items():
        table.add_row(f"{int(size):,}", f"{ours:.2f}", f"{sweep['seed_ms'][size]:.0f}")
    return table


def _ratios(found: dict[str, float]) -> Table:
    table = Table(title="Ratios", title_justify="left")
    for heading in ("", "measured", "target"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.add_column("")
    for name, value in found.items():
        table.add_row(name, f"{value:.2f}", target(name), verdict(name, value))
    return table
