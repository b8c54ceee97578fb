"""Errors of the store that lasts. None shows what people said, or a password."""

from __future__ import annotations

from callflow.errors import CallflowError


class RecordsError(CallflowError):
    """The lasting store did not do what was asked; nothing of it was stored in part."""

    def __init__(self, where: str, reason: str) -> None:
        self.where = where
        self.reason = reason
        super().__init__(f"the lasting store {where} {reason}")


class RecordsUnavailable(RecordsError):
    """It cannot be reached, or does not answer in time. Everything may be asked again."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(
            where,
            f"cannot be used: {reason}; check CALLFLOW_RECORDS_URL. Records of complete calls stay "
            "where they are until it can",
        )


class RecordRefused(RecordsError):
    """It answers, and does not take this: something in one record that it cannot hold. Others can
    be kept."""

    def __init__(self, where: str, cause: str) -> None:
        self.cause = cause
        super().__init__(
            where,
            f"refused it: {cause}; see its own log, and `callflow records verify`. Nothing of it "
            "was stored",
        )


class RecordsDamaged(RecordsError):
    """A part of its file is not as it was written: nothing can be read there, by anybody."""

    def __init__(self, where: str, found: str) -> None:
        self.found = found = "".join(one if one.isprintable() else " " for one in found)
        super().__init__(
            where,
            f"was changed, or its disk has failed: {found}. Keep it as it is for whoever looks "
            "into it, and put back a copy, or name an empty one in CALLFLOW_RECORDS_URL",
        )


class NothingKept(RecordsError):
    """There is no record, and there never was one: whoever reads does not make the tables."""

    def __init__(self, where: str) -> None:
        super().__init__(
            where,
            "holds nothing: nothing is kept yet. The first complete call that the watchdog worker "
            "archives makes it; see `callflow doctor` where one should have",
        )


class SealBroken(RecordsError):
    """The end of the chain is not borne out by the key: nothing is added to what may be forged."""

    def __init__(self, where: str, position: int, found: str) -> None:
        self.position = position
        super().__init__(
            where,
            f"gets no further row: {found} (row {position}), and what is added must not bear out "
            "a forgery. Set CALLFLOW_RECORDS_KEY as it was when that row was kept, in every "
            "process; if it was, keep this database for whoever looks into it, and put back a copy "
            "or name an empty one in CALLFLOW_RECORDS_URL. See `callflow records verify`",
        )


class RecordsTooNew(RecordsError):
    """A newer release of callflow has changed its tables."""

    def __init__(self, where: str, version: int, known: int) -> None:
        self.version = version
        self.known = known
        super().__init__(
            where,
            f"has tables of version {version}, and this callflow knows up to {known}: upgrade "
            "callflow to the release that wrote them",
        )


class DriverMissing(RecordsError):
    """What talks to it is not installed."""

    def __init__(self, where: str, module: str, extra: str) -> None:
        self.module = module
        super().__init__(
            where, f"needs {module}, which is not installed: pip install 'callflow[{extra}]'"
        )


class NotRecorded(CallflowError):
    """No record of that call: it is not complete, or it was never kept for good."""

    def __init__(self, call_sid: str) -> None:
        self.call_sid = call_sid
        super().__init__(
            f"call {call_sid} has no lasting record: it is not complete yet (see `callflow calls "
            "show`), or it ended before CALLFLOW_RECORDS_URL was set"
        )
