"""Writes structured logs: each line says which call, turn, fence and worker it is about.

Who works on something says so once (`with logs.bound(call_sid=…)`), and every line within carries
it, those of libraries too. No line carries what people said: libraries that log what passes through
them are heard from WARNING on, whatever level is set. Passwords in addresses are masked.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

from callflow.errors import StoreError

Form = Literal["text", "json"]
Field = str | int

LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}

TALKATIVE = ("callflow", "celery")
"""Loggers that follow the level that is set. Others are heard from WARNING on: at DEBUG the clients
of models log their prompts, and web servers log frames and addresses, which hold what was said."""

_bound: ContextVar[Mapping[str, Field] | None] = ContextVar("callflow_logs_bound", default=None)

_BOUND_AT_RAISE = "_callflow_logged_of"
"""Where an exception keeps what was bound when it was raised: Celery logs it after the turn."""

_BROKER_LOGGERS = frozenset({"celery", "kombu"})
_BROKER_ERRORS = frozenset({"amqp", "kombu", "redis"})
"""Packages whose errors, in those loggers, say that a server is gone."""

_TASK_OF_CALL = re.compile(r"\('([A-Za-z0-9_-]{1,64})',\)")
"""The arguments of our tasks about one call, as Celery logs them."""

# To the last @ of a word: a password may hold one, and a host that is masked as well is no loss.
_USER_INFO = re.compile(r"://\S*@")
_SECRET_PARAMETER = re.compile(r"(?i)([?&](?:password|token|key|secret)=)[^&\s'\"]+")

_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    0x09: "\\t",
    0x0A: "\\n",
    0x0D: "\\r",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def configure(form: Form | None, level: str | int | None, *, file: str | None = None) -> None:
    """Log to stderr, or to `file`, from now on; twice, the last one stands.

    `form`: None is text where a terminal reads, else JSON. `level`: one of LEVELS, or a number of
    `logging`; None is what is worth a person's look: warnings and worse.
    """
    handler: logging.StreamHandler[Any] = logging.StreamHandler(sys.stderr)
    if file is not None:
        handler = logging.FileHandler(file, encoding="utf-8")
    form = form or ("text" if handler.stream.isatty() else "json")
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    for before in root.handlers[:]:
        root.removeHandler(before)
    root.addHandler(handler)
    wanted = LEVELS[level or "warning"] if level is None or isinstance(level, str) else level
    root.setLevel(max(wanted, logging.WARNING))
    for name in TALKATIVE:
        logging.getLogger(name).setLevel(wanted)
    # Warnings of libraries are lines of the log like others.
    logging.captureWarnings(True)


@contextmanager
def bound(**fields: Field | None) -> Iterator[None]:
    """Put `fields` on every line that this thread or task logs within the block, and on the line
    that tells of an exception which leaves it. None is left out; inner ones replace outer ones."""
    known = {name: value for name, value in fields.items() if value is not None}
    token = _bound.set({**(_bound.get() or {}), **known})
    try:
        yield
    except BaseException as error:
        # The innermost knows most. Not by setattr, which an exception may forbid.
        error.__dict__.setdefault(_BOUND_AT_RAISE, _bound.get())
        raise
    finally:
        _bound.reset(token)


def masked(text: str) -> str:
    """`text` without the passwords in its addresses: `redis://***@host:6379/0`."""
    if "://" not in text:
        return text
    return _SECRET_PARAMETER.sub(r"\1***", _USER_INFO.sub("://***@", text))


class _CallFormatter(logging.Formatter):
    """What both forms of a line know of one event."""

    def fields(self, record: logging.LogRecord) -> dict[str, Field]:
        """What the line is about: what is bound, and what the exception was raised within."""
        error = _error_of(record)
        of = {} if error is None else error.__dict__.get(_BOUND_AT_RAISE, {})
        return {**_task_fields(record), **of, **(_bound.get() or {})}

    def message(self, record: logging.LogRecord) -> str:
        """Masked; of an error that explains itself, without the stack that beat adds to it."""
        text = record.getMessage().strip()
        return masked(text.partition("\n")[0] if _explains_itself(record) else text)

    def error(self, record: logging.LogRecord) -> str:
        """Type and message of the exception, masked; empty where there is none."""
        error = _error_of(record)
        return "" if error is None else masked(f"{type(error).__name__}: {error}")

    def traceback(self, record: logging.LogRecord) -> str:
        """Where it was raised, masked; empty where the error explains itself."""
        error = _error_of(record)
        if error is None:
            return masked(record.stack_info or "")
        if _explains_itself(record):
            return ""
        return masked("".join(traceback.format_exception(error)).rstrip())


class JsonFormatter(_CallFormatter):
    """One JSON object on a line: time (UTC), level, logger, pid, message, what is bound, and of an
    exception `error` (type and message) and `traceback`."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Field] = {
            "time": _utc(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process or 0,
            "message": self.message(record),
            **self.fields(record),
        }
        of_error = {"error": self.error(record), "traceback": self.traceback(record)}
        return json.dumps(line | {name: text for name, text in of_error.items() if text})


class TextFormatter(_CallFormatter):
    """For people: one line, and a traceback below it where one is needed. What could move a cursor
    or begin another line is written out."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        fields = " ".join(f"{name}={value}" for name, value in self.fields(record).items())
        message, error = self.message(record), self.error(record)
        if all(part in message for part in error.split(": ", 1)):
            # Celery says some by itself, and a line is long enough.
            error = ""
        parts = (message, error, fields)
        line = " · ".join(part.translate(_CONTROL) for part in parts if part)
        raised = self.traceback(record)
        begin = f"{_utc(record)} {record.levelname} {record.name}:"
        return f"{begin} {line}" + (f"\n{raised}" if raised else "")


def _utc(record: logging.LogRecord) -> str:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{second}.{int(record.msecs):03d}Z"


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def _task_fields(record: logging.LogRecord) -> dict[str, Field]:
    """Celery says beside its lines which task they are about, those of a worker's parent too."""
    data = getattr(record, "data", None)
    if not isinstance(data, dict) or "name" not in data:
        return {}
    call = _TASK_OF_CALL.fullmatch(str(data.get("args")))
    of = {} if call is None else {"call_sid": call.group(1)}
    return {"task": str(data["name"]), **of}


def _explains_itself(record: logging.LogRecord) -> bool:
    """True for an error that says which server is gone: where we noticed tells nothing more, and
    while a broker or the store fails over it comes several times a second."""
    error = _error_of(record)
    if error is None or isinstance(error, StoreError):
        return error is not None
    if record.name.partition(".")[0] not in _BROKER_LOGGERS:
        return False
    # Beat wraps what keeps it from sending in an error of its own.
    of_beat = type(error).__module__ == "celery.beat"
    return _of_a_broker(error) or (of_beat and _of_a_broker(error.__cause__ or error.__context__))


def _of_a_broker(error: BaseException | None) -> bool:
    packages = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return bool(packages & _BROKER_ERRORS) or isinstance(error, OSError)
