"""Logs: one line for each event, which says what it is about, and never what people said."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from celery.beat import SchedulingError

from callflow import logs
from callflow.call.record import CallRecord
from callflow.errors import StoreUnavailable
from callflow.responder import Piece
from callflow.transport import BrokerDemoted
from callflow.web.executor import StoreExecutor
from callflow.web.webhook import VoiceRequest, logged_and_traced
from tests.parts import SID, Parts

log = logging.getLogger("callflow.test")


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    """What is logged, as JSON; afterwards the test run's own logging is as it was."""
    with _logging("json", "debug", monkeypatch) as written:
        yield written


@contextmanager
def _logging(
    form: logs.Form | None, level: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    # Web processes of other tests have set up uvicorn's.
    webs = [logging.getLogger(name) for name in ("uvicorn", "uvicorn.error")]
    named = [root, *webs, *(logging.getLogger(name) for name in logs.TALKATIVE)]
    before = [(each, each.level, each.propagate) for each in named]
    handlers = root.handlers[:]
    written = io.StringIO()
    monkeypatch.setattr(sys, "stderr", written)
    for each in webs:
        each.setLevel(logging.NOTSET)
        each.propagate = True
    logs.configure(form, level)
    try:
        yield written
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        for each, its_level, propagates in before:
            each.setLevel(its_level)
            each.propagate = propagates


def _read(written: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in written.getvalue().splitlines()]


def test_a_line_carries_what_is_bound_around_it(lines: io.StringIO) -> None:
    with logs.bound(call_sid=SID, worker="w1"):
        with logs.bound(turn=3, fence=7):
            log.warning("late by %d s", 4)
        log.warning("outside of the turn")
    log.warning("outside of the call")

    first, second, third = _read(lines)
    assert first["message"] == "late by 4 s"
    assert first.items() >= {"call_sid": SID, "turn": 3, "fence": 7, "worker": "w1"}.items()
    assert second["call_sid"] == SID
    assert "turn" not in second
    assert "call_sid" not in third


def test_a_line_about_an_exception_carries_what_was_bound_where_it_was_raised(
    lines: io.StringIO,
) -> None:
    """Celery logs a turn's exception when the turn is over."""
    try:
        with logs.bound(call_sid=SID), logs.bound(fence=7):
            raise ValueError("no such word")
    except ValueError:
        log.exception("it failed")

    (line,) = _read(lines)
    assert (line["call_sid"], line["fence"]) == (SID, 7)
    assert line["error"] == "ValueError: no such word"
    assert "test_logs.py" in line["traceback"]


def test_celerys_lines_about_a_task_carry_its_call(lines: io.StringIO) -> None:
    data = {"name": "callflow.run_turn", "args": f"('{SID}',)", "kwargs": "{}"}
    logging.getLogger("celery.worker.strategy").info("received", extra={"data": data})
    (line,) = _read(lines)
    assert (line["task"], line["call_sid"]) == ("callflow.run_turn", SID)


def test_a_turn_tells_which_it_is(parts: Parts, lines: io.StringIO) -> None:
    class Talks:
        def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
            log.warning("wording it")
            yield Piece("I am here.", last=True)

    parts.intake.open(SID)
    parts.intake.hear(SID, 1, "private words")
    worker = parts.worker(Talks())
    assert worker.run(SID) == "answered"

    (line,) = [each for each in _read(lines) if each["message"] == "wording it"]
    expected = {"call_sid": SID, "turn": 1, "fence": 1, "worker": worker.heartbeat.worker}
    assert line.items() >= expected.items()
    assert "private" not in lines.getvalue()


def test_a_webhook_tells_of_which_call_and_turn_it_is(lines: io.StringIO) -> None:
    wait = VoiceRequest({"CallSid": SID}, {"n": "3", "s": "private"})
    with logged_and_traced("/voice/wait", wait):
        log.warning("slow")
    with logged_and_traced("/voice/status", VoiceRequest({"CallSid": SID}, {})):
        log.warning("over")
    waits, status = _read(lines)
    assert (waits["call_sid"], waits["turn"]) == (SID, 3)
    assert status["call_sid"] == SID
    assert "turn" not in status
    assert "private" not in lines.getvalue()


def test_a_question_that_a_web_process_asks_in_a_thread_is_about_the_same_call(
    lines: io.StringIO,
) -> None:
    async def ask() -> None:
        executor = StoreExecutor("here")
        with logs.bound(call_sid=SID):
            await executor.run(log.warning, "asked")
        executor.close()

    asyncio.run(ask())
    (line,) = [each for each in _read(lines) if each["message"] == "asked"]
    assert line["call_sid"] == SID


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("redis://:hunter2@host:6379/0 is gone", "redis://***@host:6379/0 is gone"),
        ("at rediss://user:p@ss:w/rd@host", "at rediss://***@host"),
        ("sentinel://:one@a:1;sentinel://:two@b:1", "sentinel://***@b:1"),
        ("redis://host/0?password=hunter2&db=1", "redis://host/0?password=***&db=1"),
        ("https://example.org/v1/traces", "https://example.org/v1/traces"),
    ],
)
def test_passwords_in_addresses_are_masked_wherever_they_stand(
    written: str, read: str, lines: io.StringIO
) -> None:
    try:
        raise ValueError(written)
    except ValueError:
        log.exception("%s", written)
    (line,) = _read(lines)
    assert (line["message"], line["error"]) == (read, f"ValueError: {read}")
    assert line["traceback"].endswith(read)


@pytest.mark.parametrize(
    "name", ["uvicorn.error", "websockets.server", "openai", "httpx", "twilio"]
)
def test_libraries_that_log_what_passes_through_them_are_not_heard_below_warning(
    name: str, lines: io.StringIO
) -> None:
    library = logging.getLogger(name)
    library.debug("< TEXT 'we are stuck'")
    library.info("POST /voice/turn?s=we+are+stuck")
    library.warning("it broke")
    assert [line["message"] for line in _read(lines)] == ["it broke"]


@pytest.mark.parametrize(
    ("logger", "error"),
    [
        ("celery.worker.consumer.consumer", ConnectionResetError("by peer")),
        ("celery.worker.consumer.consumer", BrokerDemoted("READONLY")),
        ("celery.app.trace", StoreUnavailable("host:6379", "refused")),
        ("callflow.web.app", StoreUnavailable("host:6379", "refused")),
    ],
)
def test_a_server_that_is_gone_is_one_line_with_type_and_message(
    logger: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _logging("text", "warning", monkeypatch) as written:
        try:
            raise error
        except Exception:
            logging.getLogger(logger).exception("lost the line")
    (line,) = written.getvalue().splitlines()
    assert line.endswith(f"lost the line · {type(error).__name__}: {error}")


def test_what_keeps_beat_from_sending_is_one_line_without_its_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _logging("text", "warning", monkeypatch) as written:
        try:
            try:
                raise ConnectionRefusedError("port 6379")
            except OSError as error:
                raise SchedulingError(f"cannot send sweep: {error}") from error
        except SchedulingError as error:
            stack = ["File one", "File two"]
            beat = logging.getLogger("celery.beat")
            beat.exception("Message Error: %s\n%s", error, stack)
    (line,) = written.getvalue().splitlines()
    assert line.count("cannot send sweep: port 6379") == 2
    assert "SchedulingError: " in line
    assert "File one" not in line


def test_what_a_message_tells_of_an_error_by_itself_is_not_told_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with _logging("text", "warning", monkeypatch) as written:
        try:
            raise StoreUnavailable("host:6379", "refused")
        except StoreUnavailable as error:
            logging.getLogger("kombu.asynchronous.hub").exception("Error in timer: %r", error)
    (line,) = written.getvalue().splitlines()
    assert line.count("cannot be reached") == line.count("StoreUnavailable") == 1


@pytest.mark.parametrize("logger", ["celery.app.trace", "callflow.turn"])
def test_a_mistake_of_ours_keeps_its_traceback(
    logger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with _logging("text", "warning", monkeypatch) as written:
        try:
            raise KeyError("scenario")
        except KeyError:
            logging.getLogger(logger).exception("it failed")
    first, *rest = written.getvalue().splitlines()
    assert first.endswith("it failed · KeyError: 'scenario'")
    assert rest[0].startswith("Traceback")


def test_a_message_cannot_forge_a_line_or_move_a_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    with _logging("text", "warning", monkeypatch) as written:
        log.warning("frame\n2026-01-01 ERROR forged\x1b[2J\u2028and more")
    (line,) = written.getvalue().splitlines()
    assert "\x1b" not in line
    assert r"frame\n2026-01-01 ERROR forged\x1b[2J\u2028and more" in line


def test_a_terminal_gets_text_and_a_file_gets_json_unless_it_is_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with _logging(None, "warning", monkeypatch) as written:
        log.warning("to a file")
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        logs.configure(None, "warning")
        log.warning("to a person")
        assert "WARNING callflow.test: to a person" in terminal.getvalue()
    (line,) = _read(written)
    assert line.items() >= {"level": "warning", "logger": "callflow.test"}.items()


def test_a_log_file_that_celery_was_told_of_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worker.log"
    with _logging("json", "warning", monkeypatch) as written:
        logs.configure(None, logging.WARNING, file=str(file))
        log.warning("hello")
    assert json.loads(file.read_text())["message"] == "hello"
    assert written.getvalue() == ""
