"""Testimonies of runs that never were: clean ones, made of calls in which nothing went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from callflow.lab.carrier.call_report import CallReport, HeardSound, Kind, Silence, SpokenTurn
from callflow.lab.chaos.run_evidence import CallEvidence, RunConditions, RunEvidence, Strike
from callflow.responder.phrases import generic
from callflow.responder.synthetic import PARTS, Counted, code_of

CONDITIONS = RunConditions(seed=7, seconds=60, command="callflow chaos --seed 7", speed=4.0)
LETTERS_PER_S = CONDITIONS.speed * CONDITIONS.letters_per_s
WORDS = ("alfa", "bravo", "kilo", "lima", "mike", "oscar", "papa", "romeo", "tango", "zulu")
EN = generic("en")


def utterance(call: int, turn: int) -> str:
    """What is said in one turn of one call, and nowhere else."""
    first, second = WORDS[call % 10], WORDS[turn % 10]
    return f"It is dark in here, {first} {second} {call * 100 + turn}"


def sentence(call: int, turn: int, part: int, seen: int | None = None) -> str:
    """One sentence of the reply to it."""
    code = code_of(utterance(call, turn))
    return Counted(turn, part, PARTS, turn if seen is None else seen, turn, code).text


def reply(call: int, turn: int) -> list[str]:
    """All of its sentences."""
    return [sentence(call, turn, part) for part in range(1, PARTS + 1)]


@dataclass
class Talk:
    """A call being made up, piece by piece. Times are those of its report, s."""

    call: int = 0
    relay: bool = True
    report: CallReport = field(init=False)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        sid = f"CA{self.call:032x}"
        self.report = CallReport(sid, "+1", "+2", "en", 1000.0 + self.call, ended_by="caller")
        self.hear(f"{EN['line']} {EN['disclosure']} {EN['ask_first']}")

    def hear(self, text: str, *, kind: Kind | None = None, cut: bool = False) -> HeardSound:
        """Something is heard, and takes its time."""
        length_s = len(text) / LETTERS_PER_S
        heard = HeardSound(
            *(self.now_s, text, kind or ("relay" if self.relay else "gather")),
            until_s=self.now_s + length_s,
            cut=cut,
        )
        turns = self.report.turns
        (turns[-1].heard if turns else self.report.greeting).append(heard)
        self.now_s += length_s
        self.report.duration_s = self.now_s + 0.1
        return heard

    def say(self, text: str, **more: Any) -> SpokenTurn:
        """The caller says something, and it is taken from them."""
        self.now_s += 1.0
        turn = SpokenTurn(len(self.report.turns) + 1, text, self.now_s, accepted=True, **more)
        self.now_s = turn.ended_s = self.now_s + len(text) / LETTERS_PER_S
        self.report.turns.append(turn)
        return turn

    def wait(self, seconds: float, cause: Any = "reply") -> None:
        """Nothing is heard, and somebody owes a word."""
        number = self.report.turns[-1].number if self.report.turns else 0
        self.report.silences.append(Silence(self.now_s, seconds, cause, number))
        self.now_s += seconds
        self.report.duration_s = self.now_s + 0.1

    def exchange(self, turn: int, *, wait_s: float = 0.3) -> None:
        """One utterance, and the whole reply to it."""
        self.say(utterance(self.call, turn))
        self.wait(wait_s)
        self.hear(" ".join(reply(self.call, turn)))

    def broken_exchange(self, turn: int, part: int, letters: int) -> None:
        """The line breaks in one sentence of the reply, which is said again from there."""
        self.say(utterance(self.call, turn))
        self.wait(0.4)
        sentences = reply(self.call, turn)
        heard = " ".join([*sentences[: part - 1], sentences[part - 1][:letters]]).rstrip()
        if heard:
            self.hear(heard, cut=True)
        self.wait(0.8, "session")
        self.hear(" ".join([EN["still_here"], *sentences[part - 1 :]]))

    def caller(self, **more: Any) -> CallEvidence:
        """Who has made this call."""
        return CallEvidence(self.report, "relay" if self.relay else "gather", **more)


def clean_call(call: int = 0, turns: int = 3, *, relay: bool = True) -> Talk:
    """A call in which everything went well."""
    talk = Talk(call, relay)
    for turn in range(1, turns + 1):
        talk.exchange(turn)
    return talk


def strike(kind: str = "worker-kill", at_s: float = 5.0, **more: Any) -> Strike:
    """One strike, over as soon as it was done."""
    given: dict[str, Any] = {"victims": ("w1@h",), "until_s": at_s, "at_ms": round(at_s * 1000)}
    return Strike(kind=kind, name=f"{kind} of w1", at_s=at_s, **{**given, **more})


def run_of(
    talks: Sequence[Talk] = (), *, strikes: Sequence[Strike] = (), **more: Any
) -> RunEvidence:
    """The evidence of a run with these calls."""
    conditions = replace(CONDITIONS, min_replicas=more.pop("min_replicas", 0))
    callers = more.pop("callers", tuple(talk.caller() for talk in talks))
    return RunEvidence(conditions, 1000.0, callers, tuple(strikes), **more)
