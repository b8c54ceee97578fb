"""One call as lanes over time: what its caller said and heard, who worked on it, what was struck.

`picture` gathers it, `svg` draws it, `text` tells it to a terminal. No word that anybody said
stands in it: turns and sentences have numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from callflow.call.history import JournalEntry
from callflow.lab.carrier.report import Turn
from callflow.lab.chaos.bounds import LONGEST_SILENCE_S
from callflow.lab.chaos.faults import Fault
from callflow.lab.chaos.hearing import Event, Sound, listen
from callflow.lab.chaos.witness import Caller, Testimony

LANES: Final = ("said", "heard", "silence", "worker")

_ENDS: Final = {"committed", "handed_back", "reclaimed", "transferred", "accepted", "lost", "ended"}
_PLAIN_TO_SEE: Final = {"heard", "drafted", "understood", "committed"}
"""Of the journal, what other bars show."""

_SHORTEST_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted. Times count from the beginning of the run, s; `look` is how it is
    drawn, `label` stands in it and `tip` beside the pointer."""

    lane: str
    from_s: float
    to_s: float
    look: str
    label: str
    tip: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All that is drawn of one call."""

    call_sid: str
    title: str
    from_s: float
    to_s: float
    bars: list[Bar] = field(default_factory=list)
    strikes: list[Bar] = field(default_factory=list)
    """Over all lanes."""
    faults: list[Fault] = field(default_factory=list)


def picture(testimony: Testimony, caller: Caller, faults: Sequence[Fault]) -> Picture:
    """Gather one call. `faults`: of the whole run."""
    report = caller.report
    began_s = testimony.offset_s(report)
    ended_s = began_s + report.duration_s
    own = [fault for fault in faults if fault.call_sid == caller.call_sid]
    bars = [*_said(report.turns, began_s), *_heard(listen(report), began_s, ended_s)]
    for one in report.silences:
        begin, length_s = began_s + one.at_s, one.length_s
        look = "too-long" if one.own_s > LONGEST_SILENCE_S else "silence"
        label = f"{length_s:.1f}" if length_s >= 1 else ""
        tip = f"{length_s:.2f} s of silence before {one.cause}"
        bars.append(Bar("silence", begin, begin + length_s, look, label, tip))
    journal = testimony.journals.get(caller.call_sid, ())
    bars += _worked(journal, testimony.began_at, ended_s)
    strikes = [
        Bar(
            "strike",
            one.at_s,
            one.until_s,
            "strike",
            one.kind,
            f"{one.name}: {', '.join(one.victims)}",
        )
        for one in testimony.strikes
        if one.at_s <= ended_s and one.until_s >= began_s
    ]
    title = f"{caller.call_sid} · {caller.line}" + (" · poison" if caller.poison else "")
    return Picture(caller.call_sid, title, began_s, ended_s, bars, strikes, own)


def _said(turns: Sequence[Turn], began_s: float) -> Iterator[Bar]:
    for turn in turns:
        taken = "taken" if turn.accepted else "not taken"
        how = " · interrupts" if turn.interrupted else " · once more" if turn.repeated else ""
        yield Bar(
            *("said", began_s + turn.began_s, began_s + max(turn.ended_s, turn.began_s)),
            "said" if turn.accepted else "untaken",
            str(turn.number),
            f"turn {turn.number}, {taken}{how}",
        )


_LOOK: Final = {
    Sound.PART: "part",
    Sound.BEGUN: "begun",
    Sound.HUMAN: "human",
    Sound.PLAIN: "plain",
    Sound.ASKED_AGAIN: "asked",
    Sound.STOCK: "stock",
}


def _heard(events: Sequence[Event], began_s: float, ended_s: float) -> Iterator[Bar]:
    for event in events:
        label, tip = "", event.sound.replace("_", " ")
        if event.turn:
            label = f"{event.turn}.{event.part}"
            tip = f"reply {event.turn}, part {event.part}"
            tip += " (broke off)" if event.sound is Sound.BEGUN else ""
            if event.said is not None:
                tip += f", by somebody who knew of {event.said.seen} turns"
        at_s = began_s + event.at_s
        to_s = ended_s if event.until_s is None else began_s + event.until_s
        yield Bar("heard", at_s, max(to_s, at_s), _LOOK.get(event.sound, "phrase"), label, tip)


def _worked(journal: Sequence[JournalEntry], began_at: float, ended_s: float) -> Iterator[Bar]:
    """Who had the call, by the journal: from each claim to what ended it."""
    for index, entry in enumerate(journal):
        at_s = entry.at / 1000 - began_at
        if entry.event != "claimed":
            if entry.event not in _PLAIN_TO_SEE:
                reason = f", {entry.reason}" if entry.reason else ""
                yield Bar("worker", at_s, at_s, "note", "", f"{entry.event}{reason}")
            continue
        end = next((later for later in journal[index + 1 :] if later.event in _ENDS), None)
        to_s = ended_s if end is None else end.at / 1000 - began_at
        how = "never let go" if end is None else end.event.replace("_", " ")
        why = f" ({end.reason})" if end is not None and end.reason else ""
        name = (entry.worker or "?").partition("@")[0]
        look = "claim" if end is not None and end.event == "committed" else "lost-claim"
        tip = f"turn {entry.turn} by {entry.worker}, fence {entry.fence}: {how}{why}"
        yield Bar("worker", at_s, to_s, look, name, tip)


def text(shown: Picture) -> str:
    """The same as lines in the order of time, for a terminal."""
    lines: list[tuple[float, str]] = []
    for bar in (*shown.bars, *shown.strikes):
        length_s = bar.to_s - bar.from_s
        lasts = f" ({length_s:.2f} s)" if length_s >= _SHORTEST_S else ""
        lane = "STRIKE" if bar.lane == "strike" else bar.lane
        what = f"{bar.label}: {bar.tip}" if bar.lane == "strike" else bar.tip
        lines.append((bar.from_s, f"{bar.from_s:8.2f} s  {lane:<8} {what}{lasts}"))
    for fault in shown.faults:
        lines.append((fault.at_s, f"{fault.at_s:8.2f} s  FAULT    {fault.kind}: {fault.detail}"))
    return "\n".join([shown.title, *(line for _, line in sorted(lines, key=lambda one: one[0]))])
