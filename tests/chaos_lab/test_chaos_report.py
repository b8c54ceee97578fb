"""The report of a run: every harmed call as a picture, and nobody's words."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

from callflow.call.history import JournalEntry
from callflow.lab.chaos import chaos_report
from callflow.lab.chaos.audio_checks import Sound, listen
from callflow.lab.chaos.judge import judge
from callflow.lab.chaos.run_evidence import RunEvidence
from tests.chaos_lab.made_evidence import (
    EN,
    LETTERS_PER_S,
    Talk,
    clean_call,
    run_of,
    sentence,
    strike,
    utterance,
)


def harmed_run() -> RunEvidence:
    """Two calls, of which the second one heard nothing for too long while a worker was killed."""
    harmed = clean_call(2)
    harmed.report.silences[1].length_s = 6.5
    began_ms = round(harmed.report.began_at * 1000)
    journal = (
        JournalEntry(event="heard", at=began_ms + 2000, turn=1),
        JournalEntry(event="claimed", at=began_ms + 2100, turn=1, fence=1, worker="w1@h/1-a"),
        JournalEntry(event="reclaimed", at=began_ms + 3000, fence=1, reason="gone"),
        JournalEntry(event="claimed", at=began_ms + 3100, turn=1, fence=2, worker="w2@h/2-b"),
        JournalEntry(event="committed", at=began_ms + 3900, turn=1, fence=2),
        JournalEntry(event="claimed", at=began_ms + 5100, turn=2, fence=3, worker="w2@h/2-b"),
    )
    return run_of(
        [clean_call(1), harmed],
        strikes=[strike(at_s=4.5, at_ms=began_ms + 2500, until_s=6.0)],
        journals={harmed.report.call_sid: journal},
    )


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def looks(svg: str) -> list[str]:
    return [one.get("class", "") for one in drawn(svg).iter() if one.tag.endswith("rect")]


def test_the_page_shows_the_harmed_call_and_no_other() -> None:
    evidence = harmed_run()
    verdict = judge(evidence)
    page = chaos_report.page(evidence, verdict)
    assert re.findall(r'<h3 id="(\w+)"', page) == list(verdict.harmed) == [f"CA{2:032x}"]
    assert page.count("<svg") == 2
    assert "promise 7 was broken" in page
    assert verdict.replay in page
    assert "$" not in page


def test_the_page_of_a_good_run_shows_the_calls_that_bore_most() -> None:
    evidence = run_of([clean_call(call) for call in range(1, 6)], strikes=[strike()])
    evidence.callers[3].report.silences[0].length_s = 3.0
    page = chaos_report.page(evidence, judge(evidence))
    assert "every promise was kept" in page
    assert re.findall(r'<h3 id="(\w+)"', page)[0] == evidence.callers[3].call_sid
    assert page.count("<svg") == 1 + chaos_report.HARDEST_HIT


def test_the_page_needs_nothing_from_elsewhere() -> None:
    evidence = harmed_run()
    page = chaos_report.page(evidence, judge(evidence))
    links = set(re.findall(r"""(?:src|href)=|https?://[^"' <]+""", page))
    assert links == {"http://www.w3.org/2000/svg"}


def test_a_picture_has_a_bar_for_all_that_happened() -> None:
    evidence = harmed_run()
    faults = judge(evidence).faults
    picture = chaos_report.gather(evidence, evidence.callers[1], faults)
    found = looks(chaos_report.draw(picture))
    assert found.count("said") == 3
    assert found.count("part") == 9
    assert found.count("too-long") == 1
    assert found.count("silence") == 2
    assert found.count("claim") == 1
    # One was taken back, and one never let go.
    assert found.count("lost-claim") == 2
    assert found.count("strike") == 1


def test_what_happened_at_one_time_stands_at_one_place() -> None:
    evidence = harmed_run()
    picture = chaos_report.gather(evidence, evidence.callers[1], ())
    bars = {bar.tip: bar for bar in picture.bars}
    first = bars["turn 1 by w1@h/1-a, fence 1: reclaimed (gone)"]
    assert [first.from_s, first.to_s] == pytest.approx([4.1, 5.0])
    turn = bars["turn 1, taken"]
    assert turn.from_s == pytest.approx(2 + evidence.callers[1].report.turns[0].began_s)


def test_the_overview_has_a_row_for_each_call() -> None:
    evidence = harmed_run()
    svg = chaos_report.draw_overview(evidence, judge(evidence).faults)
    found = looks(svg)
    assert found.count("call relay") == 2
    assert len([one for one in drawn(svg).iter() if one.tag.endswith("circle")]) == 1


@pytest.mark.parametrize("talks", [(), (Talk(),)], ids=["no call", "no turn"])
def test_a_run_in_which_nobody_spoke_can_be_drawn_and_kept_no_promise(
    talks: tuple[Talk, ...],
) -> None:
    evidence = run_of(talks)
    verdict = judge(evidence)
    page = chaos_report.page(evidence, verdict)
    assert verdict.untried
    assert not verdict.good
    assert "nothing was tried: nobody said a word" in page
    assert "every promise was kept" not in page


def test_the_title_of_the_page_names_the_seed() -> None:
    evidence = harmed_run()
    page = chaos_report.page(evidence, judge(evidence))
    assert "<title>callflow chaos, seed 7: promise 7 was broken</title>" in page


@pytest.mark.parametrize("told", ["page", "text", "summary"])
def test_nobodys_words_are_shown(told: str) -> None:
    evidence = harmed_run()
    verdict = judge(evidence)
    console = Console(width=200)
    with console.capture() as capture:
        console.print(chaos_report.summary(verdict))
    shown = {
        "page": chaos_report.page(evidence, verdict),
        "text": chaos_report.harmed(evidence, verdict),
        "summary": capture.get(),
    }[told]
    assert len(shown) > 200
    assert not re.search("in here|alfa|bravo|kilo|lima", shown)


def test_the_summary_names_what_was_broken_and_how_to_see_it_again() -> None:
    evidence = harmed_run()
    verdict = judge(evidence)
    console = Console(width=160)
    with console.capture() as capture:
        console.print(chaos_report.summary(verdict))
    text = capture.get()
    assert "promise 7 was broken" in text
    assert "6.5 s before reply" in text
    assert "again: callflow chaos --seed 7" in text
    assert "worker-kill" in text


def test_the_lines_for_a_terminal_are_in_the_order_of_time() -> None:
    evidence = harmed_run()
    lines = chaos_report.harmed(evidence, judge(evidence)).splitlines()[1:]
    times = [float(line.split(" s  ", 1)[0]) for line in lines]
    assert times == sorted(times)
    assert any("STRIKE" in line for line in lines)
    assert any("FAULT" in line for line in lines)


def test_every_beginning_of_a_sentence_is_taken_for_one() -> None:
    whole = sentence(0, 1, 1)
    for letters in range(1, len(whole)):
        talk = Talk()
        talk.say(utterance(0, 1))
        talk.hear(whole[:letters], cut=True)
        (event,) = [event for event in listen(talk.report) if event.after]
        assert event.sound is Sound.BEGUN, whole[:letters]
        assert event.turn == (1 if letters >= len("Reply 1, part 1 of") else 0)


def test_phrases_and_sentences_in_one_breath_each_have_their_time() -> None:
    talk = Talk()
    talk.say(utterance(0, 1))
    begin_s = talk.now_s
    phrase, said = EN["still_here"], sentence(0, 1, 1)
    talk.hear(f"{phrase} {said} Something else.")
    events = [event for event in listen(talk.report) if event.after]
    assert [event.sound for event in events] == [Sound.STILL_HERE, Sound.PART, Sound.PLAIN]
    assert events[1].at_s == pytest.approx(begin_s + (len(phrase) + 1) / LETTERS_PER_S)
    assert events[1].letters == len(said)
