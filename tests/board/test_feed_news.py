"""Between two states of the board is told what has changed, or all of it."""

from __future__ import annotations

import json

from callflow.board.news import REMEMBERED, Clock, State
from tests.boards import AT, seen, shown


def test_a_board_that_comes_back_is_told_what_it_missed_and_no_more() -> None:
    state, clock = State(), Clock(AT, AT)
    assert state.take(seen(shown("CA1"), shown("CA2"), shown("CA3")))
    one = state.version
    third = shown("CA3")
    assert state.take(seen(shown("CA2", 1), third))
    two = state.version
    changes = state.since(one, clock).as_dict()
    assert sorted(row["call_sid"] for row in changes["changed"]) == ["CA2", "CA3"]
    assert changes["gone"] == ["CA1"]

    last = shown("CA2", 2)
    assert state.take(seen(last, third))
    assert [row["fence"] for row in state.since(two, clock).as_dict()["changed"]] == [2]
    assert not state.take(seen(last, third, at=AT + 250))
    assert state.since(state.version, clock).kind == "clock"
    for unknown in (None, 0, -1, state.version + 1):
        assert len(state.since(unknown, clock).as_dict()["rows"]) == 2
    assert state.take(seen(last, third, takeovers=1))
    news = state.since(state.version - 1, clock)
    assert (news.kind, news.header["takeovers"]) == ("change", 1)
    assert news.as_dict()["changed"] == news.as_dict()["gone"] == []


def test_what_has_left_long_ago_is_known_no_more_and_all_is_told() -> None:
    state, clock = State(), Clock(AT, AT)
    state.take(seen(shown("CA1"), shown("CA2")))
    state.take(seen(shown("CA2")))
    for number in range(3 * REMEMBERED):
        state.take(seen(shown("CA2", number)))
    assert state.since(1, clock).kind == "snapshot"
    assert state.since(state.version - REMEMBERED + 1, clock).kind == "change"
    assert state._gone_in == {}


def test_what_boards_are_told_is_the_same_as_text() -> None:
    state = State()
    state.take(seen(shown("CA2"), shown("CA1"), takeovers=3))
    clock = Clock(AT + 1_001, AT, 'why "not"')
    news = state.since(None, clock)
    assert json.loads(news.as_json()) == json.loads(json.dumps(news.as_dict()))
    assert (news.header["age_ms"], news.header["stale"]) == (1_001, True)
    assert [row["call_sid"] for row in news.as_dict()["rows"]] == ["CA1", "CA2"]
    assert "\n" not in news.as_json()
    state.take(seen(shown("CA2")))
    news = state.since(1, clock)
    assert json.loads(news.as_json()) == json.loads(json.dumps(news.as_dict()))
