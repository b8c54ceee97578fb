"""A counted reply tells an outsider everything; pacing changes only when a piece comes."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import CallRecord, Draft, ThreadEntry
from callflow.call.state import CallState
from callflow.responder import Piece
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.synthetic import (
    PARTS,
    Counted,
    CountedResponder,
    PacedResponder,
    code_of,
    sentences_in,
)
from callflow.web.playback import unplayed


def record(*said: str, draft: str | None = None) -> CallRecord:
    """A call whose last utterance is owed a reply."""
    thread: list[ThreadEntry] = []
    for turn, text in enumerate(said, 1):
        thread.append(ThreadEntry(role="caller", turn=turn, text=text, at=turn))
        if turn < len(said):
            thread.append(ThreadEntry(role="agent", turn=turn, text="Yes.", at=turn))
    return CallRecord(
        call_sid="CA1",
        call_state=CallState.IN_PROGRESS,
        created_at=1,
        updated_at=1,
        heard=len(said),
        fence=7,
        answered=len(said) - 1,
        conversation_thread=tuple(thread),
        draft=None if draft is None else Draft(turn=len(said), text=draft),
    )


def pieces_of(call: CallRecord) -> list[Piece]:
    return list(CountedResponder().respond(call, Event()))


def text_of(call: CallRecord) -> str:
    return "".join(piece.text for piece in pieces_of(call))


def test_each_sentence_names_turn_part_turns_seen_and_what_it_answers() -> None:
    text = text_of(record("We are stuck.", "It is dark, alfa bravo kilo!"))
    assert text.startswith(
        "Reply 2, part 1 of 3, after 2 turns, claim 7, to alfa bravo kilo. Reply 2, "
    )
    assert sentences_in(text) == [
        Counted(2, part, PARTS, 2, 7, "alfa bravo kilo") for part in (1, 2, 3)
    ]


def test_the_last_piece_is_the_last_and_no_other() -> None:
    pieces = pieces_of(record("alfa bravo kilo"))
    assert [piece.last for piece in pieces] == [False, False, True]
    assert pieces[0].text.startswith("Reply")


def test_one_turn_is_singular_and_read_back_all_the_same() -> None:
    assert "after 1 turn, claim" in text_of(record("alfa bravo kilo"))
    assert sentences_in(text_of(record("alfa bravo kilo")))[0].seen == 1


def test_a_worker_that_found_nothing_of_the_conversation_is_heard_to_have_found_nothing() -> None:
    lost = record("first", "second").model_copy(update={"conversation_thread": ()})
    assert sentences_in(text_of(lost))[0].seen == 0


@given(st.integers(0, PARTS))
def test_what_was_sent_and_what_follows_is_the_whole_reply(sent: int) -> None:
    whole = pieces_of(record("one two three"))
    draft = "".join(piece.text for piece in whole[:sent])
    rest = pieces_of(record("one two three", draft=draft))
    assert draft + "".join(p.text for p in rest) == "".join(p.text for p in whole)
    assert rest[-1].last


def test_a_takeover_that_sees_more_turns_does_not_say_again_what_was_sent() -> None:
    first = pieces_of(record("one two three"))[0].text
    later = record("one two three").model_copy(
        update={
            "draft": Draft(turn=1, text=first),
            "conversation_thread": (
                ThreadEntry(role="caller", turn=1, text="one two three", at=1),
                ThreadEntry(role="caller", turn=2, text="and more", at=2),
            ),
        }
    )
    assert [(one.part, one.seen) for one in sentences_in(text_of(later))] == [(2, 2), (3, 2)]


def test_another_worker_says_the_same_in_other_words() -> None:
    call = record("one two three")
    later = call.model_copy(update={"fence": 8})
    assert text_of(later) == text_of(call).replace("claim 7", "claim 8") != text_of(call)


def test_the_draft_of_another_turn_counts_for_nothing() -> None:
    call = record("one", "two", draft=None)
    stale = call.model_copy(update={"draft": Draft(turn=1, text=text_of(record("one")))})
    assert text_of(stale) == text_of(call)


def test_it_ends_early_when_the_lease_is_lost() -> None:
    stop = Event()
    pieces = CountedResponder().respond(record("one two three"), stop)
    assert not next(pieces).last
    stop.set()
    assert list(pieces) == []


CODES = [
    ("We are stuck: Alfa, bravo  KILO.", "alfa bravo kilo"),
    ("help", "help"),
    ("", "silence"),
    ("?!", "silence"),
    ("a donaudampfschifffahrt", "a donaudampfsc"),
]


def test_an_utterance_is_named_by_its_last_three_words() -> None:
    assert [(said, code_of(said)) for said, _ in CODES] == CODES


@given(st.text(max_size=60))
def test_whatever_was_said_its_reply_can_be_read_back(said: str) -> None:
    assert [one.code for one in sentences_in(text_of(record(said)))] == [code_of(said)] * PARTS


def test_the_carrier_counts_its_sentences_as_we_do() -> None:
    text = text_of(record("one two three"))
    first = sentences_in(text)[0].text
    assert unplayed(text, len(first)).lstrip().startswith("Reply 1, part 2")


class NotedEvent(Event):
    """Notes how long somebody meant to wait, and waits not at all."""

    def __init__(self, set_after: int) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self.set_after = set_after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) > self.set_after:
            self.set()
        return self.is_set()


def test_it_says_the_same_with_a_pause_before_each_piece() -> None:
    plain = list(ScriptedResponder().respond(record("help"), Event()))
    stop = NotedEvent(set_after=99)
    assert list(PacedResponder(ScriptedResponder(), 0.7).respond(record("help"), stop)) == plain
    assert stop.waits == [0.7] * len(plain)


def test_it_ends_early_when_the_lease_is_lost_in_a_pause() -> None:
    plain = list(ScriptedResponder().respond(record("help"), Event()))
    paced = PacedResponder(ScriptedResponder(), 60.0).respond(
        record("help"), NotedEvent(set_after=2)
    )
    assert list(paced) == plain[:2]


def test_a_negative_pause_is_refused() -> None:
    class Mute:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            yield Piece("", True)

    with pytest.raises(ValueError, match="use zero or more seconds"):
        PacedResponder(Mute(), -1.0)
