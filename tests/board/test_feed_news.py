"""Between two states of the board is told what has changed, or all of it."""

from __future__ import annotations

import json

from callflow.board.feed import REMEMBERED, BoardClock, BoardVersions
from tests.boards import AT, seen, shown


def test_a_board_that_comes_back_is_told_what_it_missed_and_no_more() -> None:
    state, clock = BoardVersions(), BoardClock(AT, AT)
    assert state.update(seen(shown("CA1"), shown("CA2"), shown("CA3")))
    one = state.version
    third = shown("CA3")
    assert state.update(seen(shown("CA2", 1), third))
    two = state.version
    changes = state.since(one, clock).to_dict()
    assert sorted(row["call_sid"] for row in changes["changed"]) == ["CA2", "CA3"]
    assert changes["gone"] == ["CA1"]

    last = shown("CA2", 2)
    assert state.update(seen(last, third))
    assert [row["fence"] for row in state.since(two, clock).to_dict()["changed"]] == [2]
    assert not state.update(seen(last, third, at=AT + 250))
    assert state.since(state.version, clock).kind == "clock"
    for unknown in (None, 0, -1, state.version + 1):
        assert len(state.since(unknown, clock).to_dict()["rows"]) == 2
    assert state.update(seen(last, third, takeovers=1))
    news = state.since(state.version - 1, clock)
    assert (news.kind, news.header["takeovers"]) == ("change", 1)
    assert news.to_dict()["changed"] == news.to_dict()["gone"] == []


def test_what_has_left_long_ago_is_known_no_more_and_all_is_told() -> None:
    state, clock = BoardVersions(), BoardClock(AT, AT)
    state.update(seen(shown("CA1"), shown("CA2")))
    state.update(seen(shown("CA2")))
    for number in range(3 * REMEMBERED):
        state.update(seen(shown("CA2", number)))
    assert state.since(1, clock).kind == "snapshot"
    assert state.since(state.version - REMEMBERED + 1, clock).kind == "change"
    assert state._gone_in == {}


def test_what_boards_are_told_is_the_same_as_text() -> None:
    state = BoardVersions()
    state.update(seen(shown("CA2"), shown("CA1"), takeovers=3))
    clock = BoardClock(AT + 1_001, AT, 'why "not"')
    news = state.since(None, clock)
    assert json.loads(news.to_json()) == json.loads(json.dumps(news.to_dict()))
    assert (news.header["age_ms"], news.header["stale"]) == (1_001, True)
    assert [row["call_sid"] for row in news.to_dict()["rows"]] == ["CA1", "CA2"]
    assert "\n" not in news.to_json()
    state.update(seen(shown("CA2")))
    news = state.since(1, clock)
    assert json.loads(news.to_json()) == json.loads(json.dumps(news.to_dict()))
