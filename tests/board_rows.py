"""Rows and looks of the board, made without a store."""

from __future__ import annotations

from callflow.board.board_reader import BoardState, EncodedRow
from callflow.board.rows import BoardRow
from callflow.call.history import CallHistory
from callflow.call.state import CallState
from callflow.health.deployment_checks import WorkforceStatus
from callflow.store.reader import CallsOverview, CallSummary

AT = 1_700_000_000_000


def shown(sid: str, fence: int = 0) -> EncodedRow:
    """The row of a call; another one for another fence."""
    sight = CallSummary(
        call_sid=sid, call_state=CallState.PENDING, created_at=AT, updated_at=AT, fence=fence
    )
    row = BoardRow.of(sight, CallHistory(), None)
    return EncodedRow(row, row.to_json())


def seen(*rows: EncodedRow, takeovers: int = 0, at: int = AT) -> BoardState:
    """What a round finds with these rows."""
    calls = {one.row.call_sid: one for one in rows}
    return BoardState(CallsOverview(at, ()), calls, WorkforceStatus(), AT, takeovers, None)
