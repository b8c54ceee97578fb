"""What nobody can help, and what the promises allow, is no fault."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.promises import FaultKind
from callflow.lab.chaos.run_evidence import RunEvidence
from callflow.responder.synthetic import PARTS
from tests.chaos_lab.made_evidence import EN, Talk, clean_call, reply, run_of, strike, utterance


def assert_clean(evidence: RunEvidence) -> None:
    verdict = judge(evidence)
    assert [str(fault) for fault in verdict.faults] == []
    assert verdict.good


@pytest.mark.parametrize("relay", [True, False])
def test_a_run_in_which_all_went_well_is_good(relay: bool) -> None:
    verdict = judge(run_of([clean_call(call, relay=relay) for call in range(3)]))
    assert verdict.faults == ()
    assert (verdict.calls, verdict.turns) == (3, 9)
    assert verdict.promises[1].tried == verdict.promises[2].tried == 9


@given(
    st.lists(st.tuples(st.integers(1, PARTS), st.integers(0, 50)), min_size=1, max_size=4),
    st.integers(0, 99),
)
def test_the_sentence_in_which_a_line_broke_may_be_said_again(
    breaks: list[tuple[int, int]], call: int
) -> None:
    talk = Talk(call)
    for turn, (part, letters) in enumerate(breaks, 1):
        talk.broken_exchange(turn, part, letters)
    assert_clean(run_of([talk]))


def test_a_sentence_that_had_just_ended_when_the_line_broke_may_be_said_again() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    one, two, three = reply(0, 1)
    talk.hear(f"{one} {two} {three[:4]}", cut=True)
    talk.hear(f"{EN['still_here']} {two} {three}")
    assert_clean(run_of([talk]))


def test_a_sentence_that_lacked_a_letter_when_the_line_broke_need_not_be_said_again() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    one, two, three = reply(0, 1)
    talk.hear(f"{one} {two[:-1]}", cut=True)
    talk.hear(f"{EN['still_here']} {three}")
    assert_clean(run_of([talk]))


@pytest.mark.parametrize("heard", [1, 30, 75, 140])
def test_what_the_caller_spoke_over_need_not_be_said_again(heard: int) -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    talk.wait(0.3)
    talk.hear(" ".join(reply(0, 1))[:heard], cut=True)
    talk.say(utterance(0, 2), interrupted=True)
    talk.hear(" ".join(reply(0, 2)))
    assert_clean(run_of([talk]))


def test_a_reply_of_which_nothing_was_heard_before_the_caller_spoke_is_not_lost() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    talk.say(utterance(0, 2), interrupted=True)
    talk.hear(" ".join(reply(0, 2)))
    assert_clean(run_of([talk]))
    talk.report.turns[1].interrupted = False
    assert not judge(run_of([talk])).good


def test_holding_phrases_between_the_sentences_are_no_part_of_a_reply() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    one, two, three = reply(0, 1)
    for text in (EN["hold_1"], one, EN["hold_2"], two, three, EN["getting_person"]):
        talk.hear(text)
    talk.say(utterance(0, 2))
    talk.hear(f"{EN['getting_person']} {' '.join(reply(0, 2))}")
    assert_clean(run_of([talk]))


def test_a_reply_in_two_messages_is_one_reply() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    for text in reply(0, 1):
        talk.hear(text)
    assert_clean(run_of([talk]))


def test_a_human_answers_for_us() -> None:
    talk = Talk()
    talk.exchange(1)
    talk.say(utterance(0, 2))
    talk.hear(EN["hold_1"])
    talk.hear(EN["person_here"])
    talk.report.with_human = True
    talk.hear("", kind="human")
    talk.now_s += 60
    talk.report.duration_s = talk.now_s
    assert_clean(run_of([talk]))


def test_a_caller_who_hung_up_at_once_was_not_kept_waiting() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    talk.wait(1.0)
    assert_clean(run_of([talk]))


def test_what_was_never_taken_from_the_caller_cannot_be_lost() -> None:
    talk = Talk()
    talk.say(utterance(0, 1)).accepted = False
    talk.wait(3.0)
    talk.hear(f"{EN['still_here']} {EN['go_on']}")
    talk.exchange(2)
    assert judge(run_of([talk])).promises[1].tried == 1
    talk.report.duration_s += 100
    assert_clean(run_of([talk]))


def test_words_that_were_said_twice_may_be_answered_once() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    talk.wait(3.5)
    talk.say(utterance(0, 1), repeated=True)
    talk.hear(" ".join(reply(0, 1)))
    assert_clean(run_of([talk]))


def test_what_came_while_the_caller_was_speaking_was_for_nobody() -> None:
    talk = Talk()
    talk.exchange(1)
    talk.say(utterance(0, 2))
    talk.wait(3.5)
    talk.say(utterance(0, 2), repeated=True)
    talk.hear(" ".join(reply(0, 2)[1:]))
    assert_clean(run_of([talk]))
    talk.report.turns[2].repeated = False
    assert not judge(run_of([talk])).good


def test_the_carriers_own_mischief_is_no_silence_of_ours() -> None:
    talk = clean_call()
    talk.report.silences[0].length_s = 6.0
    talk.report.silences[0].mischief_s = 3.0
    assert_clean(run_of([talk]))


def test_a_reply_to_silence_belongs_to_nothing_that_was_said() -> None:
    talk = Talk()
    talk.exchange(1)
    talk.wait(3.0)
    text = "Reply 2, part {} of 3, after 2 turns, claim 2, to silence."
    talk.hear(" ".join(text.format(part) for part in (1, 2, 3)))
    assert_clean(run_of([talk]))


def test_an_outage_gives_an_answer_the_time_that_it_took() -> None:
    talk = Talk()
    talk.exchange(1, wait_s=0.2)
    talk.exchange(2, wait_s=40.0)
    talk.report.silences.clear()
    assert not judge(run_of([talk])).good
    assert_clean(run_of([talk], strikes=[strike("server-freeze", 3.0, until_s=40.0)]))


def test_a_testimony_that_was_kept_is_judged_as_it_was() -> None:
    talk = clean_call()
    talk.report.silences[0].length_s = 5.0
    evidence = run_of([talk], strikes=[strike()], leaked=("k",))
    kept = RunEvidence.from_json(evidence.to_json())
    assert kept.callers == evidence.callers
    assert judge(kept) == judge(evidence)
    assert not judge(kept).good


def _said_again_from_its_beginning() -> Talk:
    talk = Talk()
    talk.say(utterance(0, 1))
    one, two, three = reply(0, 1)
    talk.hear(f"{one} {two} {three[:20]}", cut=True)
    talk.hear(f"{EN['still_here']} {one} {two} {three}")
    return talk


def test_what_neither_the_server_nor_the_process_that_spoke_could_tell_may_be_said_again() -> None:
    talk = _said_again_from_its_beginning()
    both = [strike("server-freeze", 1.0, until_s=4.0), strike("web-term", 4.0, until_s=5.0)]
    assert_clean(run_of([talk], strikes=both))


@pytest.mark.parametrize("kind", ["server-freeze", "web-term", "web-kill", "worker-kill"])
def test_the_death_of_one_machine_is_no_reason_to_say_anything_again(kind: str) -> None:
    talk = _said_again_from_its_beginning()
    verdict = judge(run_of([talk], strikes=[strike(kind, 1.0, until_s=9.0)]))
    assert [fault.kind for fault in verdict.faults] == [FaultKind.SAID_AGAIN]
