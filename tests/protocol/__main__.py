"""`python -m tests.protocol`: explore, say what was found, fail at a broken promise."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.protocol.diagram import mermaid
from tests.protocol.explorer import explore
from tests.protocol.liveness import always_settles
from tests.protocol.report import story, summary
from tests.protocol.sizes import BIG, SMALL


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore the small sizes, or with `--big` all. 1 when a promise is broken."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.protocol",
        description="Explore every interleaving of a small call, and look for a broken promise: "
        "the exit status is 1 where one is found, and what leads to it is printed.",
    )
    parser.add_argument("--big", action="store_true", help="also the sizes that take minutes")
    parser.add_argument(
        "--diagram", action="store_true", help="explore nothing; print the states, for Mermaid"
    )
    told = parser.parse_args(arguments)
    if told.diagram:
        print(mermaid())
        return 0
    broken = 0
    for name, protocol in (SMALL | (BIG if told.big else {})).items():
        found = explore(protocol)
        live = None if found.counterexample else always_settles(found)
        print(summary(name, found, live), flush=True)
        counterexample = found.counterexample or (live.counterexample if live else None)
        if counterexample is not None:
            print(story(counterexample))
            broken += 1
    return min(broken, 1)


if __name__ == "__main__":
    sys.exit(main())
