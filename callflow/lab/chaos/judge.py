"""Judges a run from outside: per promise, how often it was tried, and each time it was broken.

Believed are the callers, about what was taken from them and what they heard, and the run that
struck. The journals alone know which worker had a turn when it was struck: they time takeovers, and
acquit nobody. Pure: the same evidence gives the same verdict, so a run that was kept can be judged
again by a judge that has learned something.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from callflow.call.history import ENDS_CLAIM, CallHistory, JournalEntry
from callflow.call.record import CallRecord
from callflow.lab.chaos.call_judge import CallFindings, CallJudge
from callflow.lab.chaos.chaos_plan import KINDS, Harm
from callflow.lab.chaos.promises import PROMISES, Fault, FaultKind, added_s, takeover_bound_s
from callflow.lab.chaos.run_evidence import RunEvidence, Strike, escape_controls
from callflow.lab.percentiles import Percentiles

MOST_LETTERS_OF_A_LINE: Final = 160

MOST_FAULTS_TOLD: Final = 20
"""In the JSON object; the report has all."""

_REPLAY: Final = re.compile(r"callflow chaos(?: --[a-z-]+ [a-z0-9.,+-]+)*", re.ASCII)
"""Nobody is offered anything else out of a file, to be pasted into a shell."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """One turn that was hit. `after_s`: from the signal to the next claim, or to the human who came
    because nobody else did; where the worker handed the call back, or a server was away, from when
    it did, or was back. `bound_s`: what is allowed for it, with all that was struck meanwhile."""

    call_sid: str
    turn: int
    strike: Strike
    after_s: float
    bound_s: float


@dataclass(frozen=True, slots=True)
class StrikeStatistics:
    """One kind of strike. `takeover_s`: from the signal to the next claim of each turn that it hit,
    for which the design allows `bound_s`; `silence_s`: what callers heard nothing for while it
    lasted or its consequences could."""

    strikes: int
    takeover_s: Percentiles
    bound_s: float
    silence_s: Percentiles


@dataclass(frozen=True, slots=True)
class PromiseCount:
    """One promise: how often it was put to the test, and how often it was broken."""

    tried: int
    failed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was found. `faults` are in the order in which they happened."""

    seed: int
    replay: str
    """The command line that makes the same run again; empty where what was kept names another."""
    seconds: float
    calls: int
    turns: int
    """What callers said, acknowledged or not."""
    strikes: int
    per_kind: dict[str, StrikeStatistics]
    promises: dict[int, PromiseCount]
    detected: int
    """Utterances that a failover was allowed to take, and for which the caller was asked again."""
    reply_s: Percentiles
    silence_s: Percentiles
    takeover_s: Percentiles
    faults: tuple[Fault, ...]
    unmade: tuple[str, ...] = ()
    """Kinds of strikes that were asked for and for which the time was too short."""

    @property
    def good(self) -> bool:
        """True when every promise was kept, which nobody can say where nobody spoke."""
        return not self.faults and not self.untried

    @property
    def untried(self) -> bool:
        """True when no promise was put to the test, nor broken by itself: nobody said a word."""
        return not self.faults and not self.turns

    @property
    def unstruck(self) -> bool:
        """True when nothing was struck, and nothing broke by itself: it shows nothing."""
        return not self.faults and not self.strikes

    def count(self, *kinds: FaultKind) -> int:
        return sum(fault.kind in kinds for fault in self.faults)

    @property
    def broken(self) -> tuple[int, ...]:
        return tuple(sorted({fault.promise for fault in self.faults}))

    @property
    def harmed(self) -> tuple[str, ...]:
        """The calls in which something went wrong, in the order in which it did."""
        return tuple(dict.fromkeys(f.call_sid for f in self.faults if f.call_sid is not None))

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the last line of `callflow chaos --json`."""
        return {
            "good": self.good and not self.unstruck,
            "seed": self.seed,
            "replay": self.replay,
            "seconds": self.seconds,
            "calls": self.calls,
            "turns": self.turns,
            "strikes": self.strikes,
            "not_made": list(self.unmade),
            "per_kind": {kind: asdict(row) for kind, row in self.per_kind.items()},
            "lost": self.count(FaultKind.LOST, FaultKind.LEFT_OUT),
            "repeated": self.count(FaultKind.REPEATED, FaultKind.SAID_AGAIN, FaultKind.DOUBLED),
            "out_of_order": self.count(FaultKind.OUT_OF_ORDER, FaultKind.MISPLACED),
            "detected": self.detected,
            "reply_s": asdict(self.reply_s),
            "silence_s": asdict(self.silence_s),
            "takeover_s": asdict(self.takeover_s),
            "promises": {
                str(number): {"promise": PROMISES[number], **asdict(tried)}
                for number, tried in self.promises.items()
            },
            "faults": [escape_controls(str(fault)) for fault in self.faults[:MOST_FAULTS_TOLD]],
        }

    def as_json(self) -> str:
        return json.dumps(self.as_dict(), ensure_ascii=False)


def judge(evidence: RunEvidence, records: Mapping[str, CallRecord] | None = None) -> Verdict:
    """The verdict on a run. Nothing is asked again, nothing is measured.

    `records`: those of the demo, by which its replies are known; see `call_judge`.
    """
    found = [_judge_call(evidence, number, records) for number in range(len(evidence.callers))]
    takeovers = find_takeovers(evidence)
    faults = sorted(
        [
            *(fault for findings in found for fault in findings.faults),
            *_find_late_takeovers(takeovers),
            *_find_faults_of_run(evidence),
        ]
    )
    reports = [caller.report for caller in evidence.callers]
    conditions = evidence.conditions
    return Verdict(
        seed=conditions.seed,
        replay=conditions.command if _REPLAY.fullmatch(conditions.command) else "",
        seconds=conditions.seconds,
        calls=len(reports),
        turns=sum(len(report.turns) for report in reports),
        strikes=len(evidence.strikes),
        per_kind=_count_per_kind(evidence, takeovers),
        promises=_count_promises(evidence, found, faults),
        detected=sum(findings.losses for findings in found),
        reply_s=Percentiles.of(time_s for findings in found for time_s in findings.reply_s),
        silence_s=Percentiles.of(one.own_s for report in reports for one in report.silences),
        takeover_s=Percentiles.of(one.after_s for one in takeovers),
        faults=tuple(faults),
        unmade=tuple(
            kind
            for kind in conditions.kinds
            if all(strike.kind != kind for strike in evidence.strikes)
        ),
    )


def _judge_call(
    evidence: RunEvidence, number: int, records: Mapping[str, CallRecord] | None
) -> CallFindings:
    caller = evidence.callers[number]
    began_s = evidence.offset_s(caller.report)
    judging = CallJudge(caller, evidence.conditions, evidence.strikes, began_s)
    if records is None:
        return judging.judge()
    sid = caller.call_sid
    return judging.judge_by_record(records.get(sid), evidence.journals.get(sid, ()))


def find_takeovers(evidence: RunEvidence) -> list[Takeover]:
    """Every turn of which the journals know that a strike made it wait for its next worker: who
    was struck had it, or a message that was lost was on its way to one."""
    return [
        found
        for call_sid, journal in evidence.journals.items()
        for found in (
            *_find_lost_claims(evidence, call_sid, journal),
            *_find_unclaimed(evidence, call_sid, journal),
        )
    ]


def _find_lost_claims(
    evidence: RunEvidence, call_sid: str, journal: Sequence[JournalEntry]
) -> Iterator[Takeover]:
    for claim in CallHistory.of(journal).claims:
        if claim.ended_at is None or claim.taken_up_at is None:
            continue
        for strike in evidence.strikes:
            held = claim.at <= strike.at_ms <= claim.ended_at
            if held and strike.hit(claim.worker) and KINDS[strike.kind].harm is not Harm.POISON:
                handed_back = claim.ended_by == "handed_back"
                since_ms = claim.ended_at if handed_back else strike.at_ms
                waited = (since_ms, claim.taken_up_at)
                yield _time_takeover(evidence, call_sid, claim.turn, strike, waited)
                break


def _find_unclaimed(
    evidence: RunEvidence, call_sid: str, journal: Sequence[JournalEntry]
) -> Iterator[Takeover]:
    """Turns that were owed, and that nobody had, while messages were lost or no server was there
    to claim them at."""
    owed: JournalEntry | None = None
    busy = False
    for entry in journal:
        if entry.event == "heard" and owed is None and not busy:
            owed = entry
        elif entry.event in ("claimed", "accepted", "ended"):
            if owed is not None and entry.event != "ended":
                yield from _find_wait(evidence, call_sid, owed, entry)
            owed, busy = None, entry.event == "claimed"
        elif entry.event in ENDS_CLAIM:
            busy = False


def _find_wait(
    evidence: RunEvidence, call_sid: str, owed: JournalEntry, taken: JournalEntry
) -> Iterator[Takeover]:
    def until_ms(strike: Strike) -> int:
        return strike.at_ms + round((strike.until_s - strike.at_s) * 1000)

    meanwhile = [
        strike
        for strike in evidence.strikes
        if KINDS[strike.kind].harm in (Harm.MESSAGE, Harm.SERVER)
        and strike.at_ms <= taken.at
        and until_ms(strike) >= owed.at
    ]
    if meanwhile:
        strike = max(meanwhile, key=until_ms)
        # What is away is waited for; the bound begins when the last of it is back.
        since_ms = max(owed.at, min(until_ms(strike), taken.at))
        yield _time_takeover(evidence, call_sid, owed.turn, strike, (since_ms, taken.at))


def _time_takeover(
    evidence: RunEvidence,
    call_sid: str,
    turn: int | None,
    strike: Strike,
    waited_ms: tuple[int, int],
) -> Takeover:
    since_ms, taken_ms = waited_ms
    from_s = strike.at_s + (since_ms - strike.at_ms) / 1000
    after_s = (taken_ms - since_ms) / 1000
    others = [one for one in evidence.strikes if one is not strike]
    bound_s = takeover_bound_s(strike.kind, evidence.conditions)
    bound_s += added_s(others, from_s, from_s + after_s)
    return Takeover(call_sid, turn or 0, strike, after_s, bound_s)


def _find_late_takeovers(takeovers: Sequence[Takeover]) -> Iterator[Fault]:
    for one in takeovers:
        if one.after_s > one.bound_s:
            detail = (
                f"turn {one.turn} waited {one.after_s:.2f} s of {one.bound_s:.2f} s for its next "
                f"worker after {one.strike.kind}"
            )
            yield Fault(round(one.strike.at_s, 3), FaultKind.LATE_TAKEOVER, one.call_sid, detail)


def _find_faults_of_run(evidence: RunEvidence) -> Iterator[Fault]:
    ended_s = max(
        (evidence.offset_s(c.report) + c.report.duration_s for c in evidence.callers),
        default=0.0,
    )
    for log in evidence.fallen:
        yield Fault(ended_s, FaultKind.FALLEN, None, f"nobody had struck it: {_shorten(log)}")
    for key in evidence.leaked:
        yield Fault(ended_s, FaultKind.LEAK, None, f"{key} has no lifetime")


def _shorten(log: str) -> str:
    """Of a log its first line and its last one, which says what happened."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    ends = lines if len(lines) < 3 else [lines[0], lines[-1]]
    return " … ".join(line[:MOST_LETTERS_OF_A_LINE] for line in ends)


def _count_promises(
    evidence: RunEvidence, found: Sequence[CallFindings], faults: Sequence[Fault]
) -> dict[int, PromiseCount]:
    acknowledged = sum(findings.acknowledged for findings in found)
    histories = map(CallHistory.of, evidence.journals.values())
    tried = {
        1: acknowledged,
        2: sum(findings.replies for findings in found),
        3: acknowledged,
        4: len(evidence.strikes),
        5: sum(history.takeovers for history in histories),
        6: len({strike.call_sid for strike in evidence.strikes if strike.call_sid is not None}),
        7: sum(findings.silences for findings in found),
        8: len(evidence.callers),
    }
    failed = Counter(fault.promise for fault in faults)
    return {number: PromiseCount(tried[number], failed[number]) for number in tried}


def _count_per_kind(
    evidence: RunEvidence, takeovers: Sequence[Takeover]
) -> dict[str, StrikeStatistics]:
    strikes: defaultdict[str, list[Strike]] = defaultdict(list)
    for strike in evidence.strikes:
        strikes[strike.kind].append(strike)
    return {
        kind: StrikeStatistics(
            strikes=len(struck),
            takeover_s=Percentiles.of(t.after_s for t in takeovers if t.strike.kind == kind),
            bound_s=takeover_bound_s(kind, evidence.conditions),
            silence_s=Percentiles.of(_find_silences(evidence, struck)),
        )
        for kind, struck in sorted(strikes.items())
    }


def _find_silences(evidence: RunEvidence, strikes: Sequence[Strike]) -> Iterator[float]:
    """Of all callers, while these strikes lasted, or their consequences could."""
    windows = [
        (one.at_s, one.until_s + takeover_bound_s(one.kind, evidence.conditions)) for one in strikes
    ]
    for caller in evidence.callers:
        began_s = evidence.offset_s(caller.report)
        for silence in caller.report.silences:
            from_s = began_s + silence.at_s
            to_s = from_s + silence.length_s
            if any(from_s <= end and to_s >= begin for begin, end in windows):
                yield silence.own_s
