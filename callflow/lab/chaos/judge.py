"""Judges a run from outside: per promise, how often it was tried, and each time it was broken.

Believed are the callers, about what was taken from them and what they heard, and the run that
struck. The journals alone know which worker had a turn when it was struck: they time takeovers, and
acquit nobody. Pure: the same evidence gives the same verdict, so a run that was kept can be judged
again by a judge that has learned something.

`CallJudge` judges one call by what its caller said, what was taken from them, and what they heard.
Of a run of chaos nothing of callflow's own is read for that, neither its record nor its journal. Of
the demo, whose replies do not say what they answer, the record tells what was taken and what was
said.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from callflow.call.history import ENDS_CLAIM, CallHistory, JournalEntry
from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.lab.carrier.call_report import SpokenTurn
from callflow.lab.chaos.audio_checks import (
    EARSHOT_S,
    Complaint,
    HeardEvent,
    HeardReply,
    ReplyChecker,
    Sound,
    compare_with_record,
    listen,
)
from callflow.lab.chaos.chaos_plan import KINDS, Harm
from callflow.lab.chaos.promises import (
    LONGEST_SILENCE_S,
    POISON_COSTS,
    PROMISES,
    Fault,
    FaultKind,
    added_s,
    reply_bound_s,
    takeover_bound_s,
)
from callflow.lab.chaos.run_evidence import (
    CallEvidence,
    RunConditions,
    RunEvidence,
    Strike,
    escape_controls,
)
from callflow.lab.percentiles import Percentiles
from callflow.responder.synthetic import code_of


@dataclass(slots=True)
class Utterance:
    """What was said, once or, because nobody reacted or it was asked for, several times."""

    code: str
    turns: list[SpokenTurn]

    @property
    def accepted(self) -> list[SpokenTurn]:
        """The times at which it was taken from the caller."""
        return [turn for turn in self.turns if turn.accepted]


@dataclass(slots=True)
class CallFindings:
    """What one call showed. `losses`: utterances that a failover was allowed to take, and of which
    the caller was told."""

    acknowledged: int = 0
    replies: int = 0
    silences: int = 0
    losses: int = 0
    reply_s: list[float] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)


class CallJudge:
    """Judges one caller's call. `began_s`: when the call began, since the run did."""

    def __init__(
        self,
        caller: CallEvidence,
        conditions: RunConditions,
        strikes: Sequence[Strike],
        began_s: float,
    ) -> None:
        self._caller = caller
        self._report = caller.report
        self._conditions = conditions
        self._strikes = strikes
        self._began_s = began_s
        self._events = listen(caller.report)
        self._slack = EARSHOT_S * conditions.letters_per_s * conditions.speed
        self._replies = ReplyChecker(caller.report.turns, self._slack)
        self._found = CallFindings()

    def judge(self) -> CallFindings:
        """What must not happen to a caller whose replies say themselves what they answer."""
        self._check_replies()
        for utterance in self._utterances():
            self._check_answer(utterance)
        self._check_end()
        self._check_poison()
        return self._finish()

    def judge_by_record(
        self, record: CallRecord | None, journal: Sequence[JournalEntry]
    ) -> CallFindings:
        """The same where only the record, if there is one, tells what the replies were."""
        if record is None:
            self._blame(FaultKind.LOST, 0.0, "there is no record")
            return self._finish()
        self._check_record(record, journal)
        if not self._report.with_human:
            for turn in self._report.lost:
                self._blame(FaultKind.LOST, turn.ended_s, f"the reply to turn {turn.number}")
        if self._report.failed:
            detail = f"the call, {'; '.join(self._report.failures[:2])}"
            self._blame(FaultKind.DROPPED, self._report.duration_s, detail)
        for complaint in compare_with_record(self._report, record, self._slack):
            self._blame(complaint.kind, complaint.at_s, complaint.detail)
        return self._finish()

    def _finish(self) -> CallFindings:
        self._found.silences = len(self._report.silences)
        for one in self._report.silences:
            if one.own_s > LONGEST_SILENCE_S:
                detail = f"{one.own_s:.1f} s before {one.cause}, in turn {one.turn}"
                self._blame(FaultKind.SILENCE, one.at_s, detail)
        self._found.replies = len(self._replies.heard)
        self._found.faults.sort()
        return self._found

    def _check_record(self, record: CallRecord, journal: Sequence[JournalEntry]) -> None:
        """All that was taken from the caller stands in the record, once and in order."""
        sid, turns = self._caller.call_sid, self._report.turns
        stored = Counter(
            entry.text or entry.digits or ""
            for entry in record.conversation_thread
            if entry.role == "caller"
        )
        accepted = Counter(clean(sid, turn.said) for turn in turns if turn.accepted)
        uttered = Counter(clean(sid, turn.said) for turn in turns)
        for text in {*accepted, *stored} - {""}:
            if stored[text] < accepted[text]:
                self._blame(FaultKind.LOST, 0.0, f"an utterance of {len(text)} letters")
            if stored[text] > uttered[text]:
                self._blame(FaultKind.DOUBLED, 0.0, f"an utterance of {len(text)} letters")
        for role in ("caller", "agent"):
            order = [e.turn for e in record.conversation_thread if e.role == role]
            if order != sorted(order):
                self._blame(FaultKind.OUT_OF_ORDER, 0.0, f"{role} turns stand as {order}")
            self._blame_repeats(order, "turn {0} stands more than once")
        committed = [entry.turn for entry in journal if entry.event == "committed"]
        self._blame_repeats(committed, "turn {0} was committed {1} times")

    def _blame_repeats(self, turns: Sequence[int | None], sentence: str) -> None:
        for turn, count in Counter(turns).items():
            if count > 1:
                self._blame(FaultKind.DOUBLED, 0.0, sentence.format(turn, count))

    def _check_replies(self) -> None:
        for event in self._events:
            if event.sound is Sound.PART and self._may_lose(event.at_s):
                self._replies.forgive_forgetting()
            if event.sound is Sound.OPENING and event.after > 0:
                self._blame(FaultKind.FORGOTTEN, event.at_s, "the call was opened once more")
            self._replies.take(event)
        for complaint in self._replies.complaints:
            if not (complaint.kind is FaultKind.SAID_AGAIN and self._nobody_could_tell(complaint)):
                self._blame(complaint.kind, complaint.at_s, complaint.detail)
        for reply in self._replies.heard.values():
            self._check_whole(reply)

    def _nobody_could_tell(self, complaint: Complaint) -> bool:
        """True when two machines were struck at once: while the reply was heard the server was
        away, and so was the process that alone knew how far it was."""
        event = complaint.event
        if event is None or event.said is None:
            return False
        from_s = self._began_s + self._replies.heard[event.said.turn].first.at_s
        to_s = self._began_s + event.at_s
        harms = {
            KINDS[one.kind].harm
            for one in self._strikes
            if one.at_s <= to_s and one.until_s >= from_s
        }
        return {Harm.SERVER, Harm.LINE} <= harms

    def _utterances(self) -> Iterator[Utterance]:
        """What was said, in order; the same words are the same utterance."""
        found: dict[str, Utterance] = {}
        for turn in self._report.turns:
            if turn.said.strip():
                code = code_of(turn.said)
                found.setdefault(code, Utterance(code, [])).turns.append(turn)
        yield from found.values()

    def _check_answer(self, utterance: Utterance) -> None:
        """What was taken is answered, once and in time."""
        replies = self._replies.answered(utterance.code)
        if len(replies) > len(utterance.turns):
            again = replies[len(utterance.turns)]
            detail = f"turn {utterance.turns[0].number} was answered {len(replies)} times"
            self._blame(FaultKind.REPEATED, again.first.at_s, detail)
        if not utterance.accepted:
            return
        self._found.acknowledged += 1
        first = utterance.accepted[0]
        answer_s = self._answer_s(utterance, replies)
        if self._asked_again(utterance, answer_s):
            self._count_loss(first)
        bound_s = self._bound_s(first)
        if answer_s is None:
            waited_s = self._report.duration_s - first.ended_s
            if waited_s >= bound_s or self._passed_over(utterance):
                detail = f"turn {first.number} was taken and not answered"
                self._blame(FaultKind.LOST, first.ended_s, detail)
            return
        took_s = answer_s - first.ended_s
        self._found.reply_s.append(took_s)
        if took_s > bound_s:
            detail = f"the answer to turn {first.number} took {took_s:.1f} s of {bound_s:.1f} s"
            self._blame(FaultKind.LATE, answer_s, detail)

    def _answer_s(self, utterance: Utterance, replies: Sequence[HeardReply]) -> float | None:
        """When somebody began to answer it: a worker, the script of a procedure, or a human."""
        times = [reply.first.at_s for reply in replies]
        until = self._next_answer(utterance)
        first = utterance.accepted[0]
        for event in self._events:
            if event.after >= first.number and event.at_s < until:
                spoke_over = event.sound is Sound.BEGUN and self._replies.spoke_over(event.after)
                if event.sound in (Sound.HUMAN, Sound.PLAIN) or (spoke_over and not event.turn):
                    times.append(event.at_s)
        return min(times, default=None)

    def _passed_over(self, utterance: Utterance) -> bool:
        """True when what was said later was answered, and the caller did not cut the answer off."""
        cut_off = self._replies.spoke_over(utterance.turns[-1].number)
        return self._next_answer(utterance) < float("inf") and not cut_off

    def _next_answer(self, utterance: Utterance) -> float:
        """When something that was said later began to be answered."""
        last = utterance.turns[-1].number
        later = {code_of(turn.said) for turn in self._report.turns[last:]} - {utterance.code}
        times = [r.first.at_s for r in self._replies.heard.values() if r.code in later]
        return min(times, default=float("inf"))

    def _asked_again(self, utterance: Utterance, answer_s: float | None) -> bool:
        """True when callflow had to ask for what it had taken, before anybody answered it."""
        taken = {turn.number for turn in utterance.accepted}
        return any(
            event.sound is Sound.ASKED_AGAIN
            and event.after in taken
            and (answer_s is None or event.at_s < answer_s)
            for event in self._events
        )

    def _count_loss(self, turn: SpokenTurn) -> None:
        if self._may_lose(self._report.duration_s):
            self._found.losses += 1
        else:
            detail = f"turn {turn.number} was taken, and then asked for again"
            self._blame(FaultKind.LOST, turn.ended_s, detail)

    def _may_lose(self, until_s: float) -> bool:
        """True when a failover before then was allowed to take writes."""
        if self._conditions.min_replicas > 0:
            return False
        return any(
            strike.loses_writes and strike.at_s - self._began_s <= until_s
            for strike in self._strikes
        )

    def _bound_s(self, turn: SpokenTurn) -> float:
        bound_s = reply_bound_s(self._conditions)
        from_s = self._began_s + turn.ended_s
        return bound_s + added_s(self._strikes, from_s, from_s + bound_s)

    def _check_whole(self, reply: HeardReply) -> None:
        """A reply that was begun is heard to its end, unless somebody spoke over it or took over.

        An end that a failover took counts as a loss; see `_count_loss`.
        """
        for part, event in reply.skipped.items():
            detail = f"part {part} of reply {reply.turn} was not heard"
            self._blame(FaultKind.LEFT_OUT, event.at_s, detail)
        last = reply.last
        if reply.whole or self._replies.spoke_over(last.after):
            return
        behind = [e for e in self._events if e.after == last.after and e.at_s > last.at_s]
        if any(event.sound in (Sound.HUMAN, Sound.PLAIN) for event in behind):
            return
        left_in_it = last.after == len(self._report.turns) and self._hung_up_soon(last)
        if not left_in_it:
            detail = f"reply {reply.turn} was not heard behind part {reply.heard_to}"
            self._blame(FaultKind.LEFT_OUT, last.at_s, detail)

    def _hung_up_soon(self, last: HeardEvent) -> bool:
        waited_s = self._report.duration_s - last.at_s
        return self._report.ended_by == "caller" and waited_s < reply_bound_s(self._conditions)

    def _check_end(self) -> None:
        report = self._report
        if report.failed or report.ended_by == "carrier":
            detail = "the carrier said that there is an error"
        elif report.ended_by == "application" and not report.with_human:
            detail = "the line was closed on the caller"
        elif report.gave_up and not report.with_human:
            detail = "the caller gave up"
        else:
            return
        self._blame(FaultKind.DROPPED, report.duration_s, detail)

    def _check_poison(self) -> None:
        """Whoever's turn kills its workers is put through; so is whoever heard the plain script."""
        struck = [s for s in self._strikes if s.call_sid == self._caller.call_sid]
        for strike in struck:
            if len(strike.victims) > POISON_COSTS:
                detail = f"one turn has killed {len(strike.victims)} processes"
                self._blame(FaultKind.POISON, strike.at_s - self._began_s, detail)
        plain = (event.at_s for event in self._events if event.sound is Sound.PLAIN)
        began_s = min((s.at_s - self._began_s for s in struck), default=next(plain, None))
        if began_s is None or self._report.with_human:
            return
        waited_s = self._report.duration_s - began_s
        if waited_s >= reply_bound_s(self._conditions):
            self._blame(FaultKind.POISON, began_s, f"no human came within {waited_s:.1f} s")

    def _blame(self, kind: FaultKind, at_s: float, detail: str) -> None:
        fault = Fault(round(self._began_s + at_s, 3), kind, self._caller.call_sid, detail)
        self._found.faults.append(fault)


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

    `records`: those of the demo, by which its replies are known; see `CallJudge`.
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
