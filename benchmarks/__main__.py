"""`python -m benchmarks`: run the contest and the sweep, print tables, or one JSON object.

`python -m benchmarks telephone` measures the web process instead, `slots` what a worker costs
before its first call, `overload` what becomes of twice as many calls as the workers can serve,
`board` what many open boards cost and how old what they show is.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import board, contest, machine, markdown, overload, report, slots, sweep, telephone


def main(arguments: list[str] | None = None) -> int:
    """Measure what is asked for. With `--json` the last line of stdout is the whole result."""
    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] and given[0] in _OTHERS:
        return _OTHERS[given[0]](given[1:])
    asked = _parser().parse_args(given)
    result: dict[str, Any] = {"machine": machine.describe()}
    with tempfile.TemporaryDirectory(prefix="callflow-benchmarks-") as scratch:
        if asked.only != "sweep":
            plan = contest.Plan(asked.calls, asked.turns, asked.rounds, asked.slots, asked.at_least)
            result |= contest.run(plan, Path(scratch), _say)
        if asked.only != "turns":
            result["sweep"] = sweep.run(asked.sweep, _say)
    result["ratios"] = report.ratios(result)
    if asked.readme:
        markdown.renew(result)
    if asked.json:
        print(json.dumps(result))
    else:
        report.show(result)
    return 0


_OTHERS: dict[str, Callable[[list[str]], int]] = {
    "telephone": telephone.main,
    "slots": slots.main,
    "overload": overload.main,
    "board": board.main,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    parser.add_argument(
        "--readme", action="store_true", help="put what was measured into benchmarks/README.md"
    )
    parser.add_argument(
        "--calls", type=_numbers, default=[1, 50, 500], help="calls at once (default: 1,50,500)"
    )
    parser.add_argument("--turns", type=int, default=10, help="turns of a call (default: 10)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of turns (default: 3)")
    parser.add_argument("--slots", type=int, default=4, help="slots of a worker (default: 4)")
    parser.add_argument(
        "--at-least",
        type=int,
        default=400,
        metavar="TURNS",
        help="repeat few calls until a measurement has so many turns (default: 400)",
    )
    parser.add_argument(
        "--sweep",
        type=_numbers,
        default=[1_000, 10_000, 100_000],
        help="calls in progress that are swept (default: 1000,10000,100000)",
    )
    parser.add_argument("--only", choices=("turns", "sweep"), help="leave the other part out")
    return parser


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in text.split(","))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
