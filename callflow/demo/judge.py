"""Reads the journals back and says what came of it: what was lost, doubled or out of order.

It believes the callers about what was accepted and heard, and the journals about who did what
when. Pure: the same evidence gives the same verdict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from callflow.call.record import CallRecord
from callflow.call.utterance import clean
from callflow.demo.callers import Caller, SpokenTurn
from callflow.demo.striker import Strike
from callflow.store.journal import JournalEntry


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
    lost: int
    repeated: int
    out_of_order: int
    fenced_writes: int
    leaked_keys: int
    to_human: int
    faults: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """True when nothing was lost, repeated, out of order or leaked."""
        return not (self.lost or self.repeated or self.out_of_order or self.leaked_keys)


def judge(
    callers: Sequence[Caller],
    records: Mapping[str, CallRecord],
    journals: Mapping[str, Sequence[JournalEntry]],
    strikes: Sequence[Strike],
    leaked: Sequence[str],
) -> Verdict:
    """Compare what the callers saw with the records and the journals."""
    faults: dict[str, list[str]] = {"lost": [], "repeated": [], "out of order": []}
    for caller in callers:
        record = records.get(caller.call_sid)
        if record is None:
            faults["lost"].append(f"call {caller.call_sid}: there is no record")
            continue
        _judge_call(caller, record, journals[caller.call_sid], faults)
    disturbed = {
        (sid, entry.turn)
        for sid, journal in journals.items()
        for entry in journal
        if entry.event in ("reclaimed", "handed_back")
    }
    takeovers = [
        time_s for journal in journals.values() for time_s in takeover_times(journal, strikes)
    ]
    turns = [(caller, turn) for caller in callers for turn in caller.turns]
    return Verdict(
        calls=len(callers),
        turns=len(turns),
        kills=len(strikes),
        takeovers=_count(journals, "reclaimed"),
        takeover_s=Percentiles.of(takeovers),
        pause_s=Percentiles.of(_pauses(turns, disturbed, hit=True)),
        turn_ms=Percentiles.of((s * 1000 for s in _pauses(turns, disturbed, hit=False)), 1),
        lost=len(faults["lost"]),
        repeated=len(faults["repeated"]),
        out_of_order=len(faults["out of order"]),
        fenced_writes=sum(
            entry.event == "refused" and entry.reason == "fenced"
            for journal in journals.values()
            for entry in journal
        ),
        leaked_keys=len(leaked),
        to_human=_count(journals, "transferred"),
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


_LETS_GO = frozenset({"committed", "handed_back", "reclaimed", "transferred", "ended"})


def _judge_call(
    caller: Caller,
    record: CallRecord,
    journal: Sequence[JournalEntry],
    faults: dict[str, list[str]],
) -> None:
    sid = caller.call_sid
    said = {
        role: Counter(e.turn for e in record.conversation_thread if e.role == role)
        for role in ("caller", "agent")
    }
    committed = Counter(entry.turn for entry in journal if entry.event == "committed")
    for spoken in caller.turns:
        turn = spoken.turn
        if record.said(turn, "caller") != clean(sid, spoken.said):
            faults["lost"].append(f"call {sid}: the utterance of turn {turn}")
        if not said["agent"][turn] and not caller.with_human:
            faults["lost"].append(f"call {sid}: the reply to turn {turn}")
        if max(said["caller"][turn], said["agent"][turn], committed[turn]) > 1:
            faults["repeated"].append(f"call {sid}: turn {turn} stands more than once")
        faults["repeated"] += [f"call {sid}: {fault}" for fault in _misheard(spoken, record)]
    for role in ("caller", "agent"):
        order = [e.turn for e in record.conversation_thread if e.role == role]
        if order != sorted(order):
            faults["out of order"].append(f"call {sid}: {role} turns stand as {order}")


def _misheard(spoken: SpokenTurn, record: CallRecord) -> list[str]:
    """Where the reply in the caller's ear was unsaid or said again instead of growing."""
    faults = [
        f"turn {spoken.turn} was unsaid: {before!r} became {after!r}"
        for before, after in pairwise(spoken.heard)
        if not after.startswith(before)
    ]
    if spoken.replied_at is not None and spoken.heard:
        kept = record.said(spoken.turn, "agent")
        if kept != spoken.heard[-1]:
            faults.append(f"turn {spoken.turn}: heard {spoken.heard[-1]!r}, kept {kept!r}")
    return faults


def _pauses(
    turns: Sequence[tuple[Caller, SpokenTurn]],
    disturbed: set[tuple[str, int | None]],
    *,
    hit: bool,
) -> Iterable[float]:
    for caller, spoken in turns:
        pause = spoken.pause_s
        if pause is not None and ((caller.call_sid, spoken.turn) in disturbed) is hit:
            yield pause


def _count(journals: Mapping[str, Sequence[JournalEntry]], event: str) -> int:
    return sum(entry.event == event for journal in journals.values() for entry in journal)
