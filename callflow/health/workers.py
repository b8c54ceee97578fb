"""Judges how the workers are, by what their parents say, who is present and what waits for them.

Nothing here asks a server. What is found must be found twice, a moment apart: a worker that is just
replaced, or takes its message at this very moment, is no finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from callflow.health.check import Check, Grade
from callflow.health.vitals import Phase, RollCall, VitalSigns

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
class Trouble:
    """Something that is wrong with one worker or one queue, or ('') with all together."""

    check: str
    who: str
    grade: Grade
    sentence: str
    way_out: str

    @property
    def whose(self) -> str:
        """What is wrong with the same one twice is no chance, even where it is not the same."""
        return self.who or self.check


@dataclass(frozen=True, slots=True)
class Staff:
    """All workers at one moment."""

    roll: RollCall
    present: Mapping[str, int]
    """how many processes of each node have their subscription open"""
    calls: Sequence[str]
    """the queues into which calls are sent"""
    waiting: Mapping[str, int]
    """messages in each queue; none where the broker was not asked"""
    in_work: int
    """calls that a worker holds"""
    unclaimed: int
    """calls that wait for a worker"""

    @property
    def speaking(self) -> tuple[VitalSigns, ...]:
        """Those that have said something lately, the draining ones included."""
        return tuple(one for one in self.roll.signs if not self.roll.silent_ms(one))

    @property
    def working(self) -> tuple[VitalSigns, ...]:
        """Those that are connected and take messages, as they say."""
        return tuple(one for one in self.speaking if one.phase is Phase.WORKING)

    @property
    def serving(self) -> tuple[VitalSigns, ...]:
        """Those of them that take calls."""
        return tuple(one for one in self.working if set(one.queues) & set(self.calls))

    @property
    def slots(self) -> int:
        """Turns that they can run at once."""
        return sum(min(one.slots, one.children) for one in self.serving)

    @property
    def free(self) -> int:
        """Turns that they could run more at this moment."""
        return sum(one.free for one in self.serving)


def troubles_of(staff: Staff, one: VitalSigns) -> Iterator[Trouble]:
    """What is wrong with one worker, whatever the others do: restarting it would help."""
    silent_ms = staff.roll.silent_ms(one)
    if silent_ms:
        yield _silent(one.node, silent_ms, staff.present.get(one.node, 0))
        return
    if one.phase is not Phase.WORKING:
        return
    if one.children == 0 and one.short_ms > NO_CHILD_MS:
        yield Trouble(
            "children",
            one.node,
            Grade.FAILURE,
            f"{one.node} has had no child ready for {_s(one.short_ms)}: it takes calls and "
            f"answers none ({one.lost} lost in the last minute)",
            "read its log: its children die, or need more than the 4 s that Celery gives them",
        )
    if one.oldest_ms > 2 * one.turn_ms + UNTAKEN_MS:
        yield Trouble(
            "stuck turns",
            one.node,
            Grade.FAILURE,
            f"{one.node} has had a message in work for {_s(one.oldest_ms)}, and no turn may take "
            f"longer than {_s(one.turn_ms)}: a process or thread of its pool hangs",
            RESTART,
        )
    if not one.queues:
        yield Trouble(
            "consumers", one.node, Grade.FAILURE, f"{one.node} consumes no queue", RESTART
        )
    for queue in one.queues:
        waiting = staff.waiting.get(queue, 0)
        if waiting and one.free and one.idle_ms > UNTAKEN_MS:
            yield Trouble(
                "consumers",
                one.node,
                # Without a watchdog worker others sweep in its stead.
                Grade.FAILURE if queue in staff.calls else Grade.WARNING,
                f"{one.node} has taken nothing for {_s(one.idle_ms)} although messages wait in "
                f"{queue} ({waiting}) and slots are free ({one.free} of {one.slots})",
                RESTART,
            )


def _silent(node: str, silent_ms: int | None, processes: int) -> Trouble:
    silent = "more than a minute" if silent_ms is None else _s(silent_ms)
    if processes:
        return Trouble(
            "parents",
            node,
            Grade.FAILURE,
            f"{node} has said nothing for {silent} although {processes} of its processes live: its "
            "parent process is frozen or wedged, or cannot reach its broker",
            RESTART,
        )
    return Trouble(
        "parents",
        node,
        Grade.WARNING,
        f"{node} fell silent {silent} ago without a good-bye: it was killed, or its parent process "
        "is frozen and its children are dead",
        "see that it was replaced; a frozen one has to be killed",
    )


def troubles(staff: Staff) -> Iterator[Trouble]:
    """All that is wrong at this moment."""
    yield from _nobody(staff)
    for node in sorted(staff.present.keys() - {one.node for one in staff.roll.signs}):
        yield _silent(node, None, staff.present[node])
    for one in staff.roll.signs:
        yield from troubles_of(staff, one)
    for one in staff.working:
        yield from _weak(one)
    if staff.serving:
        yield from _unserved(staff)
    yield from _overload(staff)
    yield from _versions(staff)


def _nobody(staff: Staff) -> Iterator[Trouble]:
    if staff.serving:
        return
    start = f"start some: celery -A callflow worker -Q {','.join(staff.calls)} (or `callflow up`)"
    starting = [one.node for one in staff.speaking if one.phase is Phase.STARTING]
    if starting:
        told = f"none takes calls yet; starting: {', '.join(starting)}"
        yield Trouble("workers", "", Grade.WARNING, told, "wait until it is connected")
    else:
        told = "none takes calls" if staff.present or staff.working else "none is present"
        yield Trouble("workers", "", Grade.FAILURE, f"{told}: no caller gets a reply", start)


def _weak(one: VitalSigns) -> Iterator[Trouble]:
    if 0 < one.children < one.slots and one.short_ms > FEWER_CHILDREN_MS:
        yield Trouble(
            "children",
            one.node,
            Grade.WARNING,
            f"{one.node} has had only {one.children} of {one.slots} children ready for "
            f"{_s(one.short_ms)}",
            "read its log: they die, or need more than the 4 s that Celery gives them",
        )
    elif one.lost > LOST_PER_SLOT * one.slots:
        yield Trouble(
            "children",
            one.node,
            Grade.WARNING,
            f"{one.node} has lost {one.lost} children in a minute",
            "read its log and that of the kernel: who kills them, and has it memory enough?",
        )


def _unserved(staff: Staff) -> Iterator[Trouble]:
    served = {queue for one in staff.serving for queue in one.queues}
    for queue in staff.calls:
        if queue not in served:
            yield Trouble(
                "consumers",
                queue,
                Grade.FAILURE,
                f"nobody consumes the queue {queue}",
                f"name it behind -Q of some workers: -Q {','.join(staff.calls)}",
            )


def _overload(staff: Staff) -> Iterator[Trouble]:
    wanted = staff.in_work + staff.unclaimed
    if staff.serving and staff.unclaimed and wanted > staff.slots:
        yield Trouble(
            "capacity",
            "",
            Grade.WARNING,
            f"{wanted} calls wait for a reply at once, and workers have {staff.slots} slots",
            "add workers; until then the gravest and oldest calls are answered first",
        )


def _versions(staff: Staff) -> Iterator[Trouble]:
    running = _by_version(staff)
    youngest_ms = min((one.up_ms for one in staff.working), default=0)
    if len(running) > 1 and youngest_ms > DEPLOY_MS:
        each = "; ".join(f"{version}: {', '.join(who)}" for version, who in running.items())
        told = f"workers are of different versions ({each})"
        yield Trouble("versions", "", Grade.WARNING, told, "finish the deploy, or take it back")


def _by_version(staff: Staff) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in staff.working:
        found.setdefault(one.version, []).append(one.node)
    return dict(sorted(found.items()))


def findings(look: Callable[[], Staff], wait: Callable[[], None]) -> tuple[Staff, list[Check]]:
    """How the workers are, one check for each thing that may be wrong, after one look where all is
    well, and after a second one, `wait()` later, where it is not."""
    staff = look()
    found = list(troubles(staff))
    if found:
        wait()
        staff = look()
        before = {trouble.whose for trouble in found}
        found = [trouble for trouble in troubles(staff) if trouble.whose in before]
    return staff, [_check(name, told(staff), found) for name, told in _WELL.items()]


def _check(name: str, well: str, found: Iterable[Trouble]) -> Check:
    mine = [trouble for trouble in found if trouble.check == name]
    if not mine:
        return Check(name, Grade.OK, well)
    failed = [trouble for trouble in mine if trouble.grade is Grade.FAILURE]
    return Check(
        name,
        Grade.FAILURE if failed else Grade.WARNING,
        "; ".join(trouble.sentence for trouble in mine),
        "; ".join(dict.fromkeys(trouble.way_out for trouble in failed or mine)),
    )


def _staff(staff: Staff) -> str:
    nodes = ", ".join(one.node for one in staff.serving)
    ending = [one.node for one in staff.speaking if one.phase is Phase.DRAINING]
    drained = f"; about to end: {', '.join(ending)}" if ending else ""
    busy = sum(one.busy for one in staff.serving)
    return f"{len(staff.serving)} with {staff.slots} slots, {busy} busy: {nodes}{drained}"


def _capacity(staff: Staff) -> str:
    wanted = staff.in_work + staff.unclaimed
    if staff.slots:
        return f"{wanted} calls want a slot of {staff.slots}"
    return f"{_NOBODY}, and {wanted or 'no'} calls want a reply"


_NOBODY = "not judged: no worker is ready for calls"
_CONSUMED = "all queues are consumed, and what waits is taken"

_WELL: dict[str, Callable[[Staff], str]] = {
    "workers": _staff,
    "parents": lambda staff: f"{len(staff.speaking)} worker(s) said within seconds that they run",
    "children": lambda staff: f"{staff.slots} are ready" if staff.slots else _NOBODY,
    "stuck turns": lambda staff: "none",
    "consumers": lambda staff: _CONSUMED if staff.serving else _NOBODY,
    "capacity": _capacity,
    "versions": lambda staff: ", ".join(_by_version(staff)) or "none is running",
}


def _s(ms: int) -> str:
    return f"{ms / 1000:.0f} s"
