"""What a row shows follows from the record and the journal: who talks, timers, flags, its place."""

from __future__ import annotations

import json
from typing import Any

from callflow.board.board_reader import CallerSilence, LastHour
from callflow.board.rows import EVERY_ACTION, HOUR_MS, MOST_LETTERS, WITH_A_HUMAN, BoardRow, Timer
from callflow.call.history import CallHistory, JournalEntry
from callflow.call.record import Draft, HumanAlert, ThreadEntry
from callflow.call.state import CallState
from callflow.sites.site import Human, Site
from callflow.store.reader import CallSummary

AT = 1_700_000_000_000

SITE = Site(
    id="tower",
    called=("+14155550100",),
    lift="Lift 2",
    address="1 High Street",
    humans=(Human(number="+441632960001", name="Ana"), Human(number="+441632960002", name="Bo")),
)


def sight(**fields: Any) -> CallSummary:
    """A call that nobody waits in, with what is given."""
    usual: dict[str, Any] = {"call_sid": "CA1", "call_state": CallState.PENDING}
    return CallSummary(**{**usual, "created_at": AT, "updated_at": AT, "urgency": "P4", **fields})


def said(turn: int, text: str, at: int, role: Any = "caller", **more: Any) -> ThreadEntry:
    return ThreadEntry(role=role, turn=turn, text=text, at=at, **more)


def told_by(*lines: tuple[str, int]) -> CallHistory:
    """What a journal of those events tells."""
    return CallHistory.of(JournalEntry(event=event, at=at) for event, at in lines)


def row(one: CallSummary, told: CallHistory | None = None, site: Site | None = SITE) -> BoardRow:
    return BoardRow.of(one, told or CallHistory(), site)


def timers(one: CallSummary, told: CallHistory | None = None) -> dict[str, tuple[int, int]]:
    return {timer.name: (timer.since, timer.limit_ms) for timer in row(one, told).timers}


def order(*sights: CallSummary) -> list[str]:
    """Which stands above which."""
    return [one.call_sid for one in sorted(map(row, sights), key=lambda one: one.order)]


def test_urgency_comes_first_then_a_human_needed_then_the_longest_wait() -> None:
    waiting: dict[str, Any] = {"heard": 1, "urgency": "P2"}
    calls = [
        sight(call_sid="over", urgency="P1", call_state=CallState.COMPLETE, outcome="hung_up"),
        sight(call_sid="test", urgency="P5"),
        sight(call_sid="unknown", urgency=None),
        sight(call_sid="stable", urgency="P4", needs_human="asked"),
        sight(call_sid="newer", urgency="P2", created_at=AT + 1),
        sight(call_sid="quiet", urgency="P2"),
        sight(call_sid="just", conversation_thread=(said(1, "a", AT + 9),), **waiting),
        sight(call_sid="long", conversation_thread=(said(1, "b", AT + 2),), **waiting),
        sight(call_sid="human", urgency="P2", needs_human="asked"),
        sight(call_sid="hurried", urgency="P4", hurry=1),
        sight(call_sid="life", urgency="P1", needs_human="asked"),
    ]
    assert order(*calls) == [
        *("life", "hurried", "human", "long", "just", "quiet", "newer", "unknown", "stable"),
        *("test", "over"),
    ]


def test_a_human_who_has_come_is_not_needed_any_more() -> None:
    accepted = HumanAlert(reason="asked", state="accepted")
    there = sight(call_sid="there", needs_human="asked", handling="human", alert=accepted)
    calls = [there, sight(call_sid="later", created_at=AT + 1, needs_human="asked")]
    assert order(*calls) == ["later", "there"]


TALKS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({}, "agent", EVERY_ACTION),
    ({"alert": HumanAlert(reason="a", state="ringing")}, "agent", EVERY_ACTION),
    ({"handling": "human"}, "nobody", EVERY_ACTION),
    ({"handling": "human", "alert": HumanAlert(reason="a")}, "nobody", EVERY_ACTION),
    (
        {"handling": "human", "alert": HumanAlert(reason="a", state="accepted")},
        "human",
        WITH_A_HUMAN,
    ),
    # A human was fast: they have pressed the key, and the line is still the agent's.
    ({"alert": HumanAlert(reason="a", state="accepted")}, "agent", EVERY_ACTION),
    ({"call_state": CallState.COMPLETE, "outcome": "hung_up"}, "nobody", ()),
]


def test_who_talks_and_what_may_be_done() -> None:
    for fields, talks, actions in TALKS:
        shown = row(sight(**fields))
        assert (shown.talks, shown.actions) == (talks, actions), fields


def test_whoever_is_rung_or_has_the_call_is_named() -> None:
    assert row(sight(alert=HumanAlert(reason="a", contact_index=1))).human is None
    assert row(sight(alert=HumanAlert(reason="a", contact_index=1, state="ringing"))).human == "Bo"
    assert row(sight(alert=HumanAlert(reason="a", contact_index=7, state="ringing"))).human is None
    taken = sight(alert=HumanAlert(reason="a", state="accepted", who="Cho"))
    assert row(taken).human == "Cho"
    assert BoardRow.of(taken, CallHistory(), None).human == "Cho"


def test_a_human_must_acknowledge_within_45_s_of_the_first_ring() -> None:
    rung = sight(alert=HumanAlert(reason="a", state="ringing"), urgency="P5")
    told = told_by(("alerted", AT + 5), ("rung", AT + 9), ("taken_over", AT + 20))
    assert timers(rung, told) == {"acknowledge": (AT + 5, 45_000)}
    came = sight(alert=HumanAlert(reason="a", state="accepted"), urgency="P5")
    assert timers(came, told) == {}
    left = told_by(("alerted", AT + 5), ("accepted", AT + 9), ("resumed", AT + 70))
    assert timers(rung, left) == {"acknowledge": (AT + 70, 45_000)}
    assert timers(rung, told_by(("taken_over", AT + 20))) == {"acknowledge": (AT + 20, 45_000)}


def test_nobody_may_wait_for_a_word_for_more_than_four_seconds() -> None:
    waits = {"heard": 1, "conversation_thread": (said(1, "stuck", AT + 3),), "urgency": "P5"}
    assert timers(sight(**waits)) == {"silence": (AT + 3, 4_000)}
    assert timers(sight(**waits, draft=Draft(turn=1, text="I am"))) == {}
    assert timers(sight(**waits, draft=Draft(turn=0, text="I am"))) == {"silence": (AT + 3, 4_000)}
    assert timers(sight(**waits, answered=1)) == {}


def test_whoever_may_be_trapped_is_spoken_with_again_and_again() -> None:
    spoke = (said(1, "I am here", AT + 5), said(2, "", AT + 50))
    limits = {"P1": 120_000, "P2": 120_000, "P3": 300_000, None: 300_000, "P4": None}
    for urgency, limit_ms in limits.items():
        call = {"heard": 2, "answered": 2, "urgency": urgency, "conversation_thread": spoke}
        expected = {} if limit_ms is None else {"welfare": (AT + 5, limit_ms)}
        assert timers(sight(**call)) == expected
        assert timers(sight(**call, recorded={"release.confirmed": True})) == {}
        ends = {"call_state": CallState.COMPLETE, "outcome": "hung_up"}
        assert timers(sight(**{**call, **ends})) == {}
        human = {"handling": "human", "alert": HumanAlert(reason="a", state="accepted")}
        assert timers(sight(**call, **human)) == {}
        assert timers(sight(urgency="P3")) == {"welfare": (AT, 300_000)}


def test_the_place_is_the_sites_and_the_rest_is_what_was_told() -> None:
    told = {
        **{"people": 3, "injured": True, "trapped": True, "lift_id": "B", "inside": True},
        **{"vulnerable": ["child", "ill"], "danger": ["smoke"]},
    }
    shown = row(sight(facts=told, site="tower", scenario_type="fire_smoke"))
    assert (shown.lift, shown.address, shown.people) == ("Lift 2", "1 High Street", 3)
    assert shown.flags == ("smoke", "injured", "trapped", "child", "ill")
    assert BoardRow.of(sight(facts=told), CallHistory(), None).lift == "B"
    assert row(sight(facts={"injured": False, "trapped": False})).flags == ()


def test_the_last_words_are_those_that_are_being_said_and_never_too_many() -> None:
    thread = (said(1, "stuck", AT),)
    shown = row(sight(heard=1, conversation_thread=thread))
    assert (shown.last, shown.speaking) == (("caller", "stuck"), False)
    shown = row(sight(heard=1, conversation_thread=thread, draft=Draft(turn=1, text="I am")))
    assert (shown.last, shown.speaking) == (("agent", "I am"), True)
    assert row(sight()).last is None
    long = row(sight(conversation_thread=(said(1, "é" * 1000, AT),))).last
    assert long is not None
    assert (len(long[1]), long[1][-1]) == (MOST_LETTERS, "…")


def test_a_revision_changes_with_what_happens_and_not_with_a_beat() -> None:
    base = row(sight(journal_length=4))
    assert row(sight(journal_length=4, last_heartbeat=AT + 9)).revision == base.revision
    assert row(sight(journal_length=5)).revision != base.revision
    assert row(sight(journal_length=4, updated_at=AT + 1)).revision != base.revision


def test_a_beat_is_shown_while_somebody_holds_the_call() -> None:
    held = sight(
        call_state=CallState.IN_PROGRESS, assigned_worker="w@h/1", last_heartbeat=AT, heard=1
    )
    assert (row(held).worker, row(held).beat_at) == ("w@h/1", AT)
    assert row(sight(last_heartbeat=AT)).beat_at is None


def test_a_row_as_text_is_the_row_as_a_dict() -> None:
    shown = row(sight(heard=1, conversation_thread=(said(1, "“here”", AT),), urgency="P1"))
    read = json.loads(shown.to_json())
    assert read == json.loads(json.dumps(shown.to_dict()))
    assert read["timers"][0] == {"name": "silence", "since": AT, "limit_ms": 4_000}
    assert read.keys() == set(BoardRow.__dataclass_fields__)
    assert isinstance(shown.timers[0], Timer)


def test_an_hour_forgets_what_is_older() -> None:
    hour = LastHour()
    hour.add_takeover(AT)
    hour.add_takeover(AT + 9)
    for at, ms in ((AT, 5_000), (AT + 5, 900), (AT + 9, 3_000), (AT + 9, 1_000)):
        hour.add_silence(CallerSilence("CA1", at, ms))
    assert hour.count_takeovers(AT + HOUR_MS) == 2
    longest = hour.longest_silence(AT + HOUR_MS)
    assert longest is not None
    assert longest.ms == 5_000
    under_way = hour.longest_silence(AT + HOUR_MS, [CallerSilence("CA2", AT, 6_000)])
    assert under_way is not None
    assert under_way.call_sid == "CA2"
    assert hour.count_takeovers(AT + HOUR_MS + 1) == 1
    later = hour.longest_silence(AT + HOUR_MS + 1)
    assert later is not None
    assert later.ms == 3_000
    assert hour.longest_silence(AT + 3 * HOUR_MS) is None
