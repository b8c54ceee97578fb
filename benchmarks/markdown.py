"""The measured part of `benchmarks/README.md`: written from a result, so no number is by hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.report import target, verdict

README = Path(__file__).with_name("README.md")
BEGIN, END = "<!-- measured: python -m benchmarks --readme -->", "<!-- end of measured -->"


def renew(result: dict[str, Any]) -> None:
    """Replace what stands between the two marks."""
    head, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    measured = "\n".join(_measured(result))
    README.write_text(f"{head}{BEGIN}\n\n{measured}\n{END}{tail}", encoding="utf-8")


def _measured(result: dict[str, Any]) -> Iterator[str]:
    machine = ", ".join(f"{name} {value}" for name, value in result["machine"].items())
    yield f"Machine: {machine}.\n"
    if "contestants" in result:
        plan = result["plan"]
        yield f"{plan['rounds']} rounds; CPU in seconds per 1,000 turns.\n"
        for calls in map(str, plan["calls"]):
            yield f"**{calls} at once**\n"
            yield _turns(result["contestants"], calls)
        yield "**On the wire, and in memory**\n"
        yield _requests(result["contestants"])
    if "sweep" in result:
        yield "**One sweep that finds nothing to do, median ms**\n"
        yield _sweep(result["sweep"])
    yield "**Ratios** (median of the rounds' own)\n"
    yield _table(
        ("ratio", "measured", "target", ""),
        (
            (f"`{name}`", f"{value:.2f}", target(name), verdict(name, value))
            for name, value in result["ratios"].items()
        ),
    )


def _turns(contestants: dict[str, Any], calls: str) -> str:
    headings = (
        *("", "turns/s", "p50 ms", "p95", "p99", "CPU server", "workers", "client"),
        *("commands/turn", "KB/turn", "failed"),
    )
    levels = ((name, scored["levels"][calls]) for name, scored in contestants.items())
    return _table(
        headings,
        (
            (
                name,
                f"{level['turns_per_s']:.0f}",
                *(f"{level[f'p{q}_ms']:.1f}" for q in (50, 95, 99)),
                *(
                    f"{level[f'{who}_cpu_s_per_1000']:.2f}"
                    for who in ("server", "worker", "client")
                ),
                f"{level['commands_per_turn']:.1f}",
                f"{level['bytes_per_turn'] / 1000:.1f}",
                str(level["failed"]),
            )
            for name, level in levels
        ),
    )


def _requests(contestants: dict[str, Any]) -> str:
    asked = ((name, scored, scored["requests_per_turn"]) for name, scored in contestants.items())
    return _table(
        ("", "KB per call", "requests per turn", "of these"),
        (
            (
                name,
                f"{scored['bytes_per_call'] / 1000:.1f}",
                f"{sum(counts.values()):.1f}",
                ", ".join(f"{what} {count:.1f}" for what, count in counts.items() if count >= 0.05),
            )
            for name, scored, counts in asked
        ),
    )


def _sweep(sweep: dict[str, Any]) -> str:
    return _table(
        ("calls in progress", "callflow", "seed (SCAN + GET)"),
        (
            (f"{int(size):,}", f"{ours:.2f}", f"{sweep['seed_ms'][size]:,.0f}")
            for size, ours in sweep["callflow_ms"].items()
        ),
    )


def _table(headings: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headings, ("---",) * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
