"""`python -m tests.protocol [--big] [--diagram]`: explore, say what was found, fail at a broken
promise."""

from __future__ import annotations

import sys

from tests.protocol.diagram import mermaid
from tests.protocol.explorer import explore
from tests.protocol.liveness import always_settles
from tests.protocol.report import story, summary
from tests.protocol.sizes import BIG, SMALL


def main() -> int:
    """Explore the small sizes, or with `--big` all. 1 when a promise is broken."""
    if "--diagram" in sys.argv:
        print(mermaid())
        return 0
    broken = 0
    for name, protocol in (SMALL | (BIG if "--big" in sys.argv else {})).items():
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
