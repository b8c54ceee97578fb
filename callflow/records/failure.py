"""What may go wrong with the store that lasts. No error shows what people said, or a password."""

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
