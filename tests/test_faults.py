"""What was seen to go wrong in systems like ours, and which tests hold it off here.

A row is a public report: where it stands, and what went wrong. Each has at least one test with its
number in the name (`test_fault_07_…`), or a sentence that says why it cannot occur. The whole kind
of a fault matters, not its one instance.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).parent

REPORTS: Final[dict[str, tuple[str, str]]] = {
    "01": ("celery/celery#8030, celery/kombu#2492", "alive but catatonic after quick reconnects"),
    "02": ("celery/celery#8091, #9054", "stops consuming after a restart of Redis"),
    "03": ("celery/celery#10205", "connection reset by peer, never recovers"),
    "04": ("celery/celery#10096, #7946, #6348", "failover: the worker exits, or stays read-only"),
    "05": ("celery/celery#4453", "a reboot of the server hangs workers"),
    "06": ("celery/celery#5935, #5306, #2481", "redelivered while still running: N copies"),
    "08": ("celery/kombu#305, #1836; celery/celery#4354, #7950", "message gone with its worker"),
    "10": ("celery/celery#4426", "task executed twice when a worker restarts"),
    "11": ("celery/celery#3270", "several workers run the same task"),
    "12": ("celery/celery#2011, #7462, #7324", "a child dies and the worker hangs"),
    "13": (
        "OasisLMF/OasisPlatform#975, freelabz/secator#1199",
        "out of memory, redelivered for ever",
    ),
    "15": ("attevon-llc/OpenTranscribe#631", "69,231 child kills, and the health check green"),
    "16": ("project-koku/koku#6278, vstorm-co/agenticos#336", "a wedged parent passes as alive"),
    "17": ("celery/celery#1495, #251, #2856", "one beat is one point of failure, two are doubled"),
    "18": ("sibson/redbeat#208", "an error at the start makes two schedulers"),
    "19": ("sibson/redbeat#163, #127, #83", "a lock is lost, or taken from its owner"),
    "21": ("redis/redis-py#3554, #977, #261, #2851", "executed twice after a timeout"),
    "22": ("redis/redis-py#1764, #460, #435", "read-only on the old primary until it reconnects"),
    "24": ("celery/celery#9436, #2852; celery/kombu#732", "no broker in a cluster: CROSSSLOT"),
    "25": ("mher/flower#1428, #1193, #7", "what is shown live is stuck or wrong"),
    "26": (
        "livekit/agents#1472, livekit/livekit#3857",
        "the worker is dead, its calls stay its own",
    ),
    "27": ("livekit/agents#4268, livekit/agents-js#275", "draining kills other calls"),
    "28": ("livekit/agents#3668", "the agent starts again in the middle, all forgotten"),
    "30": ("pipecat-ai/pipecat#5305", "a reply that was never spoken counts as spoken"),
    "31": (
        "pipecat-ai/pipecat#2922, #2791, #1591, #754",
        "an old sentence is spoken after a barge-in",
    ),
    "33": ("vocodedev/vocode-core#544", "an action without the name of its call"),
    "35": ("redis-developer/langgraph-redis#137, #181, #189, #115", "keys stay, upgrades break"),
    "36": ("openclaw/openclaw#29862", "a webhook comes twice: two streams, the call drops"),
    "38": (
        "CDCgov/prime-simplereport#1931, simstudioai/sim#5230",
        "statuses in any order are lost",
    ),
    "40": ("celery/celery#208, #3858, #1386; celery/kombu#27", "letters beyond ASCII break a task"),
    "42": ("dograh-hq/dograh#474", "a call is invisible while it is set up: a deploy kills it"),
}
"""By their numbers in our notes, which have gaps: where the report stands, and the symptom."""

CANNOT_OCCUR: Final[dict[str, str]] = {}
"""Why a report cannot come true here."""

_NUMBERED = re.compile(r"^test_fault_(\d\d)_")


def _tests_by_number() -> Counter[str]:
    found: Counter[str] = Counter()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.update(match[1] for match in [_NUMBERED.match(node.name)] if match)
    return found


def test_every_fault_that_was_seen_elsewhere_has_a_test_or_cannot_occur() -> None:
    tested = _tests_by_number()
    missing = [number for number in REPORTS if not tested[number] and number not in CANNOT_OCCUR]
    assert not missing, f"no test has their number: {missing}"


def test_no_test_has_the_number_of_an_unknown_fault() -> None:
    assert set(_tests_by_number()) <= set(REPORTS)
