"""Judges a run from outside: per promise, how often it was tried, and each time it was broken.

Believed are the callers, about what was taken from them and what they heard, and the machine that
struck. Pure: the same testimony gives the same verdict, so a run that was kept can be judged again
by a judge that has learned something.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from callflow.lab.chaos.bounds import takeover_bound_s
from callflow.lab.chaos.conversation import Findings, judge_call
from callflow.lab.chaos.faults import Fault, Kind
from callflow.lab.chaos.takeovers import Takeover, reclaims, takeovers
from callflow.lab.chaos.verdict import Percentiles, Row, Tried, Verdict
from callflow.lab.chaos.witness import Caller, Strike, Testimony

MOST_LETTERS_OF_A_LINE: Final = 160

_REPLAY: Final = re.compile(r"callflow chaos(?: --[a-z-]+ [a-z0-9.,+-]+)*", re.ASCII)
"""Nobody is offered anything else out of a file, to be pasted into a shell."""


def judge(testimony: Testimony) -> Verdict:
    """The verdict. Nothing is asked again, nothing is measured: all of it is in the testimony."""
    found = [_judged(testimony, caller) for caller in testimony.callers]
    taken_over = takeovers(testimony)
    faults = sorted(
        [
            *(fault for findings in found for fault in findings.faults),
            *_late_takeovers(taken_over),
            *_of_the_whole(testimony),
        ]
    )
    reports = [caller.report for caller in testimony.callers]
    conditions = testimony.conditions
    return Verdict(
        seed=conditions.seed,
        replay=conditions.command if _REPLAY.fullmatch(conditions.command) else "",
        seconds=conditions.seconds,
        calls=len(reports),
        turns=sum(len(report.turns) for report in reports),
        strikes=len(testimony.strikes),
        per_kind=_per_kind(testimony, taken_over),
        promises=_promises(testimony, found, faults),
        detected=sum(findings.losses for findings in found),
        reply_s=Percentiles.of(time_s for findings in found for time_s in findings.reply_s),
        silence_s=Percentiles.of(one.own_s for report in reports for one in report.silences),
        takeover_s=Percentiles.of(one.after_s for one in taken_over),
        faults=tuple(faults),
        unmade=tuple(
            kind
            for kind in conditions.kinds
            if all(strike.kind != kind for strike in testimony.strikes)
        ),
    )


def _judged(testimony: Testimony, caller: Caller) -> Findings:
    began_s = testimony.offset_s(caller.report)
    return judge_call(caller, testimony.conditions, testimony.strikes, began_s)


def _late_takeovers(taken_over: Sequence[Takeover]) -> Iterator[Fault]:
    for one in taken_over:
        if one.after_s > one.bound_s:
            detail = (
                f"turn {one.turn} waited {one.after_s:.2f} s of {one.bound_s:.2f} s for its next "
                f"worker after {one.strike.kind}"
            )
            yield Fault(round(one.strike.at_s, 3), Kind.LATE_TAKEOVER, one.call_sid, detail)


def _of_the_whole(testimony: Testimony) -> Iterator[Fault]:
    ended_s = max(
        (testimony.offset_s(c.report) + c.report.duration_s for c in testimony.callers),
        default=0.0,
    )
    for words in testimony.fallen:
        yield Fault(ended_s, Kind.FALLEN, None, f"nobody had struck it: {_shortened(words)}")
    for key in testimony.leaked:
        yield Fault(ended_s, Kind.LEAK, None, f"{key} has no lifetime")


def _shortened(words: str) -> str:
    """Of a log its first line and its last one, which says what happened."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    ends = lines if len(lines) < 3 else [lines[0], lines[-1]]
    return " … ".join(line[:MOST_LETTERS_OF_A_LINE] for line in ends)


def _promises(
    testimony: Testimony, found: Sequence[Findings], faults: Sequence[Fault]
) -> dict[int, Tried]:
    acknowledged = sum(findings.acknowledged for findings in found)
    tried = {
        1: acknowledged,
        2: sum(findings.replies for findings in found),
        3: acknowledged,
        4: len(testimony.strikes),
        5: reclaims(testimony),
        6: len({strike.call_sid for strike in testimony.strikes if strike.call_sid is not None}),
        7: sum(findings.silences for findings in found),
        8: len(testimony.callers),
    }
    failed = {number: sum(fault.promise == number for fault in faults) for number in tried}
    return {number: Tried(tried[number], failed[number]) for number in tried}


def _per_kind(testimony: Testimony, taken_over: Sequence[Takeover]) -> dict[str, Row]:
    strikes: defaultdict[str, list[Strike]] = defaultdict(list)
    for strike in testimony.strikes:
        strikes[strike.kind].append(strike)
    return {
        kind: Row(
            strikes=len(struck),
            takeover_s=Percentiles.of(t.after_s for t in taken_over if t.strike.kind == kind),
            bound_s=takeover_bound_s(kind, testimony.conditions),
            silence_s=Percentiles.of(_silences(testimony, struck)),
        )
        for kind, struck in sorted(strikes.items())
    }


def _silences(testimony: Testimony, strikes: Sequence[Strike]) -> Iterator[float]:
    """Of all callers, while these strikes lasted, or their consequences could."""
    windows = [
        (one.at_s, one.until_s + takeover_bound_s(one.kind, testimony.conditions))
        for one in strikes
    ]
    for caller in testimony.callers:
        began_s = testimony.offset_s(caller.report)
        for silence in caller.report.silences:
            from_s = began_s + silence.at_s
            to_s = from_s + silence.length_s
            if any(from_s <= end and to_s >= begin for begin, end in windows):
                yield silence.own_s
