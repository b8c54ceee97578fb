"""The addresses of the board: which page or stream answers each, and what one must be allowed."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from callflow.access.auth import BoardAuth
from callflow.access.sessions import Person
from callflow.board.call_page import Shown
from callflow.board.cells import cells
from callflow.board.feed import Feed
from callflow.board.figures import figures
from callflow.board.page import BASE, BOARD_KEYS, CALL_KEYS, STATIC, page, switched, words_of
from callflow.board.stream import Stream
from callflow.call.disposition import Disposition
from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord
from callflow.call.role import Permission
from callflow.errors import InvalidCallSid
from callflow.sites.directory import Sites
from callflow.store.reader import CallReader

COLUMNS: Final = (
    *("urgency", "state", "waiting", "place", "people", "scenario", "said", "worker", "timers"),
)

FIRST_ROWS: Final = 100
"""So many stand in the page itself (20 ms of the event loop, which callers share); the others come
with the first event."""

BOARD_WORDS: Final = (
    *("page", "board", "head", "lamp", "state", "urgency", "who", "said", "people", "human"),
    *("beat", "timer", "flag", "ladder", "scenario", "outcome"),
)
"""What the scripts of the board say."""

CALL_WORDS: Final = ("board", "act", "page")

_BLANK: Final = {
    **dict.fromkeys(("call_sid", "word", "talks"), ""),
    **dict.fromkeys(("urgency", "needs_human", "waiting_since", "site", "lift", "address")),
    **dict.fromkeys(("people", "scenario", "alert", "human", "last", "worker", "beat_at")),
    **dict.fromkeys(("flags", "timers"), ()),
    **dict.fromkeys(("hurried", "stale", "speaking"), False),
    "takeovers": 0,
    "outcome": None,
}
"""A row of which nothing is known: the scripts fill copies of it."""


def routes(auth: BoardAuth, sites: Sites) -> list[BaseRoute]:
    """All pages but those on which one signs in or acts. The process' Feed is found in the state of
    each request (`request.state.feed`), where the lifespan has put it."""
    board = Board(auth, sites)
    return [
        auth.route(BASE, board.calls),
        auth.route(f"{BASE}/events", events),
        auth.route(f"{BASE}/session", session),
        auth.route(f"{BASE}/calls/{{sid}}", board.call, permission=Permission.READ),
        auth.static_files(f"{BASE}/static", STATIC),
    ]


async def events(request: Request, person: Person) -> Response:
    """What happens to all calls, as it happens."""
    return await Stream(request.state.feed)(request, person)


async def session(request: Request, person: Person) -> Response:
    """Who is signed in: a stream that was refused does not tell why."""
    return JSONResponse({"name": person.name, "role": str(person.role)})


@dataclass(frozen=True, slots=True)
class Board:
    """The pages of one process. It keeps nothing."""

    auth: BoardAuth
    sites: Sites

    async def calls(self, request: Request, person: Person) -> Response:
        """All calls as they are now; what happens then comes as events."""
        if (other := switched(request, secure=self.auth.origin.secure)) is not None:
            return other
        feed: Feed = request.state.feed
        now = await feed.fresh()
        w = words_of(request, person)
        return page(
            "board.html",
            request,
            person,
            csrf=self.auth.csrf_token(request),
            sound=True,
            keys=BOARD_KEYS,
            columns=COLUMNS,
            rows=[cells(row.as_dict(), w, now.now_ms) for row in now.rows[:FIRST_ROWS]],
            more=max(0, len(now.rows) - FIRST_ROWS),
            blank=cells(_BLANK, w, now.now_ms),
            figures=figures(now.header, w),
            now_ms=now.now_ms,
            data_ms=now.header["as_of_ms"],
            script_words=w.select(*BOARD_WORDS),
        )

    async def call(self, request: Request, person: Person) -> Response:
        """One call with every word of it. Kept before it is shown: who has read it."""
        if (other := switched(request, secure=self.auth.origin.secure)) is not None:
            return other
        sid = request.path_params["sid"]
        try:
            found = await self.auth.run(self._read, sid)
            if found is not None:
                await self.auth.audit(person, Permission.READ, sid)
        except InvalidCallSid:
            found = None
        if found is None:
            return page(
                "gone.html", request, person, status=404, csrf=self.auth.csrf_token(request)
            )
        # In a thread: a long call takes tens of milliseconds, and callers share this event loop.
        return await self.auth.run(self._page, request, person, *found)

    def _page(
        self,
        request: Request,
        person: Person,
        record: CallRecord,
        journal: list[JournalEntry],
        now_ms: int,
    ) -> Response:
        w = words_of(request, person)
        site = None if record.site is None else self.sites.get(record.site)
        values = Shown(record, journal, site, now_ms, w).values()
        may_act = person.role.can(Permission.ACT)
        return page(
            "call.html",
            request,
            person,
            csrf=self.auth.csrf_token(request),
            keys=CALL_KEYS,
            may_act=may_act,
            request_name=secrets.token_hex(8),
            allowed=values.pop("row_actions") if may_act else (),
            dispositions=tuple(Disposition),
            script_words=w.select(*CALL_WORDS),
            **values,
        )

    def _read(self, sid: str) -> tuple[CallRecord, list[JournalEntry], int] | None:
        """Blocks. Raises InvalidCallSid and StoreUnavailable."""
        client = self.auth.scripts.client
        snapshots = CallReader(client)
        record = snapshots.find(sid)
        if record is None:
            return None
        return record, CallReader(client).journal(sid), snapshots.now_ms()
