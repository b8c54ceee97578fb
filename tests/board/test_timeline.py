"""The picture of a call: lanes, claims, deaths, takeovers and people, read off the journal."""

from __future__ import annotations

from callflow.board.call_page import LEAST_BAR, LEFT, Timeline, build_timeline, describe
from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.i18n import catalogue

W1, W2 = "w1@host/11-a", "w2@host/22-b"


def record(state: CallState = CallState.IN_PROGRESS, **fields: object) -> CallRecord:
    given = {"call_sid": "CA1", "call_state": state, "created_at": 1_000, "updated_at": 1_000}
    return CallRecord.model_validate({**given, **fields})


def line(event: str, at: int, **more: object) -> JournalEntry:
    return JournalEntry.model_validate({"event": event, "at": at, **more})


LOST = [
    line("opened", 1_000),
    line("heard", 2_000, turn=1),
    line("claimed", 2_100, turn=1, fence=1, worker=W1),
    line("drafted", 2_500, fence=1),
    line("reclaimed", 4_000, turn=1, fence=1, worker=W1, reason="gone", attempts=1),
    line("claimed", 4_200, turn=1, fence=2, worker=W2),
]


def drawn(*lines: JournalEntry, now_ms: int = 9_000, **fields: object) -> Timeline:
    return build_timeline(record(**fields), lines, now_ms)  # type: ignore[arg-type]


def test_each_worker_that_held_the_call_has_a_lane() -> None:
    picture = drawn(*LOST)
    assert [(lane.kind, lane.name) for lane in picture.lanes] == [
        ("caller", ""),
        ("worker", W1),
        ("worker", W2),
    ]
    assert [mark.event for mark in picture.lanes[0].marks] == ["opened", "heard"]


def test_a_death_shows_the_last_sign_of_life_and_leads_to_the_next_worker() -> None:
    picture = drawn(*LOST)
    (span,) = picture.lanes[1].spans
    assert (span.from_ms, span.silent_ms, span.to_ms, span.fence) == (2_100, 2_500, 4_000, 1)
    assert span.lost
    (link,) = picture.links
    assert (link.look, link.from_lane, link.to_lane) == ("takeover", 1, 2)
    assert (link.from_ms, link.to_ms) == (4_000, 4_200)


def test_what_goes_on_goes_on_to_now_and_has_its_last_beat() -> None:
    picture = drawn(*LOST, last_heartbeat=8_900, fence=2)
    (span,) = picture.lanes[2].spans
    assert (span.to_ms, span.end) == (9_000, "")
    assert [(mark.event, mark.at) for mark in picture.lanes[2].marks] == [("beat", 8_900)]


def test_a_late_write_stands_with_the_worker_whose_fence_it_had() -> None:
    late = line("refused", 5_000, write="drafted", fence=1, reason="fenced")
    picture = drawn(*LOST, late)
    assert [mark.event for mark in picture.lanes[1].marks] == ["drafted", "refused"]


def test_a_transfer_leads_to_the_human_who_has_it_from_when_they_pick_up() -> None:
    picture = drawn(
        *LOST,
        line("transferred", 5_000, fence=3, reason="asked"),
        line("alerted", 5_000, reason="asked"),
        line("ringing", 5_100, rung=0),
        line("not_answered", 6_000, rung=0),
        line("ringing", 6_100, rung=1),
        line("accepted", 7_000),
        line("resumed", 8_000),
    )
    human = picture.lanes[-1]
    assert human.kind == "human"
    assert [(one.look, one.from_ms, one.to_ms, one.end) for one in human.spans] == [
        ("ringing", 5_100, 6_000, "not_answered"),
        ("ringing", 6_100, 7_000, "accepted"),
        ("human", 7_000, 8_000, "resumed"),
    ]
    assert [link.look for link in picture.links] == ["takeover", "transfer"]
    assert picture.lanes[2].spans[0].end == "transferred"


def test_what_people_do_has_a_lane_of_its_own() -> None:
    noted = line("recorded", 5_000, fact="dispatch.requested", by="bo")
    picture = drawn(*LOST, noted)
    assert [(lane.kind, len(lane.marks)) for lane in picture.lanes][-1] == ("desk", 1)


def test_a_claim_whose_end_a_failover_has_lost_ends_with_the_next() -> None:
    picture = drawn(*LOST[:3], line("claimed", 6_000, turn=1, fence=1, worker=W2))
    assert picture.lanes[1].spans[0].to_ms == 6_000


def test_the_picture_of_a_call_that_is_over_ends_with_it() -> None:
    picture = drawn(
        *LOST, line("ended", 5_000, reason="hung_up"), state=CallState.COMPLETE, now_ms=90_000
    )
    assert picture.to_ms == 5_000
    assert picture.lanes[2].spans[0].end == "ended"


def test_a_call_without_a_journal_is_drawn_all_the_same() -> None:
    picture = drawn()
    assert picture.height > 0
    assert next(iter(picture.ticks())) == (LEFT, "0:00")


def test_everything_stands_inside_the_picture_however_long_the_call() -> None:
    for length_s in (1, 60, 1_800, 86_400):
        picture = drawn(*LOST, now_ms=1_000 + length_s * 1_000 + 4_000)
        assert 560 < picture.width < 6_500
        places = [picture.x(span.from_ms) for lane in picture.lanes for span in lane.spans]
        ticks = [x for x, _ in picture.ticks()]
        assert all(LEFT <= x <= picture.width for x in [*places, *ticks])
        assert picture.wide(2_100, 2_101) >= LEAST_BAR
        assert len(ticks) < 100


def test_the_picture_is_told_in_words_in_the_order_in_which_it_happened() -> None:
    picture = drawn(*LOST)
    told = [describe(lane, item, catalogue("en")) for lane, item in picture.in_order()]
    assert told == [
        "00:00:01 caller: call received",
        "00:00:02 caller: caller spoke, turn 1",
        "00:00:02 w1/11: fence 1, turn 1, 1.9 s, taken from a silent worker, "
        "no sign of life for 1.5 s, gone",
        "00:00:04 w2/22: fence 2, turn 1, 4.8 s, goes on",
    ]
