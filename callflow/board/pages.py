"""Serves the board's pages, its stream of events and its static files.

Nothing in the pages is markup that came from a call: names, words and procedures are text, escaped
by the templates and put in as text by the scripts. The headers (access/auth.py) are the second
line.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import BaseRoute

from callflow.access.auth import BoardAuth
from callflow.access.sessions import BoardUser
from callflow.board.call_page import CallPage
from callflow.board.feed import Feed
from callflow.board.rows import header_figures, row_cells
from callflow.call.edits import Disposition
from callflow.call.history import JournalEntry
from callflow.call.record import CallRecord
from callflow.call.role import Permission
from callflow.errors import InvalidCallSid
from callflow.i18n import COOKIE, LANGUAGES, Catalogue, catalogue, choose_language
from callflow.sites.directory import Sites
from callflow.store.reader import CallReader

BASE: Final = "/board"

STATIC: Final = Path(__file__).parent / "static"

A_YEAR_S: Final = 365 * 24 * 3600

Keys = Sequence[tuple[tuple[str, ...], str]]

BOARD_KEYS: Final[Keys] = (
    (("j", "k"), "next"),
    (("↓", "↑"), "next"),
    (("Home", "End"), "first"),
    (("Enter",), "open"),
    (("a", "A"), "seen"),
    (("s",), "sort"),
    (("m",), "mute"),
    (("t",), "theme"),
    (("?",), "help"),
)
CALL_KEYS: Final[Keys] = ((("b", "Esc"), "back"), (("t",), "theme"), (("?",), "help"))

COLUMNS: Final = (
    *("urgency", "state", "waiting", "place", "people", "scenario", "said", "worker", "timers"),
)

RETRY_MS: Final = 300
"""So soon a browser connects again: what it shows grows old meanwhile."""

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

_ENVIRONMENT: Final = Environment(
    loader=PackageLoader("callflow.board"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def routes(auth: BoardAuth, sites: Sites) -> list[BaseRoute]:
    """All pages but those on which one signs in or acts. The process' Feed is found in the state of
    each request (`request.state.feed`), where the lifespan has put it."""
    pages = BoardPages(auth, sites)
    return [
        auth.route(BASE, pages.show_board),
        auth.route(f"{BASE}/events", events),
        auth.route(f"{BASE}/session", session),
        auth.route(f"{BASE}/calls/{{sid}}", pages.show_call, permission=Permission.READ),
        auth.static_files(f"{BASE}/static", STATIC),
    ]


async def events(request: Request, person: BoardUser) -> Response:
    """What happens to all calls, as it happens."""
    return stream_events(request.state.feed, request.headers.get("last-event-id", ""))


async def session(request: Request, person: BoardUser) -> Response:
    """Who is signed in: a stream that was refused does not tell why."""
    return JSONResponse({"name": person.name, "role": str(person.role)})


def stream_events(feed: Feed, last_event_id: str) -> StreamingResponse:
    """The board as Server-Sent Events (WHATWG HTML 9.2), until the browser or the process ends.

    `snapshot` has all rows, `change` those that have changed and the calls that left, `clock` the
    time; each has the header. The id names the process and the version, so whoever lost their
    connection gets what they missed, or all of it where another process answers.
    """
    name, _, version = last_event_id.partition("-")
    # A version of another process, or none that we could have sent, is as good as none.
    known = name == feed.name and version.isascii() and version.isdecimal() and len(version) < 16

    async def events() -> AsyncIterator[bytes]:
        yield f"retry: {RETRY_MS}\n\n".encode()
        async with aclosing(feed.follow(int(version) if known else None)) as updates:
            async for update in updates:
                event = f"id: {feed.name}-{update.version}\nevent: {update.kind}\n"
                yield f"{event}data: {update.to_json()}\n\n".encode()

    return StreamingResponse(
        events(),
        media_type="text/event-stream",
        # A proxy that gathers an answer before it passes it on shows nothing.
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


@dataclass(frozen=True, slots=True)
class BoardPages:
    """The pages of one process. It keeps nothing."""

    auth: BoardAuth
    sites: Sites

    async def show_board(self, request: Request, person: BoardUser) -> Response:
        """All calls as they are now; what happens then comes as events."""
        if (other := self._switch_language(request)) is not None:
            return other
        feed: Feed = request.state.feed
        now = await feed.fresh()
        w = words_for(request, person)
        return self._render(
            "board.html",
            request,
            person,
            w,
            sound=True,
            keys=BOARD_KEYS,
            columns=COLUMNS,
            rows=[row_cells(row.to_dict(), w, now.now_ms) for row in now.rows[:FIRST_ROWS]],
            more=max(0, len(now.rows) - FIRST_ROWS),
            blank=row_cells(_BLANK, w, now.now_ms),
            figures=header_figures(now.header, w),
            now_ms=now.now_ms,
            data_ms=now.header["as_of_ms"],
            script_words=w.select(*BOARD_WORDS),
        )

    async def show_call(self, request: Request, person: BoardUser) -> Response:
        """One call with every word of it. Kept before it is shown: who has read it."""
        if (other := self._switch_language(request)) is not None:
            return other
        sid = request.path_params["sid"]
        try:
            found = await self.auth.run(self._read, sid)
            if found is not None:
                await self.auth.audit(person, Permission.READ, sid)
        except InvalidCallSid:
            found = None
        if found is None:
            w = words_for(request, person)
            return self._render("gone.html", request, person, w, status=404)
        # In a thread: a long call takes tens of milliseconds, and callers share this event loop.
        return await self.auth.run(self._render_call, request, person, *found)

    def _read(self, sid: str) -> tuple[CallRecord, list[JournalEntry], int] | None:
        """Blocks. Raises InvalidCallSid and StoreUnavailable."""
        client = self.auth.scripts.client
        snapshots = CallReader(client)
        record = snapshots.find(sid)
        if record is None:
            return None
        return record, snapshots.journal(sid), snapshots.now_ms()

    def _render_call(
        self,
        request: Request,
        person: BoardUser,
        record: CallRecord,
        journal: list[JournalEntry],
        now_ms: int,
    ) -> Response:
        w = words_for(request, person)
        site = None if record.site is None else self.sites.get(record.site)
        values = CallPage(record, journal, site, now_ms, w).values()
        may_act = person.role.can(Permission.ACT)
        return self._render(
            "call.html",
            request,
            person,
            w,
            keys=CALL_KEYS,
            may_act=may_act,
            request_name=secrets.token_hex(8),
            allowed=values.pop("row_actions") if may_act else (),
            dispositions=tuple(Disposition),
            script_words=w.select(*CALL_WORDS),
            **values,
        )

    def _render(
        self,
        name: str,
        request: Request,
        person: BoardUser,
        w: Catalogue,
        *,
        status: int = 200,
        sound: bool = False,
        keys: Keys = (),
        **values: Any,
    ) -> Response:
        """The page that the template `name` makes of `values` and of what all pages have in common.
        `keys` are listed in the window of keys."""
        html = _ENVIRONMENT.get_template(name).render(
            w=w,
            languages=LANGUAGES,
            base=BASE,
            person=person,
            csrf=self.auth.csrf_token(request),
            sound=sound,
            keys=bool(keys),
            key_list=keys,
            **values,
        )
        return HTMLResponse(html, status)

    def _switch_language(self, request: Request) -> Response | None:
        """The way back to the same page in the language that `?lang=` names; None without one."""
        wish = request.query_params.get("lang")
        if wish is None:
            return None
        kept = [pair for pair in request.query_params.multi_items() if pair[0] != "lang"]
        # A path of ours alone: `//elsewhere` would be another host.
        path = "/" + request.url.path.lstrip("/")
        response = RedirectResponse(path + (f"?{urlencode(kept)}" if kept else ""), 303)
        response.set_cookie(
            COOKIE,
            choose_language(wish),
            max_age=A_YEAR_S,
            path="/",
            secure=self.auth.origin.secure,
            httponly=True,
            samesite="lax",
        )
        return response


def words_for(request: Request, person: BoardUser) -> Catalogue:
    """The words in the language that was chosen on this machine, else what the person reads, else
    what the browser accepts."""
    accepts = request.headers.get("accept-language", "")
    return catalogue(choose_language(request.cookies.get(COOKIE), person.language, accepts=accepts))
