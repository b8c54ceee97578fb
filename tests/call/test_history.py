"""What a journal tells of a call: who worked on it, how long people waited, and who took over."""

from __future__ import annotations

from typing import Any

from callflow.call.history import CallHistory, JournalEntry, Measure

W1, W2 = "w1@host/11-a", "w2@host/22-b"


def line(event: str, at: int, **more: Any) -> JournalEntry:
    return JournalEntry(event=event, at=at, **more)


LOST = (
    line("opened", 0),
    line("heard", 100, turn=1),
    line("claimed", 200, turn=1, fence=1, worker=W1),
    line("understood", 250, fence=1),
    line("drafted", 400, fence=1),
    line("reclaimed", 900, turn=1, fence=1, worker=W1, reason="gone"),
    line("claimed", 1_000, turn=1, fence=2, worker=W2),
    line("committed", 1_500, turn=1, fence=2),
)


def measured(*lines: JournalEntry) -> list[tuple[str, int, str | None]]:
    """What is measured, how long it took, and the cause."""
    history = CallHistory()
    return [(one.measure, one.ms, one.cause) for each in lines for one in history.add(each)]


def test_a_claim_knows_its_turn_its_worker_its_end_and_who_took_it_up() -> None:
    first, second = CallHistory.of(LOST).claims
    assert (first.worker, first.turn, first.fence, first.at) == (W1, 1, 1, 200)
    assert (first.owed_since, first.understood_at) == (100, 250)
    assert (first.ended_at, first.ended_by, first.reason, first.lost) == (
        *(900, "reclaimed", "gone", True),
    )
    assert (first.taken_up_at, first.taken_up_by, first.last_sign_at) == (1_000, "claimed", 400)
    assert (second.ended_by, second.lost) == ("committed", False)


def test_each_time_is_measured_once_and_ends_with_a_line() -> None:
    assert measured(*LOST) == [
        (Measure.CLAIM_WAIT, 100, None),
        (Measure.UNDERSTAND, 50, None),
        (Measure.REPLY_WAIT, 300, None),
        (Measure.FIRST_WORDS, 150, None),
        (Measure.SILENCE, 300, None),
        (Measure.TAKEOVER, 800, "gone"),
        (Measure.REST, 500, None),
        (Measure.TURN, 1_400, None),
    ]


def test_a_worker_is_alive_until_its_last_beat_or_its_own_word_that_it_gives_up() -> None:
    history = CallHistory.of(LOST[:5])
    history.see_beat(1, 700)
    assert history.add(LOST[5]) == []
    assert [one.ms for one in history.add(LOST[6])] == [300]
    handed_back = line("handed_back", 900, turn=1, fence=1, reason="drained")
    history = CallHistory.of((*LOST[:5], handed_back))
    assert [(one.ms, one.cause) for one in history.add(LOST[6])] == [(100, "drained")]


def test_takeovers_are_counted_and_old_claims_can_be_forgotten() -> None:
    history = CallHistory(keep=1)
    for entry in (*LOST[:6], line("claimed", 950, turn=1, fence=2), line("handed_back", 960)):
        history.add(entry)
    assert (history.takeovers, len(history.claims), history.claim) == (2, 1, None)


def test_a_silence_lasts_from_the_first_word_to_the_first_of_the_reply() -> None:
    lines = [("heard", 1), ("heard", 3), ("claimed", 4), ("drafted", 9), ("committed", 20)]
    call = CallHistory()
    ends = [call.add(line(event, at)) for event, at in lines]
    silences = [one for some in ends for one in some if one.measure is Measure.SILENCE]
    assert [(one.at, one.ms) for one in silences] == [(9, 8)]
    assert call.add(line("heard", 30)) == []
    assert call.silent_since == 30
    assert [one.ms for one in call.add(line("ended", 37))] == [7]


def test_while_a_human_has_the_call_nobody_can_know_who_is_silent() -> None:
    events = ("transferred", "heard", "accepted", "heard")
    call = CallHistory.of(line(event, at) for at, event in enumerate(events))
    assert (call.with_human, call.silent_since) == (True, None)
    call.add(line("resumed", 4))
    call.add(line("heard", 5))
    assert (call.with_human, call.resumed_at, call.silent_since) == (False, 4, 5)


def test_a_human_is_waited_for_from_the_first_alarm_to_when_one_is_there() -> None:
    events = (("alerted", 5), ("ringing", 6), ("taken_over", 20), ("accepted", 40))
    assert measured(*(line(event, at) for event, at in events)) == [(Measure.HUMAN_WAIT, 35, None)]
    assert CallHistory.of([line("alerted", 5), line("taken_over", 7)]).wanted_at == 5


def test_a_human_who_comes_in_place_of_a_worker_takes_the_turn_up() -> None:
    (claim,) = CallHistory.of((*LOST[:6], line("accepted", 1_200, fence=2))).claims
    assert (claim.ended_by, claim.taken_up_by, claim.taken_up_at) == (
        *("reclaimed", "accepted", 1_200),
    )
    (claim,) = CallHistory.of((*LOST[:5], line("accepted", 700, fence=2))).claims
    assert (claim.ended_by, claim.taken_up_by, claim.lost) == ("accepted", "accepted", False)
    (claim,) = CallHistory.of((*LOST[:5], line("transferred", 700, fence=2))).claims
    assert (claim.ended_by, claim.taken_up_by) == ("transferred", None)


def test_what_was_said_into_a_reply_is_owed_from_the_end_of_that_reply() -> None:
    history = CallHistory.of((*LOST[:7], line("heard", 1_100, turn=2), LOST[7]))
    assert history.owed_since(2) == 1_500
    assert history.owed_since(1) is None


def test_a_claim_ends_with_the_next_where_a_failover_lost_its_end_and_with_a_loss() -> None:
    again = line("claimed", 600, turn=1, fence=1, worker=W2)
    first, _ = CallHistory.of((*LOST[:5], again)).claims
    assert (first.ended_at, first.ended_by, first.taken_up_by) == (600, "claimed", None)
    history = CallHistory.of((*LOST[:5], line("lost", 600, turn=1)))
    assert (history.claim, history.owed) == (None, {})
