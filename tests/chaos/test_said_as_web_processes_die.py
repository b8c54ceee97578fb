"""A dispatcher has phrases said while web processes are killed: each is heard exactly once."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from itertools import count, cycle
from pathlib import Path

import httpx
import pytest

from callflow.access.auth import SESSION_COOKIE
from callflow.access.sessions import csrf_token
from callflow.lab.carrier.carrier_call import Call
from callflow.lab.chaos.environment import PhoneSetup
from tests.board_app import password_of, write_users
from tests.chaos.test_telephone import GATHER, RELAY, SPEED, Telephone
from tests.stack_parts import running
from tests.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(300)]

WORDS = ("one", "two", "three", "four", "five", "six")
PHRASES = tuple(f"This is phrase number {word} of your dispatcher." for word in WORDS)


@pytest.fixture
def telephone(tmp_path: Path) -> Iterator[Telephone]:
    line = PhoneSetup.create()
    env = {
        **line.env,
        "CALLFLOW_SPEECH_LETTERS_PER_S": str(15 * SPEED),
        "CALLFLOW_USERS": str(write_users(tmp_path / "users.yaml", ana="dispatcher")),
        "CALLFLOW_BOARD_URL": "http://127.0.0.1",
    }
    with running(tmp_path, env=env, pace_s="0.05") as run:
        for name, port in line.ports.items():
            run.stack.start_web(port, name)
        ready = Telephone(run, line)
        wait_until(lambda: asyncio.run(ready.web.all_answer()), "no web process", within_s=20)
        yield ready


class Browser:
    """Ana's, which sends a form again until it has an answer, to whichever process answers."""

    def __init__(self, ports: list[int]) -> None:
        self._urls = [f"http://127.0.0.1:{port}" for port in ports]
        self._client = httpx.Client(timeout=10)
        page = self._client.get(f"{self._urls[0]}/board/sign-in").text
        form = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
        given = {**form, "name": "ana", "password": password_of("ana")}
        self._post(0, "/board/sign-in", given)
        self._csrf = csrf_token(self._client.cookies[SESSION_COOKIE])

    def _post(self, which: int, path: str, form: dict[str, str]) -> int:
        url = self._urls[which % len(self._urls)]
        return self._client.post(f"{url}{path}", data=form, headers={"origin": url}).status_code

    def says(self, call_sid: str, text: str, request: str) -> None:
        """Until it is known to be done."""
        form = {"csrf": self._csrf, "text": text, "request": request}
        which = count(1)

        def done() -> bool:
            try:
                return self._post(next(which), f"/board/calls/{call_sid}/say", form) == 200
            except httpx.TransportError:
                return False  # It was killed, whether before or after it was done.

        wait_until(done, f"{request} was never taken", within_s=30)


@pytest.mark.parametrize("to", [GATHER, RELAY])
def test_each_phrase_is_heard_once_whichever_process_dies(telephone: Telephone, to: str) -> None:
    browser = Browser(list(telephone.web.ports.values()))
    sid = ""

    async def say_and_kill(call: Call) -> None:
        nonlocal sid
        sid = call.call_sid
        while len(call.report.turns) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        names = cycle(telephone.web.ports)
        for number, (phrase, name) in enumerate(zip(PHRASES, names, strict=False)):
            while not await telephone.web.all_answer():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            saying = asyncio.create_task(asyncio.to_thread(browser.says, sid, phrase, f"p{number}"))
            # Before, between and after: the store, the carrier, and the caller's ear.
            await asyncio.sleep(0.01 * 3**number)
            await asyncio.to_thread(telephone.web.replace, name)
            await saying

    report = telephone.call(to, 24, meanwhile=say_and_kill)
    assert not report.failed, report.failures
    whole = [one.text for one in report.heard if not one.cut]
    heard = [sum(text.count(phrase) for text in whole) for phrase in PHRASES]
    record = telephone.run.parts.record(sid)
    kept = [one.text for one in record.conversation_thread if one.role == "human"]
    assert sorted(kept) == sorted(PHRASES)
    assert heard == [1] * len(PHRASES), [one.text for one in report.heard]
    assert [turn.number for turn in report.lost] == []
    assert report.longest_silence_s <= 4
