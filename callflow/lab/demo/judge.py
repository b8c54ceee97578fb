"""Reads the journals back and says what came of it: what was lost, doubled or out of order.

It believes the callers about what was accepted and heard, and the journals about who did what
when. Pure: the same evidence gives the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.lab.demo.callers import Caller
from callflow.lab.demo.ear import misheard
from callflow.lab.demo.striker import Strike

LONGEST_SILENCE_S = 4.0
"""A promise: so long may a caller hear nothing, and no longer."""


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Of a number of times; all None when there were none."""

    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None

    @classmethod
    def of(cls, times: Iterable[float], digits: int = 3) -> Percentiles:
        """Nearest-rank percentiles: each of them is a time that was measured."""
        ranked = sorted(times)
        if not ranked:
            return cls()

        def rank(share: float) -> float:
            return round(ranked[max(0, -int(-share * len(ranked) // 1) - 1)], digits)

        return cls(rank(0.5), rank(0.95), rank(0.99), rank(1.0))


@dataclass(slots=True)
class Verdict:
    """What one run showed. `faults` has a sentence for everything that must not happen."""

    calls: int
    turns: int
    kills: int
    takeovers: int
    takeover_s: Percentiles
    pause_s: Percentiles
    turn_ms: Percentiles
    silence_s: Percentiles
    """What callers had to bear between their own words, or ours, and the next thing they heard."""
    too_silent: int
    lost: int
    repeated: int
    out_of_order: int
    fenced_writes: int
    leaked_keys: int
    to_human: int
    faults: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """True when nothing was lost, repeated, out of order or leaked, and nobody heard nothing
        for too long."""
        harm = self.lost or self.repeated or self.out_of_order or self.leaked_keys
        return not (harm or self.too_silent)


def judge(
    callers: Sequence[Caller],
    records: Mapping[str, CallRecord],
    journals: Mapping[str, Sequence[JournalEntry]],
    strikes: Sequence[Strike],
    leaked: Sequence[str],
    slack: float = 0,
) -> Verdict:
    """Compare what the callers heard with the records and the journals. `slack`: see `misheard`."""
    faults: dict[str, list[str]] = {"lost": [], "repeated": [], "out of order": [], "silent": []}
    for caller in callers:
        record = records.get(caller.call_sid)
        if record is None or caller.report is None:
            faults["lost"].append(f"call {caller.call_sid}: there is no record")
            continue
        _judge_call(caller, record, journals[caller.call_sid], faults, slack)
    disturbed = {
        (sid, entry.turn)
        for sid, journal in journals.items()
        for entry in journal
        if entry.event in ("reclaimed", "handed_back")
    }
    takeovers = [
        time_s for journal in journals.values() for time_s in takeover_times(journal, strikes)
    ]
    reports = [caller.report for caller in callers if caller.report is not None]
    return Verdict(
        calls=len(callers),
        turns=sum(len(report.turns) for report in reports),
        kills=len(strikes),
        takeovers=_count(journals, "reclaimed"),
        takeover_s=Percentiles.of(takeovers),
        pause_s=Percentiles.of(_pauses(callers, disturbed, hit=True)),
        turn_ms=Percentiles.of((s * 1000 for s in _pauses(callers, disturbed, hit=False)), 1),
        silence_s=Percentiles.of(one.own_s for each in reports for one in each.silences),
        too_silent=len(faults["silent"]),
        lost=len(faults["lost"]),
        repeated=len(faults["repeated"]),
        out_of_order=len(faults["out of order"]),
        fenced_writes=sum(
            entry.event == "refused" and entry.reason == "fenced"
            for journal in journals.values()
            for entry in journal
        ),
        leaked_keys=len(leaked),
        to_human=_count(journals, "transferred") + _count(journals, "accepted"),
        faults=[f"{kind}: {one}" for kind, found in faults.items() for one in found]
        + [f"leaked: {key} has no lifetime" for key in leaked],
    )


def takeover_times(journal: Sequence[JournalEntry], strikes: Sequence[Strike]) -> list[float]:
    """Seconds from each strike that hit a turn of this call to the turn's next claim."""
    times = []
    for index, entry in enumerate(journal):
        if entry.event != "claimed":
            continue
        later = journal[index + 1 :]
        let_go = next((e for e in later if e.event in _LETS_GO), None)
        again = next((e for e in later if e.event == "claimed"), None)
        for strike in strikes:
            held = entry.at <= strike.at_ms and (let_go is None or let_go.at >= strike.at_ms)
            if held and strike.hit(entry.worker) and let_go and let_go.event == "reclaimed":
                if again is not None:
                    times.append((again.at - strike.at_ms) / 1000)
                break
    return times


_LETS_GO = frozenset(
    {"committed", "handed_back", "reclaimed", "transferred", "accepted", "lost", "ended"}
)


def _judge_call(
    caller: Caller,
    record: CallRecord,
    journal: Sequence[JournalEntry],
    faults: dict[str, list[str]],
    slack: float,
) -> None:
    sid, report = caller.call_sid, caller.report
    assert report is not None
    said = Counter(
        e.text or e.digits or "" for e in record.conversation_thread if e.role == "caller"
    )
    accepted = Counter(clean(sid, turn.said) for turn in report.turns if turn.accepted)
    for text, count in accepted.items():
        if text and said[text] < count:
            faults["lost"].append(f"call {sid}: an utterance of {len(text)} letters")
    uttered = Counter(clean(sid, turn.said) for turn in report.turns)
    for text, count in said.items():
        if text and count > uttered[text]:
            faults["repeated"].append(f"call {sid}: an utterance of {len(text)} letters")
    if not report.with_human:
        faults["lost"] += [f"call {sid}: the reply to turn {turn.number}" for turn in report.lost]
    if report.failed:
        faults["lost"].append(f"call {sid}: the call, {'; '.join(report.failures[:2])}")
    committed = Counter(entry.turn for entry in journal if entry.event == "committed")
    for role in ("caller", "agent"):
        order = [e.turn for e in record.conversation_thread if e.role == role]
        if order != sorted(order):
            faults["out of order"].append(f"call {sid}: {role} turns stand as {order}")
        twice = [turn for turn, count in (Counter(order) + Counter()).items() if count > 1]
        faults["repeated"] += [f"call {sid}: turn {turn} stands more than once" for turn in twice]
    faults["repeated"] += [
        f"call {sid}: turn {turn} was committed {count} times"
        for turn, count in committed.items()
        if count > 1
    ]
    for kind, fault in misheard(report, record, caller.no_replies, slack):
        faults[kind].append(f"call {sid}: {fault}")
    faults["silent"] += [
        f"call {sid}: {one.own_s:.1f} s before {one.cause} in turn {one.turn}"
        for one in report.silences
        if one.own_s > LONGEST_SILENCE_S
    ]


def _pauses(
    callers: Sequence[Caller], disturbed: set[tuple[str, int | None]], *, hit: bool
) -> Iterable[float]:
    for caller in callers:
        for turn in caller.report.turns if caller.report is not None else ():
            struck = (caller.call_sid, turn.number) in disturbed
            if turn.reply_s is not None and struck is hit:
                yield turn.reply_s


def _count(journals: Mapping[str, Sequence[JournalEntry]], event: str) -> int:
    return sum(entry.event == event for journal in journals.values() for entry in journal)
