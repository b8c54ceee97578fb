"""The judge can fail a run: to a clean one, whatever it is, one wrong is done, and the judge finds
exactly that one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from callflow.lab.carrier.call_report import HeardSound
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.promises import FaultKind
from callflow.responder.synthetic import PARTS, Counted
from tests.chaos_lab.made_evidence import EN, Talk, run_of, sentence, utterance


@dataclass(frozen=True)
class Shape:
    """Of a clean call: its turns, where its line breaks, and the turn to which the wrong is done
    (the second of three at least, so that there is something before and behind it)."""

    turns: int
    wronged: int
    part: int
    broken: frozenset[int]
    relay: bool

    def talk(self) -> Talk:
        """A clean call of this shape; where the wrong is done, no line breaks."""
        talk = Talk(relay=self.relay)
        for turn in range(1, self.turns + 1):
            if turn in self.broken - {self.wronged, self.wronged + 1}:
                talk.broken_exchange(turn, part=2, letters=17)
            else:
                talk.exchange(turn)
        return talk

    def heard(self, talk: Talk) -> HeardSound:
        """The reply to which the wrong is done."""
        return talk.report.turns[self.wronged - 1].heard[-1]

    def sentence(self, part: int | None = None) -> str:
        """The sentence to which it is done."""
        return sentence(0, self.wronged, part or self.part)


SHAPES = st.builds(
    lambda turns, wronged, part, broken, relay: Shape(
        turns, min(wronged, turns - 1), part, broken, relay
    ),
    turns=st.integers(3, 6),
    wronged=st.integers(2, 5),
    part=st.integers(1, PARTS),
    broken=st.frozensets(st.integers(1, 6)),
    relay=st.booleans(),
)


def _wrongs() -> dict[str, tuple[FaultKind, Callable[[Shape, Talk], None]]]:
    def say_nothing(shape: Shape, talk: Talk) -> None:
        talk.report.turns[shape.wronged - 1].heard.clear()

    def end_by_saying_nothing(_: Shape, talk: Talk) -> None:
        talk.report.turns[-1].heard.clear()
        talk.report.duration_s += 200

    def only_hold(shape: Shape, talk: Talk) -> None:
        shape.heard(talk).text = EN["hold_1"]

    def ask_again(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text = f"{EN['say_again']} {heard.text}"

    def leave_out(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text = " ".join(heard.text.replace(shape.sentence(), "").split())

    def break_off(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text, heard.cut = heard.text[: heard.text.index(shape.sentence()) + 20], True

    def repeat(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text += " " + heard.text

    def repeat_later(shape: Shape, talk: Talk) -> None:
        talk.report.turns[shape.wronged].heard[-1].text += " " + shape.heard(talk).text

    def answer_twice(shape: Shape, talk: Talk) -> None:
        for turn in talk.report.turns[shape.wronged :]:
            for heard in turn.heard:
                heard.text = re.sub(
                    r"Reply (\d+)", lambda found: f"Reply {int(found[1]) + 1}", heard.text
                )
        again = shape.heard(talk).text.replace(
            f"Reply {shape.wronged}", f"Reply {shape.wronged + 1}"
        )
        shape.heard(talk).text += " " + again

    def say_again(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        first = sentence(0, shape.wronged, 1)
        second = sentence(0, shape.wronged, 2)
        heard.text = heard.text.replace(second, f"{first} {second}")

    def say_again_after_a_break(shape: Shape, talk: Talk) -> None:
        heard, first = shape.heard(talk), shape.sentence(1)
        rest = heard.text
        heard.text, heard.cut = f"{first} {shape.sentence(2)[:30]}", True
        talk.report.turns[shape.wronged - 1].heard.append(
            HeardSound(heard.at_s + 0.1, f"{EN['still_here']} {rest}", "relay")
        )

    def swap(shape: Shape, talk: Talk) -> None:
        mine, next_ = shape.heard(talk), talk.report.turns[shape.wronged].heard[-1]
        # Only in the second one both have been said.
        both = re.sub(
            *(
                r"after \d+ turns, claim \d+",
                f"after {shape.wronged + 1} turns, claim {shape.wronged}",
            ),
            f"{next_.text} {mine.text}",
        )
        next_.text, mine.text = both, EN["hold_1"]

    def swap_sentences(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        first, second = shape.sentence(1), shape.sentence(2)
        heard.text = heard.text.replace(first, "*").replace(second, first).replace("*", second)

    def answer_another(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        wrong = Counted(shape.wronged, 3, PARTS, shape.wronged, shape.wronged, "never said here")
        heard.text += " " + wrong.text

    def forget(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text = re.sub(r"after \d+ turns?", "after 1 turn", heard.text)

    def double(shape: Shape, talk: Talk) -> None:
        for turn in talk.report.turns[shape.wronged - 1 :]:
            for heard in turn.heard:
                heard.text = re.sub(
                    r"after (\d+)", lambda found: f"after {int(found[1]) + 1}", heard.text
                )

    def be_overtaken(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text = heard.text.replace(f"claim {shape.wronged}", "claim 9", 1)
        for turn in talk.report.turns[shape.wronged :]:
            for later in turn.heard:
                later.text = re.sub(r"claim \d+", "claim 10", later.text)

    def open_again(shape: Shape, talk: Talk) -> None:
        heard = shape.heard(talk)
        heard.text = f"{EN['line']} {heard.text}"

    def keep_silent(shape: Shape, talk: Talk) -> None:
        talk.report.silences[shape.part - 1].length_s = 4.1

    def delay(shape: Shape, talk: Talk) -> None:
        for turn in talk.report.turns[shape.wronged - 1 :]:
            for heard in turn.heard:
                heard.at_s += 60
        for turn in talk.report.turns[shape.wronged :]:
            turn.began_s, turn.ended_s = turn.began_s + 60, turn.ended_s + 60
        talk.report.duration_s += 60

    def fail(_: Shape, talk: Talk) -> None:
        talk.report.failed, talk.report.ended_by = True, "carrier"

    def close(_: Shape, talk: Talk) -> None:
        talk.report.ended_by = "application"

    def give_up(_: Shape, talk: Talk) -> None:
        talk.report.gave_up = True

    def script_without_human(shape: Shape, talk: Talk) -> None:
        shape.heard(talk).text = "Please stay where you are and keep calm."
        talk.report.duration_s += 200

    return {
        "says nothing": (FaultKind.LOST, say_nothing),
        "ends by saying nothing": (FaultKind.LOST, end_by_saying_nothing),
        "only holds": (FaultKind.LOST, only_hold),
        "asks again": (FaultKind.LOST, ask_again),
        "leaves a sentence out": (FaultKind.LEFT_OUT, leave_out),
        "breaks off": (FaultKind.LEFT_OUT, break_off),
        "repeats": (FaultKind.REPEATED, repeat),
        "repeats later": (FaultKind.REPEATED, repeat_later),
        "answers twice": (FaultKind.REPEATED, answer_twice),
        "says again": (FaultKind.SAID_AGAIN, say_again),
        "says again after a break": (FaultKind.SAID_AGAIN, say_again_after_a_break),
        "swaps replies": (FaultKind.OUT_OF_ORDER, swap),
        "swaps sentences": (FaultKind.OUT_OF_ORDER, swap_sentences),
        "answers another": (FaultKind.MISPLACED, answer_another),
        "forgets": (FaultKind.FORGOTTEN, forget),
        "doubles": (FaultKind.DOUBLED, double),
        "was overtaken": (FaultKind.STALE, be_overtaken),
        "opens again": (FaultKind.FORGOTTEN, open_again),
        "keeps silent": (FaultKind.SILENCE, keep_silent),
        "delays": (FaultKind.LATE, delay),
        "fails": (FaultKind.DROPPED, fail),
        "closes the line": (FaultKind.DROPPED, close),
        "tires the caller out": (FaultKind.DROPPED, give_up),
        "is only a script": (FaultKind.POISON, script_without_human),
    }


WRONGS = _wrongs()


@settings(max_examples=30)
@given(shape=SHAPES)
def test_one_wrong_is_found_and_nothing_else(shape: Shape) -> None:
    for wrong, (kind, do) in WRONGS.items():
        talk = shape.talk()
        assert judge(run_of([talk])).faults == ()
        do(shape, talk)
        verdict = judge(run_of([talk]))
        assert {fault.kind for fault in verdict.faults} == {kind}, wrong
        assert verdict.broken == (kind.promise,), wrong
        assert verdict.harmed == (talk.report.call_sid,), wrong
        assert verdict.promises[kind.promise].failed == len(verdict.faults), wrong


@settings(max_examples=30)
@given(shape=SHAPES, others=st.integers(1, 4))
def test_only_the_call_that_was_wronged_is_harmed(shape: Shape, others: int) -> None:
    talks = [shape.talk(), *(Talk(call) for call in range(1, others + 1))]
    for talk in talks[1:]:
        talk.exchange(1)
    shape.heard(talks[0]).text += " " + shape.heard(talks[0]).text
    assert judge(run_of(talks)).harmed == (talks[0].report.call_sid,)


def test_the_reply_to_another_call_is_misplaced() -> None:
    one, other = Talk(1), Talk(2)
    for talk in (one, other):
        talk.say(utterance(talk.call, 1))
    one.hear(sentence(2, 1, 1))
    other.hear(sentence(1, 1, 1))
    faults = judge(run_of([one, other])).faults
    assert [fault.kind for fault in faults] == [FaultKind.MISPLACED] * 2


def test_a_reply_before_its_utterance_is_misplaced() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    talk.hear(sentence(0, 2, 1))
    talk.say(utterance(0, 2))
    assert FaultKind.MISPLACED in {fault.kind for fault in judge(run_of([talk])).faults}


def test_no_fault_says_what_anybody_said() -> None:
    for kind, do in WRONGS.values():
        shape = Shape(4, 2, 2, frozenset(), relay=True)
        talk = shape.talk()
        do(shape, talk)
        for fault in judge(run_of([talk])).faults:
            assert fault.kind is kind
            assert not re.search("dark|alfa|bravo|kilo|never said", str(fault))


def test_a_fault_tells_when_and_in_which_call() -> None:
    talk = late_call(2)
    talk.report.silences[0].length_s = 5.0
    (fault,) = judge(run_of([talk])).faults
    assert fault.call_sid == talk.report.call_sid
    assert fault.at_s == pytest.approx(2 + talk.report.silences[0].at_s, abs=0.001)
    assert "promise 7" in str(fault)


def late_call(number: int) -> Talk:
    """A clean call that began so many seconds after the run."""
    talk = Talk(number)
    talk.exchange(1)
    assert talk.report.began_at == 1000 + number
    return talk
