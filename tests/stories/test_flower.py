"""Celery's own dashboard shows the workers and the turns, to those who may see it."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.parts import SID
from tests.stack_parts import running
from tests.waiting import wait_until

AUTH = ("dispatcher", "for-this-test-only")


@pytest.mark.stack
def test_flower_shows_the_workers_and_the_turns_to_who_signs_in(tmp_path: Path) -> None:
    with running(tmp_path, workers=1, slots=1, events=True) as stack:
        port = _free_port()
        stack.stack.env = {**stack.stack.env, "FLOWER_BASIC_AUTH": ":".join(AUTH)}
        stack.stack.start_flower(port)
        url = f"http://127.0.0.1:{port}"
        wait_until(lambda: _answers(url), "Flower never answered", within_s=30)
        wait_until(lambda: "w1@" in str(_json(url, "/api/workers")), "no worker", within_s=30)

        stack.caller_says(SID, 1, "private words about a person")
        assert stack.reply(SID, 1).done

        wait_until(
            lambda: SID in str(_json(url, "/api/tasks?taskname=callflow.run_turn")),
            "Flower never saw the turn",
            within_s=30,
        )
        assert "private words" not in str(_json(url, "/api/tasks"))
        assert httpx.get(f"{url}/api/workers").status_code == 401
        assert httpx.get(f"{url}/workers").status_code == 401


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthcheck").status_code == 200
    except httpx.TransportError:
        return False


def _json(url: str, path: str) -> Any:
    return httpx.get(f"{url}{path}", auth=AUTH, timeout=10).json()
