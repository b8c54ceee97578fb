"""Lists every metric: its name, what it says, its labels, its unit.

One list for Prometheus and CloudWatch; the dashboard and the alerts may name nothing else. Each web
process tells the same numbers of the whole deployment, so across processes they are aggregated with
`max`, never with `sum`; counters begin with the process, as Prometheus expects.

No label has a value that a caller, or anybody else, could choose: see `label_value`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, get_args

from callflow.call.record import Word
from callflow.call.state import CallState
from callflow.call.urgency import Urgency
from callflow.celery import CALLS, WATCHDOG
from callflow.health.worker_reports import Phase
from callflow.responder.model import Failure

PREFIX: Final = "callflow_"

MOST_VALUES: Final = 50
"""Of one label; what comes after is counted as `other`, so that no number of series grows without
an end."""

OTHER: Final = "other"

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,39}", re.ASCII)
"""A word of ours. A telephone number, a sentence or a CallSid with its digits first is none."""
_CALL_SID = re.compile(r"[A-Z]{2}[0-9a-f]{32}", re.ASCII)


class Kind(StrEnum):
    """How Prometheus keeps it."""

    GAUGE = "gauge"
    COUNTER = "counter"
    TIMES = "histogram"
    """of seconds"""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `known` are the label values that are told from the start, as 0: a rate cannot be
    seen of what begins with 1."""

    name: str
    kind: Kind
    help: str
    label: str | None = None
    known: tuple[str, ...] = ()
    buckets_s: tuple[float, ...] = ()

    @property
    def exported(self) -> str:
        """The name as it is queried; a histogram's has `_bucket`, `_sum` and `_count` behind it."""
        return f"{PREFIX}{self.name}{'_total' if self.kind is Kind.COUNTER else ''}"

    @property
    def unit(self) -> str:
        """As CloudWatch calls it."""
        return "Seconds" if self.name.endswith("_seconds") else "Count"


UNKNOWN: Final = "unknown"
URGENCIES: Final = (*get_args(Urgency), UNKNOWN)
WORDS: Final = tuple(str(one) for one in Word if one is not Word.ENDED)
STATES: Final = tuple(str(one) for one in CallState if one is not CallState.COMPLETE)
SILENT: Final = "silent"
PHASES: Final = (*(str(phase) for phase in Phase), SILENT)

CAUSES: Final = ("gone", "silent", "drained", "deadline", "failed", "unclaimed")
"""Why another worker, or a human, had to take a turn up: the process of the first one died; it fell
silent; it ends; its turn took too long; it failed; or nobody had taken the turn for
CALLFLOW_OWED_AFTER_S, so that its message counts as lost (or waits behind others)."""

STAGES: Final = ("understand", "first_words", "rest")

REFUSED: Final = ("fenced", "ended")
REASONS: Final = (
    "poison",
    "limit",
    "overload",
    "no_reply",
    "asked",
    "assist",
    "not_understood",
    "taken_over",
)
RINGS: Final = ("ringing", "ring_confirmed", "not_answered", "ring_failed", "nobody_to_ring")
MISTAKES: Final = ("unknown_sentence", "too_early", "unfounded_fact")
RULES: Final = (
    *("persona", "leak", "hangup", "cannot_fall", "promise", "digits", "buttons", "medical"),
    *("diagnosis", "blame", "climb", "doors", "eta", "dispatch", "language"),
)
ENDS: Final = ("hung_up", "abandoned")

_QUICK_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_HEARD_S = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 60.0)
_TAKEN_S = (0.1, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 11.0, 20.0, 60.0)
_HUMAN_S = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0)

G, C, T = Kind.GAUGE, Kind.COUNTER, Kind.TIMES

METRICS: Final[tuple[Metric, ...]] = (
    Metric("store_up", G, "1 while the server that holds the calls answers this process, else 0."),
    Metric("data_age_seconds", G, "How old what this process knows of the calls is."),
    Metric("blind_shards", G,
           "Parts of the calls (of 16) that cannot be read: a node of the cluster is gone."),
    Metric("active_calls", G, "Calls whose line is open."),
    Metric("calls", G, "Open calls by what their callers live through.", "word", WORDS),
    Metric("calls_by_state", G, "Open calls by the state of their record.", "state", STATES),
    Metric("calls_by_urgency", G, "Open calls by urgency (P1: life at risk).", "urgency",
           URGENCIES),
    Metric("owed_turns", G, "Open calls in which a reply is owed."),
    Metric("oldest_owed_seconds", G, "How long the caller who waits longest is owed a reply."),
    Metric("beats_overdue", G, "Turns in work whose worker's last heartbeat is overdue now."),
    Metric("humans_awaited", G, "Open calls for which a human is wanted and none has come."),
    Metric("longest_human_awaited_seconds", G, "How long the longest of those has waited."),
    Metric("queue_depth", G, "Messages that wait in a queue.", "queue", (*CALLS, WATCHDOG)),
    Metric("broker_up", G, "1 while the server with the messages answers this process, else 0."),
    Metric("workers", G, "Worker processes (parents) by phase; silent: without a good-bye.",
           "phase", PHASES),
    Metric("worker_slots", G, "Turns that the workers which take calls can run at once."),
    Metric("worker_slots_busy", G, "Messages that those have taken and are not done with."),
    Metric("last_sweep_age_seconds", G, "How long ago somebody last looked for silent workers."),
    Metric("sweeps_by_understudy", G,
           "1 while a worker's parent sweeps because no watchdog does, else 0."),
    Metric("unarchived_calls", G, "Complete calls that the lasting records do not have yet."),
    Metric("oldest_unarchived_seconds", G, "For how long the first of those has been complete."),
    Metric("records_up", G, "1 while the database with the lasting records answers, else 0."),
    Metric("lifts_without_test_call", G,
           "Lifts whose last good test call is longer ago than CALLFLOW_TEST_CALL_HOURS."),

    Metric("calls_opened", C, "Calls that came in."),
    Metric("calls_ended", C, "Calls whose line closed, by why.", "reason", ENDS),
    Metric("turns_heard", C, "Utterances that were stored."),
    Metric("turns_answered", C, "Replies that were stored."),
    Metric("turns_lost", C, "Utterances and replies that a failover took after they were stored."),
    Metric("replies_interrupted", C, "Replies that the caller spoke into."),
    Metric("heartbeats_missed", C, "Heartbeats that were seen to be overdue."),
    Metric("refused_writes", C,
           "Writes of workers that no longer held their call: fenced (taken over), or ended.",
           "reason", REFUSED),
    Metric("humans_wanted", C, "Calls for which a human was wanted, by why.", "reason", REASONS),
    Metric("transfers", C, "Calls that the agent passed to a human, by why.", "reason", REASONS),
    Metric("rings", C, "What came of ringing humans.", "result", RINGS),
    Metric("model_failures", C,
           "Turns in which a model was asked and did not answer, by why; open: it was not asked, "
           "since it had failed for others.", "reason", (*get_args(Failure), "open")),
    Metric("model_mistakes", C, "Turns in which something that a model wrote was not used, by why.",
           "kind", MISTAKES),
    Metric("model_fallbacks", C, "Replies that the procedure's script worded after the models."),
    Metric("guard_catches", C, "Replies of a model in which a sentence was caught, by rule.",
           "rule", RULES),
    Metric("journal_lines", C, "Lines of the calls' journals, by event.", "event"),

    Metric("claim_wait_seconds", T, "From when a reply is owed until a worker claims the turn.",
           buckets_s=_QUICK_S),
    Metric("turn_stage_seconds", T,
           "Parts of a turn in work: understand (from the claim), first_words (until some are "
           "stored), rest (until the reply is).", "stage", STAGES, _QUICK_S),
    Metric("turn_seconds", T, "From when a reply is owed until all of it is stored.",
           buckets_s=_HEARD_S),
    Metric("caller_silence_seconds", T,
           "From when a reply is owed until its first words are stored. Holding phrases in between "
           "are not counted as words.", buckets_s=_HEARD_S),
    Metric("takeover_seconds", T,
           "From the last sign of life of the worker that had a turn (from when it gave it back, "
           "where it did) until another one, or a human, has the call; unclaimed: from when the "
           "reply was owed.", "cause", CAUSES, _TAKEN_S),
    Metric("human_answer_seconds", T,
           "From when a human is wanted until one is on the line (target 30, at most 45).",
           buckets_s=_HUMAN_S),
)  # fmt: skip

BY_NAME: Final = {metric.name: metric for metric in METRICS}


def label_value(given: str | None) -> str:
    """`given` where it is a word of ours, else `other`: never what somebody said, or who it was."""
    # Why a procedure wants a person, and a model, are written for people to read.
    given = (given or "").removesuffix(" needs a person").replace("model: ", "model_")
    if not _PLAIN.fullmatch(given) or _CALL_SID.fullmatch(given):
        return OTHER
    return given
