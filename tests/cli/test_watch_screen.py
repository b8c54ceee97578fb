"""What the terminal board shows: the web board's order and words, by shape and word and colour."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from callflow.board.board_reader import BoardReader
from callflow.board.feed import BoardClock, BoardVersions
from callflow.cli import watch_screen
from callflow.cli.watch_screen import WatchedBoard, WatchView, draw
from callflow.health.deployment_checks import WorkforceStatus
from callflow.store.reader import CallWatcher
from tests.parts import Parts, Says

STAFFED = WorkforceStatus(
    workers=2, processes=4, slots=8, busy=3, watchdog="ok", beat="bad", swept_by="w", swept_ms=90
)


def _seen(
    parts: Parts, staffed: WorkforceStatus = STAFFED, opened: str | None = None
) -> WatchedBoard:
    """The board as it is now."""
    found = BoardReader(CallWatcher(parts.client), lambda: staffed, lambda site: None).read()
    state = BoardVersions()
    state.update(found)
    now = found.overview.now_ms
    record = None if opened is None else parts.record(opened)
    return WatchedBoard(state.snapshot(BoardClock(now, now)), 80, staffed.swept_ms, opened=record)


def _drawn(
    seen: WatchedBoard, view: WatchView | None = None, width: int = 150, height: int = 24
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=None)
    console.print(draw(seen, view or WatchView(), console), end="")
    lines = out.getvalue().removesuffix("\n").split("\n")
    assert len(lines) == height
    return "\n".join(line.rstrip() for line in lines)


def _calls(parts: Parts, **said: str) -> None:
    for call_sid, words in said.items():
        parts.intake.open(call_sid)
        parts.intake.hear(call_sid, 1, words)


def test_the_gravest_call_stands_above_with_its_shape_and_its_word(parts: Parts) -> None:
    _calls(parts, CA1="hello", CA2="there is a fire")
    drawn = _drawn(_seen(parts))
    first, second = drawn.index("⬢ P1 life at risk"), drawn.index("– – not yet known")
    assert first < second
    assert first < drawn.index("caller: there is a fire") < second


def test_every_urgency_has_a_shape_and_a_style_of_its_own() -> None:
    for table in (watch_screen.SHAPES, watch_screen.URGENCIES):
        assert len(set(table.values())) == len(table) == 6


def test_a_call_tells_who_works_on_it_and_who_did(parts: Parts) -> None:
    _calls(parts, CA1="stuck")
    store = parts.store
    now = parts.reader.now_ms()
    store.claim("CA1", "lost@host/1-ab", "first")
    parts.watchdog.sweep("test", now_ms=now + 60_000)
    store.claim("CA1", "w2@host/4711-ab", "second")
    drawn = _drawn(_seen(parts))
    for told in ("answering", "w2/4711 · beat", "· 1 takeover", "agent talks"):
        assert told in drawn


def test_a_human_who_is_needed_is_called_for_in_words(parts: Parts) -> None:
    _calls(parts, CA1="stuck")
    parts.store.handovers.want("CA1", "asked")
    assert "☎ human needed" in _drawn(_seen(parts))


def test_a_timer_shows_that_it_is_due_by_a_shape(parts: Parts) -> None:
    _calls(parts, CA1="stuck")
    seen = _seen(parts)
    for passed_ms, shown in ((1_000, "silence 0:01 / 0:04"), (3_200, "▲ sil"), (9_000, "⬢ sil")):
        later = replace(seen.board, now_ms=seen.board.now_ms + passed_ms)
        assert shown in _drawn(replace(seen, board=later))
    assert "⬢ sil" not in _drawn(seen)


def test_the_header_tells_of_calls_workers_sweeps_and_the_last_hour(parts: Parts) -> None:
    _calls(parts, CA1="stuck", CA2="stuck")
    parts.store.claim("CA1", "w1@host/1-ab", "first")
    drawn = _drawn(_seen(parts))
    for told in (
        "data 0.0 s old",
        "2 calls",
        "1 queued",
        "1 answering",
        "2 workers, 3 of 8 slots busy",
        "watchdog alive",
        "beat gone",
        "last sweep 0.0 s ago",
        "Takeovers, last hour: 0",
    ):
        assert told in drawn.partition("\n\n")[0], told


def test_the_longest_silence_is_there_on_every_width(parts: Parts) -> None:
    _calls(parts, CA1="stuck", CA2="stuck")
    seen = _seen(parts)
    figures = {**seen.board.header, "takeovers": 12, "silence_ms": 754_000}
    longest = replace(seen, board=replace(seen.board, header=figures), swept_ms=None)
    for width in (80, 100, 110, 150):
        drawn = _drawn(longest, width=width).split("\n")
        for told in ("beat gone", "Takeovers, last hour: 12", "12:34", "last sweep over 1 s ago"):
            assert any(told in line for line in drawn[2:4]), (told, width)
        assert "P" in drawn[4] or "not yet known" in drawn[4]


def test_old_data_is_shown_as_old_and_says_why(parts: Parts) -> None:
    drawn = _drawn(replace(_seen(parts), age_ms=4_000, trouble="the server is gone"))
    assert "This is 4.0 s old: it may be wrong." in drawn
    assert drawn.splitlines()[-2] == "the server is gone"


def test_more_calls_than_fit_are_told_and_reached(parts: Parts) -> None:
    _calls(parts, **{f"CA{number}": f"words {number}" for number in range(6)})
    seen = _seen(parts)
    view = WatchView()
    drawn = _drawn(seen, view, height=12)
    assert "1 to 3 of 6" in drawn
    assert "caller: words 5" not in drawn
    view.press("end", seen.calls, 3)
    drawn = _drawn(seen, view, height=12)
    assert "4 to 6 of 6" in drawn
    assert "▌" in drawn
    assert "caller: words 5" in drawn


def test_an_open_call_shows_its_conversation_with_the_end_in_sight(parts: Parts) -> None:
    parts.intake.open("CA1")
    with_words = parts.worker(Says(("Stay inside.",)))
    for turn in range(1, 9):
        parts.intake.hear("CA1", turn, f"words of turn {turn}")
        assert with_words.run("CA1") == "answered"
    view = WatchView(chosen="CA1", opened="CA1")
    drawn = _drawn(_seen(parts, opened="CA1"), view, height=14)
    assert "CA1" in drawn
    assert "words of turn 8" in drawn
    assert "words of turn 1" not in drawn
    view.press("k", ["CA1"], 4)
    for _ in range(20):
        view.press("pageup", ["CA1"], 4)
    drawn = _drawn(_seen(parts, opened="CA1"), view, height=14)
    assert "words of turn 1" in drawn
    assert "words of turn 8" not in drawn


def test_a_call_that_is_open_and_has_gone_is_said_to_have_gone(parts: Parts) -> None:
    assert "has gone" in _drawn(_seen(parts), WatchView(opened="CA404"))


def test_every_size_of_a_terminal_is_filled_and_never_exceeded(parts: Parts) -> None:
    _calls(parts, CA1="电梯停了 " * 60, CA2="\x1b[2J\u202e help " * 40)
    for width, height in ((40, 8), (80, 24), (300, 60)):
        drawn = _drawn(_seen(parts), WatchView(chosen="CA1"), width, height)
        for line in drawn.splitlines():
            assert Console(width=1000).measure(line).maximum <= width
        assert "\x1b[2J" not in drawn
        assert "\u202e" not in drawn


def test_what_does_not_fit_ends_with_an_ellipsis(parts: Parts) -> None:
    for line in _drawn(_seen(parts), width=40).splitlines()[2:3]:
        assert line.startswith("2 workers")
        assert line.endswith("…")


def test_a_quiet_night_says_so(parts: Parts) -> None:
    assert "No calls. All is quiet." in _drawn(_seen(parts))


def test_a_line_for_a_file_has_no_clock_in_it(parts: Parts) -> None:
    _calls(parts, CA1="stuck")
    (row,) = _seen(parts).board.rows
    told = watch_screen.describe(row)
    assert told == watch_screen.describe(row)
    assert told.startswith("CA1 · – not yet known · queued")
    assert told.endswith("caller: stuck")
