"""Keys at the terminal board: what they choose, and a terminal that is as it was afterwards."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from callflow.cli.watch_screen import WatchView, read_keys
from tests.cli.running import Cli, store_at

CALLS = ["CA1", "CA2", "CA3", "CA4"]


def _pressed(*names: str, view: WatchView | None = None) -> WatchView:
    view = view or WatchView()
    for name in names:
        view.press(name, CALLS, 2)
    return view


CHOICES: list[tuple[tuple[str, ...], str | None]] = [
    (("j",), "CA1"),
    (("up",), "CA1"),
    (("j", "down"), "CA2"),
    (("j", "j", "k"), "CA1"),
    (("j", "k", "k"), "CA1"),
    (("G",), "CA4"),
    (("end", "j"), "CA4"),
    (("end", "home"), "CA1"),
    (("j", "pagedown"), "CA3"),
    (("x",), None),
]


def test_keys_choose_calls_and_stop_at_both_ends() -> None:
    for names, chosen in CHOICES:
        assert _pressed(*names).chosen == chosen, names


def test_a_choice_stays_with_its_call_wherever_that_moves_to() -> None:
    view = _pressed("j", "j")
    view.press("j", ["CA2", "CA4", "CA1"], 2)
    assert view.chosen == "CA4"


def test_a_chosen_call_that_has_gone_is_chosen_no_more() -> None:
    view = _pressed("j", "j")
    assert view.place(["CA1", "CA3"]) is None
    view.press("j", ["CA1", "CA3"], 2)
    assert view.chosen == "CA1"


def test_enter_opens_the_chosen_call_and_escape_leaves_it() -> None:
    view = _pressed("j", "enter")
    assert view.opened == "CA1"
    assert _pressed("escape", view=view).opened is None
    assert _pressed("enter").opened is None


def test_no_row_moves_while_the_chosen_call_can_be_seen() -> None:
    view = WatchView()
    view.chosen = "CA3"
    assert view.window(CALLS, 2) == slice(1, 3)
    view.chosen = "CA2"
    assert view.window(CALLS, 2) == slice(1, 3)
    view.chosen = "CA1"
    assert view.window(CALLS, 2) == slice(0, 2)


def test_p_pauses_and_goes_on() -> None:
    assert _pressed("p").paused
    assert not _pressed("p", "p").paused


@dataclass
class Terminal:
    """A terminal of a test, and what was written on it."""

    master: int
    slave: int
    written: bytes = b""
    modes: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.modes = termios.tcgetattr(self.slave)

    def press(self, letters: str) -> None:
        os.write(self.master, letters.encode())

    def shows(self, words: str, within_s: float = 20) -> None:
        """Wait until these words have been written."""
        deadline = time.monotonic() + within_s
        while words not in self.words:
            assert time.monotonic() < deadline, f"{words!r} is not in {self.written!r}"
            if select.select([self.master], [], [], 0.1)[0]:
                self.written += os.read(self.master, 65536)

    @property
    def words(self) -> str:
        """What was written, without what moves the cursor and changes colours."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.written.decode("utf-8", "replace"))

    def drain(self) -> None:
        while select.select([self.master], [], [], 0.1)[0]:
            self.written += os.read(self.master, 65536)

    @property
    def is_as_it_was(self) -> bool:
        return termios.tcgetattr(self.slave) == self.modes


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 150))
    yield Terminal(master, slave)
    os.close(master)
    os.close(slave)


@contextmanager
def _stdin(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with os.fdopen(os.dup(terminal.slave)) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield


SENT = [
    ("q", "q"),
    ("\r", "enter"),
    ("\x1b[A", "up"),
    ("\x1bOB", "down"),
    ("\x1b[6~", "pagedown"),
    ("\x1b", "escape"),
    ("\x1b[24;5~", "c-f12"),
    ("\x04", "q"),
    ("\x7f", "backspace"),
    ("é", "é"),
]


def test_what_a_terminal_sends_for_a_key_is_known(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _stdin(terminal, monkeypatch), read_keys() as read:
        for sent, key in SENT:
            terminal.press(sent)
            assert read(1) == [key]


def test_no_key_is_waited_for_in_vain(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    with _stdin(terminal, monkeypatch), read_keys() as read:
        assert read(0) == []


def _leave_by(number: signal.Signals) -> None:
    with read_keys():
        signal.raise_signal(number)


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, None)]
)
def test_a_terminal_is_restored_whatever_ends_the_watching(
    number: signal.Signals,
    status: int | None,
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    handlers = [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)]
    if number == signal.SIGINT and signal.getsignal(number) is signal.SIG_IGN:
        # These tests are a background job; the command line sees to that itself.
        request.addfinalizer(partial(signal.signal, number, signal.SIG_IGN))
        signal.signal(number, signal.default_int_handler)
    how = KeyboardInterrupt if status is None else SystemExit
    with _stdin(terminal, monkeypatch):
        with read_keys():
            assert not terminal.is_as_it_was
        with pytest.raises(how) as left:
            _leave_by(number)
    assert status is None or left.value.args == (status,)
    assert terminal.is_as_it_was
    assert [signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)] == handlers


@contextmanager
def _watching(cli: Cli, terminal: Terminal) -> Iterator[subprocess.Popen[bytes]]:
    cli.set("TERM", "xterm-256color")
    process = subprocess.Popen(
        [sys.executable, "-m", "callflow", "calls", "watch", "--interval", "0.05"],
        stdin=terminal.slave,
        stdout=terminal.slave,
        stderr=terminal.slave,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        cwd=cli.home,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.leaves_live_calls
def test_a_person_at_a_terminal_sees_a_call_opens_it_and_leaves(
    cli: Cli, redis_url: str, terminal: Terminal
) -> None:
    store = store_at(redis_url)
    store.open("CA1", greeting="This is the lift line.")
    store.record_utterance("CA1", 1, "we are stuck")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    with _watching(cli, terminal) as process:
        terminal.shows("caller: we are stuck")
        assert not terminal.is_as_it_was
        terminal.press("j\r")
        terminal.shows("This is the lift line.")
        terminal.press("q")
        assert process.wait(10) == 0
    terminal.drain()
    assert terminal.is_as_it_was
    assert terminal.written.endswith((b"\x1b[?1049l\x1b[?25h", b"\x1b[?25h\x1b[?1049l"))


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_whatever_ends_it_the_terminal_is_as_it_was(
    number: signal.Signals, status: int, cli: Cli, redis_url: str, terminal: Terminal
) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    with _watching(cli, terminal) as process:
        terminal.shows("All is quiet")
        process.send_signal(number)
        assert process.wait(10) == status
    terminal.drain()
    assert terminal.is_as_it_was
    assert b"\x1b[?1049l" in terminal.written


@pytest.mark.leaves_live_calls
def test_without_a_terminal_each_change_is_one_line(cli: Cli, redis_url: str) -> None:
    store_at(redis_url).open("CA1")
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    watching = cli.start("calls", "watch", "--interval", "0.05")
    assert watching.stdout is not None
    assert "CA1 · – not yet known · listening" in watching.stdout.readline().decode()
    store_at(redis_url).record_utterance("CA1", 1, "stuck")
    assert "caller: stuck" in watching.stdout.readline().decode()
    watching.send_signal(signal.SIGINT)
    assert cli.finish(watching).out == ""
