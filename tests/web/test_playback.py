"""What a caller has heard of what a socket was sent, by the carrier's word and by the clock."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import CallRecord, Sent, ThreadEntry
from callflow.call.state import CallState
from callflow.web.playback import Playback, heard_part, unplayed, unspoken

SENTENCES = st.lists(
    st.sampled_from(["Stay inside.", "How many people?", "请留在电梯里。", "No salga. ", "Wait"]),
    min_size=1,
    max_size=5,
)


@given(SENTENCES, st.integers(0, 120))
def test_whole_sentences_that_were_heard_are_not_said_again_and_nothing_else_is_left_out(
    sentences: list[str], played: int
) -> None:
    text = " ".join(sentences)
    left = unplayed(text, played)
    assert text.endswith(left)
    heard = text[: len(text) - len(left)]
    assert len(heard.rstrip()) <= played or not heard.strip()
    if played >= len(text.rstrip()):
        assert left.strip() == ""


def test_a_sentence_that_broke_off_is_said_again_from_its_beginning() -> None:
    text = "Stay inside. How many people? I am here."
    assert unplayed(text, 0) == text
    assert unplayed(text, 5) == text
    assert unplayed(text, 12) == "How many people? I am here."
    assert unplayed(text, 20) == "How many people? I am here."
    assert unplayed(text, len(text)) == ""


def test_what_there_was_no_time_for_is_said_again() -> None:
    assert unspoken("One. Two.", 0.0, 15) == ""
    assert unspoken("One. Two.", 0.5, 15) == "Two."
    assert unspoken("One. Two.", 5.0, 15) == "One. Two."


def test_words_are_found_in_the_reply_that_they_are_from_however_the_carrier_tells_them() -> None:
    playback = Playback(15.0)
    playback.add_reply(1, "Stay inside. Stay calm.", 0.0)
    assert not playback.tells
    assert playback.mark_played("One moment, please.") is None
    assert playback.tells
    assert playback.mark_played("Stay") == (1, 4)
    assert playback.mark_played("inside.") == (1, 12)
    assert playback.mark_played("Stay calm. ") == (1, 23)
    assert playback.mark_played("Stay calm.") is None
    assert playback.mark_played("  ") is None
    playback.add_reply(2, "Stay here.", 0.0)
    assert playback.mark_played("Stay here.") == (2, 10)


def test_a_carrier_may_tell_all_that_was_heard_each_time() -> None:
    playback = Playback(15.0)
    playback.add_reply(1, "Stay inside. How many?", 0.0)
    assert playback.mark_played("Stay inside.") == (1, 12)
    assert playback.mark_played("Stay inside. How many?") == (1, 22)


def test_what_an_earlier_socket_has_said_is_not_taken_for_new() -> None:
    playback = Playback(15.0)
    playback.resume(1, "Stay inside. How many?", since=12)
    playback.resume(2, "Stay inside.")
    assert playback.mark_played("How many?") == (1, 22)
    assert playback.mark_played("Stay inside.") is None


def test_how_long_it_takes_to_say_the_rest_counts_everything_that_was_sent() -> None:
    playback = Playback(10.0)
    playback.add_reply(1, "x" * 20, 100.0)
    playback.add("x" * 10, 100.5)
    assert playback.left_s(101.0) == 2.0
    assert playback.left_s(200.0) == 0.0


def test_a_phrase_counts_as_heard_when_the_carrier_says_so_or_when_its_time_is_over() -> None:
    by_clock = Playback(10.0, greeted_until=5.0)
    by_clock.add_phrase("p", "x" * 10, 0.0)  # Behind the greeting: it is said by 6 s.
    assert by_clock.heard_phrases(6.0) == []
    assert by_clock.heard_phrases(6.1) == ["p"]
    told = Playback(10.0, tells=True)
    told.add_phrase("p", "The engineer is here.", 0.0)
    assert told.heard_phrases(3.0) == []
    assert told.mark_played("The engineer is here.") is None
    assert told.heard_phrases(3.0) == ["p"]


def test_a_phrase_that_nobody_had_begun_to_say_is_dropped_by_an_interruption() -> None:
    playback = Playback(10.0)
    playback.add_reply(1, "Stay inside.", 0.0)
    playback.add_phrase("p", "The engineer is here.", 0.0)
    assert playback.interrupt_phrases("Stay", 0.5)
    assert playback.phrases == {}
    playback.add_phrase("p", "The engineer is here.", 1.0)
    assert not playback.interrupt_phrases("The engineer", 1.5)
    assert playback.heard_phrases(1.5) == ["p"]


def test_nothing_that_is_sent_after_a_socket_has_stopped_counts_as_heard() -> None:
    playback = Playback(10.0)
    playback.add_phrase("p", "x" * 10, 0.0)
    playback.stop(0.5)
    playback.stop(9.0)
    assert playback.heard_phrases(9.0) == []


def test_of_a_reply_that_broke_off_what_there_was_time_for_counts_as_heard() -> None:
    entry = ThreadEntry(role="agent", text="Stay inside. Stay calm.", turn=1, at=0)
    record = CallRecord(
        call_sid="CA1",
        call_state=CallState.PENDING,
        created_at=0,
        updated_at=0,
        heard=1,
        answered=1,
        conversation_thread=(entry,),
    )

    def heard(sent: Sent | None, now_ms: int) -> str:
        return heard_part(record.model_copy(update={"sent": sent}), now_ms, 10.0)

    assert heard(None, 0) == ""
    assert heard(Sent(turn=1, length=23, at=0, left_ms=2_300), 10_000) == "Stay inside. Stay calm."
    assert heard(Sent(turn=1, length=23, at=0, left_ms=2_300), 1_300) == "Stay inside. "
    assert heard(Sent(turn=1, length=23, at=0, played=14), 10_000) == "Stay inside. "
    assert heard(Sent(turn=2, length=3, at=0), 10_000) == ""
