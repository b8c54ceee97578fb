"""Checks how the workers are, by what they report, who is present and what waits for them.

Nothing here asks a server. What is found must be found twice, a moment apart: a worker that is just
replaced, or takes its message at this very moment, is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from callflow.health.check import (
    Audience,
    Check,
    HealthCheck,
    Severity,
    join_findings,
    run_checks,
)
from callflow.health.worker_reports import Phase, WorkerReport, WorkerReports

NO_CHILD_MS = 5_000
"""A pool without one ready child for so long serves nobody; each has 4 s to come up."""

FEWER_CHILDREN_MS = 10_000
LOST_PER_SLOT = 3
"""Children lost in a minute, for each slot, from which on it is no chance."""

UNTAKEN_MS = 3_000
"""A consumer with a free slot takes a message that waits within milliseconds."""

DEPLOY_MS = 15 * 60_000
"""For so long after a worker was started versions may differ: a deploy is under way."""

RESTART = "restart that worker: what it has in work is taken over by others"


@dataclass(frozen=True, slots=True)
class Workforce:
    """All workers at one moment."""

    reported: WorkerReports
    present: Mapping[str, int]
    """how many processes of each node have their subscription open"""
    call_queues: Sequence[str]
    """the queues into which calls are sent"""
    waiting: Mapping[str, int]
    """messages in each queue; none where the broker was not asked"""
    in_work: int = 0
    """calls that a worker holds"""
    unclaimed: int = 0
    """calls that wait for a worker"""

    @property
    def speaking(self) -> tuple[WorkerReport, ...]:
        """Those that have said something lately, the draining ones included."""
        return tuple(one for one in self.reported.reports if not self.reported.silent_ms(one))

    @property
    def working(self) -> tuple[WorkerReport, ...]:
        """Those that are connected and take messages, as they say."""
        return tuple(one for one in self.speaking if one.phase is Phase.WORKING)

    @property
    def serving(self) -> tuple[WorkerReport, ...]:
        """Those of them that take calls."""
        return tuple(one for one in self.working if set(one.queues) & set(self.call_queues))

    @property
    def slots(self) -> int:
        """Turns that they can run at once."""
        return sum(min(one.slots, one.children) for one in self.serving)

    @property
    def busy(self) -> int:
        """Messages that they have taken and are not done with."""
        return sum(one.busy for one in self.serving)

    @property
    def free(self) -> int:
        """Turns that they could run more at this moment."""
        return sum(one.free for one in self.serving)


def _find_nobody(workforce: Workforce) -> Iterator[Check]:
    if workforce.serving:
        return
    starting = [one.node for one in workforce.speaking if one.phase is Phase.STARTING]
    if starting:
        sentence = f"none takes calls yet; starting: {', '.join(starting)}"
        yield Check("workers", Severity.WARNING, sentence, "wait until it is connected")
        return
    known = workforce.present or workforce.working
    sentence = f"{'none takes calls' if known else 'none is present'}: no caller gets a reply"
    start = f"celery -A callflow worker -Q {','.join(workforce.call_queues)}"
    yield Check("workers", Severity.FAILURE, sentence, f"start some: {start} (or `callflow up`)")


def _find_silent_parents(workforce: Workforce) -> Iterator[Check]:
    reported = workforce.reported
    for node in sorted(workforce.present.keys() - {one.node for one in reported.reports}):
        yield _silent(node, "more than a minute", workforce.present[node])
    for one in reported.reports:
        if silent_ms := reported.silent_ms(one):
            yield _silent(one.node, _seconds(silent_ms), workforce.present.get(one.node, 0))


def _silent(node: str, silent: str, processes: int) -> Check:
    if processes:
        sentence = (
            f"{node} has said nothing for {silent} although {processes} of its processes live: its "
            "parent process is frozen or wedged, or cannot reach its broker"
        )
        return Check("parents", Severity.FAILURE, sentence, RESTART, node)
    sentence = (
        f"{node} fell silent {silent} ago without a good-bye: it was killed, or its parent process "
        "is frozen and its children are dead"
    )
    way_out = "see that it was replaced; a frozen one has to be killed"
    return Check("parents", Severity.WARNING, sentence, way_out, node)


def _find_dead_pools(workforce: Workforce) -> Iterator[Check]:
    for one in workforce.working:
        if one.children == 0 and one.short_ms > NO_CHILD_MS:
            sentence = (
                f"{one.node} has had no child ready for {_seconds(one.short_ms)}: it takes calls "
                f"and answers none ({one.lost} lost in the last minute)"
            )
            way_out = "read its log: its children die, or need more than the 4 s that Celery gives"
            yield Check("children", Severity.FAILURE, sentence, f"{way_out} them", one.node)


def _find_weak_pools(workforce: Workforce) -> Iterator[Check]:
    for one in workforce.working:
        if 0 < one.children < one.slots and one.short_ms > FEWER_CHILDREN_MS:
            sentence = (
                f"{one.node} has had only {one.children} of {one.slots} children ready for "
                f"{_seconds(one.short_ms)}"
            )
            way_out = "read its log: they die, or need more than the 4 s that Celery gives them"
        elif one.lost > LOST_PER_SLOT * one.slots:
            sentence = f"{one.node} has lost {one.lost} children in a minute"
            way_out = (
                "read its log and that of the kernel: who kills them, and has it memory enough?"
            )
        else:
            continue
        yield Check("children", Severity.WARNING, sentence, way_out, one.node)


def _find_stuck_turns(workforce: Workforce) -> Iterator[Check]:
    for one in workforce.working:
        if one.oldest_ms > 2 * one.turn_ms + UNTAKEN_MS:
            sentence = (
                f"{one.node} has had a message in work for {_seconds(one.oldest_ms)}, and no turn "
                f"may take longer than {_seconds(one.turn_ms)}: a process or thread of its pool "
                "hangs"
            )
            yield Check("stuck turns", Severity.FAILURE, sentence, RESTART, one.node)


def _find_idle_consumers(workforce: Workforce) -> Iterator[Check]:
    for one in workforce.working:
        if not one.queues:
            sentence = f"{one.node} consumes no queue"
            yield Check("consumers", Severity.FAILURE, sentence, RESTART, one.node)
        for queue in one.queues:
            waiting = workforce.waiting.get(queue, 0)
            if waiting and one.free and one.idle_ms > UNTAKEN_MS:
                calls = queue in workforce.call_queues
                sentence = (
                    f"{one.node} has taken nothing for {_seconds(one.idle_ms)} although messages "
                    f"wait in {queue} ({waiting}) and slots are free ({one.free} of {one.slots})"
                )
                # Without a watchdog worker others sweep in its stead.
                severity = Severity.FAILURE if calls else Severity.WARNING
                yield Check("consumers", severity, sentence, RESTART, one.node)


def _find_unserved_queues(workforce: Workforce) -> Iterator[Check]:
    served = {queue for one in workforce.serving for queue in one.queues}
    for queue in workforce.call_queues:
        if workforce.serving and queue not in served:
            way_out = f"name it behind -Q of some workers: -Q {','.join(workforce.call_queues)}"
            sentence = f"nobody consumes the queue {queue}"
            yield Check("consumers", Severity.FAILURE, sentence, way_out, queue)


def _find_overload(workforce: Workforce) -> Iterator[Check]:
    wanted = workforce.in_work + workforce.unclaimed
    if workforce.serving and workforce.unclaimed and wanted > workforce.slots:
        sentence = (
            f"{wanted} calls wait for a reply at once, and workers have {workforce.slots} slots"
        )
        way_out = "add workers; until then the gravest and oldest calls are answered first"
        yield Check("capacity", Severity.WARNING, sentence, way_out)


def _find_mixed_versions(workforce: Workforce) -> Iterator[Check]:
    running = _by_version(workforce)
    youngest_ms = min((one.up_ms for one in workforce.working), default=0)
    if len(running) > 1 and youngest_ms > DEPLOY_MS:
        each = "; ".join(f"{version}: {', '.join(who)}" for version, who in running.items())
        sentence = f"workers are of different versions ({each})"
        yield Check("versions", Severity.WARNING, sentence, "finish the deploy, or take it back")


def _by_version(workforce: Workforce) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in workforce.working:
        found.setdefault(one.version, []).append(one.node)
    return dict(sorted(found.items()))


_SERVED = frozenset({Audience.DOCTOR, Audience.ALARM})

WORKER_CHECKS: Final = (
    HealthCheck("workers", _find_nobody, _SERVED),
    HealthCheck("parents", _find_silent_parents, frozenset(Audience)),
    HealthCheck("children", _find_dead_pools, frozenset(Audience)),
    HealthCheck("children", _find_weak_pools),
    HealthCheck("stuck turns", _find_stuck_turns, frozenset(Audience)),
    HealthCheck("consumers", _find_idle_consumers, frozenset(Audience)),
    HealthCheck("consumers", _find_unserved_queues, _SERVED),
    HealthCheck("capacity", _find_overload),
    HealthCheck("versions", _find_mixed_versions),
)


def check_workers(
    look: Callable[[], Workforce], wait: Callable[[], None]
) -> tuple[Workforce, list[Check]]:
    """How the workers are, one check for each thing that may be wrong, after one look where all is
    well, and after a second one, `wait()` later, where it is not."""
    workforce = look()
    found = list(run_checks(WORKER_CHECKS, workforce))
    if found:
        wait()
        workforce = look()
        before = {one.blamed for one in found}
        found = [one for one in run_checks(WORKER_CHECKS, workforce) if one.blamed in before]
    return workforce, [join_findings(name, well(workforce), found) for name, well in _WELL.items()]


def _describe(workforce: Workforce) -> str:
    nodes = ", ".join(one.node for one in workforce.serving)
    ending = [one.node for one in workforce.speaking if one.phase is Phase.DRAINING]
    drained = f"; about to end: {', '.join(ending)}" if ending else ""
    slots, busy = workforce.slots, workforce.busy
    return f"{len(workforce.serving)} with {slots} slots, {busy} busy: {nodes}{drained}"


def _describe_capacity(workforce: Workforce) -> str:
    wanted = workforce.in_work + workforce.unclaimed
    if workforce.slots:
        return f"{wanted} calls want a slot of {workforce.slots}"
    return f"{_NOBODY}, and {wanted or 'no'} calls want a reply"


_NOBODY = "not judged: no worker is ready for calls"
_CONSUMED = "all queues are consumed, and what waits is taken"

_WELL: dict[str, Callable[[Workforce], str]] = {
    "workers": _describe,
    "parents": lambda all_: f"{len(all_.speaking)} worker(s) said within seconds that they run",
    "children": lambda all_: f"{all_.slots} are ready" if all_.slots else _NOBODY,
    "stuck turns": lambda _: "none",
    "consumers": lambda all_: _CONSUMED if all_.serving else _NOBODY,
    "capacity": _describe_capacity,
    "versions": lambda all_: ", ".join(_by_version(all_)) or "none is running",
}


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.0f} s"
