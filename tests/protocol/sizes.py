"""What is explored: small enough for every run of the tests, or for a night."""

from __future__ import annotations

from tests.protocol.moves import Size
from tests.protocol.record import Rules
from tests.protocol.steps import Protocol

RULES = Rules()
"""All of them: those of the product."""

SMALL = {
    "two turns, one fault": Protocol(RULES, Size(utterances=2, faults=1)),
    "one turn, two faults, no late copies": Protocol(RULES, Size(utterances=1, faults=2, late=0)),
    "a turn that kills its workers": Protocol(RULES, Size(faults=0, workers=1, poison=True)),
    "a failover": Protocol(RULES, Size(utterances=1, late=0, faults=1, replicated=True)),
    "a failover, and replicas are waited for": Protocol(
        RULES, Size(utterances=1, late=0, faults=1, replicated=True, min_replicas=1)
    ),
}

BIG = {
    "one turn, two faults": Protocol(RULES, Size(utterances=1, faults=2)),
    "one turn, three faults": Protocol(RULES, Size(utterances=1, faults=3, late=0)),
    "three turns, one fault": Protocol(RULES, Size(utterances=3, faults=1)),
    "two turns and a failover": Protocol(
        RULES, Size(utterances=2, faults=1, replicated=True, min_replicas=1)
    ),
    "three workers": Protocol(RULES, Size(utterances=1, faults=1, workers=3)),
}
