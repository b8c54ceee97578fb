"""Single keys from a terminal, which is as it was afterwards, whatever happened meanwhile."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

ESCAPE_WITHIN_S = 0.05
"""The rest of an arrow key follows its first byte at once; a lone Escape has none."""

_SEQUENCES = {
    b"[A": "up",
    b"[B": "down",
    b"OA": "up",
    b"OB": "down",
    b"[5~": "page up",
    b"[6~": "page down",
    b"[H": "home",
    b"[F": "end",
    b"[1~": "home",
    b"[4~": "end",
    b"OH": "home",
    b"OF": "end",
    b"": "escape",
}

_NAMES = {"\r": "enter", "\n": "enter", "\x7f": "backspace", "\x08": "backspace", "\x04": "q"}

Read = Callable[[float], str]
"""The next key within so many seconds: a letter, a name such as `up`; empty for none."""


@contextmanager
def keys() -> Iterator[Read]:
    """Read single keys while the block runs, where stdin is a terminal; else only wait.

    SIGTERM and SIGHUP leave the block as SystemExit, Ctrl-C as KeyboardInterrupt. Ctrl-Z does
    nothing: a shell cannot know what it would have to restore.
    """
    if not sys.stdin.isatty():
        with _ending():
            yield _wait
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        with _ending():
            tty.setcbreak(fd)
            _without_suspension(fd)
            yield lambda seconds: _read(fd, seconds)
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def _without_suspension(fd: int) -> None:
    attributes = termios.tcgetattr(fd)
    attributes[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(fd, termios.TCSANOW, attributes)


@contextmanager
def _ending() -> Iterator[None]:
    def end(number: int, _: Any) -> None:
        raise SystemExit(128 + number)

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _wait(seconds: float) -> str:
    time.sleep(seconds)
    return ""


def _read(fd: int, seconds: float) -> str:
    if not _ready(fd, seconds):
        return ""
    first = os.read(fd, 1)
    if not first:
        # The terminal has gone.
        raise SystemExit(128 + signal.SIGHUP)
    if first == b"\x1b":
        return _SEQUENCES.get(_rest(fd), "")
    letter = first.decode("ascii", "replace")
    return _NAMES.get(letter, letter)


def _rest(fd: int) -> bytes:
    rest = b""
    # A sequence ends with a letter or a tilde, behind what it begins with.
    while _ready(fd, ESCAPE_WITHIN_S) and len(rest) < 8:
        rest += os.read(fd, 1)
        if len(rest) > 1 and (rest[-1:].isalpha() or rest.endswith(b"~")):
            break
    return rest


def _ready(fd: int, seconds: float) -> bool:
    return bool(select.select([fd], [], [], seconds)[0])
