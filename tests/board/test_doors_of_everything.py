"""Every address of the whole web process, found in the app itself: strangers get no word of any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.web.app import create
from tests.desk import FAR, SECRET_WORDS, write_users
from tests.parts import SID, Parts

OPEN = {"/healthz", "/readyz", "/health", "/metrics", "/voice/relay"}
"""What programs ask, without a word of any call, and a socket that the carrier signs for."""


def every_route(routes: list[BaseRoute]) -> Iterator[Route | WebSocketRoute]:
    for route in routes:
        if isinstance(route, Mount):
            yield from every_route(list(route.routes))
        else:
            assert isinstance(route, (Route, WebSocketRoute)), "what is this?"
            yield route


def test_no_address_of_the_whole_process_tells_a_stranger_a_word(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, SECRET_WORDS)
    users = write_users(tmp_path / "users.yaml", ana="viewer")
    given = {"redis_url": redis_url, "public_url": FAR, "users": users, "twilio_auth_token": "t"}
    app = create(Settings.model_validate(given), Sites(()), None)
    found = asyncio.run(_ask_all(app, list(every_route(list(app.routes)))))
    assert {"/board", "/board/events", "/board/calls/{sid}", "/voice/turn"} <= set(found)
    for path, answers in found.items():
        for answer in answers:
            assert SECRET_WORDS not in answer.text, path
            assert SID not in answer.text, path
            if path not in OPEN and not path.startswith(("/board/sign-in", "/board/static")):
                assert answer.status_code in (401, 403), (path, answer)


async def _ask_all(
    app: Any, routes: list[Route | WebSocketRoute]
) -> dict[str, list[httpx2.Response]]:
    found: dict[str, list[httpx2.Response]] = {}
    async with app.router.lifespan_context(app) as state:

        async def running(scope: Any, receive: Any, send: Any) -> None:
            scope["state"] = dict(state)
            await app(scope, receive, send)

        async with httpx2.AsyncClient(
            transport=httpx2.ASGITransport(running), base_url=FAR
        ) as client:
            for route in routes:
                if isinstance(route, WebSocketRoute):
                    assert route.path in OPEN
                    continue
                path = route.path.replace("{sid}", SID).replace("{call_sid}", SID)
                asked = [
                    asyncio.wait_for(client.request(method, path), 5)
                    for method in (route.methods or set()) - {"HEAD"}
                ]
                found.setdefault(route.path, []).extend(await asyncio.gather(*asked))
    return found
