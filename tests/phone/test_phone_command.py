"""`callflow phone`: by a pipe, by script, and when nobody can be called."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from callflow import bootstrap
from callflow.cli import app
from callflow.lab.carrier.phone_account import (
    FILE,
    NoPhone,
    PhoneAccount,
    complete_account,
    read_phone,
)
from tests.phone.liftline import (
    ACCOUNT,
    PUBLIC,
    TOKEN,
    Asked,
    LiftLine,
    gather,
    prompt,
    receive,
    relay,
    response,
    served,
    speak,
)
from tests.waiting import wait_until


class Phone:
    """Runs the command against an application that is served in a thread."""

    def __init__(
        self, home: Path, line: LiftLine, target: str, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.home = home
        self.capture = capture
        self.line = line
        self.target = target

    def leave_word(self) -> None:
        """As `callflow up` does."""
        word = {
            "public_url": PUBLIC,
            "targets": [self.target],
            "account_sid": ACCOUNT,
            "auth_token": TOKEN,
            "api_port": 0,
        }
        (self.home / FILE).write_text(json.dumps(word), encoding="utf-8")

    def start(self, *args: str, **env: str) -> subprocess.Popen[str]:
        kept = {name: value for name, value in os.environ.items() if "CALLFLOW" not in name}
        return subprocess.Popen(
            [sys.executable, "-m", "callflow", "phone", "--speed", "100", *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **kept,
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "CALLFLOW_DATA_DIR": str(self.home),
                **env,
            },
        )

    def run(self, *args: str, said: str = "", **env: str) -> tuple[int, str, str]:
        """The same in this process, with `said` in its standard input."""
        with pytest.MonkeyPatch.context() as patch, TemporaryFile("w+") as stdin:
            stdin.write(said)
            stdin.seek(0)
            patch.setattr(sys, "stdin", stdin)
            for name in [name for name in os.environ if "CALLFLOW" in name]:
                patch.delenv(name)
            for name, value in {"CALLFLOW_DATA_DIR": str(self.home), **env}.items():
                patch.setenv(name, value)
            bootstrap.forget()
            with pytest.raises(SystemExit) as ended:
                app(["phone", "--speed", "100", *args])
        out, err = self.capture.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out, err


@pytest.fixture
def phone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Phone]:
    line = LiftLine()
    ready, stop = threading.Event(), threading.Event()
    found: list[str] = []

    async def serve() -> None:
        async with served(line) as target:
            found.append(target)
            ready.set()
            await asyncio.to_thread(stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    handler = signal.getsignal(signal.SIGTERM)
    yield Phone(tmp_path, line, found[0], capsys)
    signal.signal(signal.SIGTERM, handler)
    bootstrap.forget()
    stop.set()
    thread.join()


def test_each_line_is_said_and_each_reply_is_printed(phone: Phone) -> None:
    phone.leave_word()
    code, out, err = phone.run(said="we are stuck\n0\n\n")
    assert code == 0
    assert out.splitlines() == [
        "Are you inside the lift?",
        *(f"Reply {turn}: help is coming." for turn in (1, 2, 3)),
    ]
    assert "ended by the caller" in err
    first, key, silence = phone.line.to("/voice/turn")
    assert first.fields["SpeechResult"] == "we are stuck"
    assert key.fields["Digits"] == "0"
    assert "SpeechResult" not in silence.fields
    assert all(asked.signed for asked in phone.line.asked)
    assert TOKEN not in out + err


def test_programs_get_events_and_a_report(phone: Phone) -> None:
    phone.leave_word()
    code, out, _ = phone.run(
        "--json", "--to", "+441632960042", "--from", "anonymous", said="help\n"
    )
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    names = [event["event"] for event in events]
    assert names[0] == "status"
    assert names[-1] == "report"
    assert {"heard", "listens", "said", "ended"} <= set(names)
    assert events[-1]["turns"][0]["said"] == "help"
    assert phone.line.asked[0].fields["To"] == "+441632960042"
    assert phone.line.asked[0].fields["From"] == "anonymous"


def test_ctrl_c_interrupts_a_reply_and_hangs_up_where_nothing_is_said(phone: Phone) -> None:
    interrupts: list[dict[str, Any]] = []

    async def inbound(asked: Asked) -> str:
        return response(relay(welcomeGreeting="Hello."))

    async def talk(websocket: Any) -> None:
        await prompt(websocket)
        words = {"type": "text", "token": "This takes a very long time to say. ", "last": False}
        await websocket.send_text(json.dumps(words))
        await asyncio.sleep(0.1)
        await speak(websocket, *("And it goes on. " for _ in range(40)))
        while (frame := await receive(websocket))["type"] != "interrupt":
            pass
        interrupts.append(frame)
        await prompt(websocket)
        await speak(websocket, "All right.")
        await receive(websocket)

    phone.line.handlers["/voice/inbound"] = inbound
    phone.line.talk = talk
    phone.leave_word()
    started = phone.start("--json", "--speed", "10")
    assert started.stdin is not None
    assert started.stdout is not None
    started.stdin.write("help\n")
    started.stdin.flush()
    events: list[dict[str, Any]] = []
    listening, signalled = 0, False
    for line in started.stdout:
        events.append(json.loads(line))
        match events[-1]:
            case {"event": "token", "text": "And it goes on. "} if not signalled:
                signalled = True
                started.send_signal(signal.SIGINT)
            case {"event": "listens"}:
                listening += 1
                if listening == 2:
                    started.stdin.write("stop\n")
                    started.stdin.flush()
                elif listening == 3:
                    started.send_signal(signal.SIGINT)
    assert started.wait(10) == 130
    started.stdin.close()
    (interrupt,) = interrupts
    assert str(interrupt["utteranceUntilInterrupt"]).startswith("This take")
    assert [event["text"] for event in events if event["event"] == "said"] == ["help", "stop"]
    assert events[-1]["ended_by"] == "caller"
    assert phone.line.to("/voice/status")[-1].fields["CallStatus"] == "completed"


def test_many_calls_are_summed_up(phone: Phone) -> None:
    phone.leave_word()
    script = ("--calls", "5", "--rate", "50", "--turns", "1", "--language", "es", "--seed", "1")
    code, out, _ = phone.run(*script, "--repeat", "0.5", "--interrupt", "0.3", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["calls"], found["turns"], found["failed"], found["lost"]) == (5, 5, 0, 0)
    assert set(found["silence_s"]) == {"p50", "p99", "max"}
    assert found["retries"] == 0
    assert len({asked.sid for asked in phone.line.asked}) == 5


def test_a_call_that_fails_is_an_exit_code(phone: Phone) -> None:
    async def broken(asked: Asked) -> str:
        return "oops"

    phone.line.handlers |= {"/voice/inbound": broken, "/voice/fallback": broken}
    phone.leave_word()
    code, out, err = phone.run(said="help\n")
    assert code == 1
    assert "application error" in out
    assert "not XML" in err
    code, out, err = phone.run("--calls", "2", "--seed", "11")
    assert code == 1
    assert "2 calls, 0 turns" in out
    assert "--seed 11" in err


def test_a_url_needs_secrets_from_the_environment(phone: Phone) -> None:
    code, out, err = phone.run("--url", phone.target, said="help\n")
    assert (code, out) == (1, "")
    assert "CALLFLOW_TWILIO_AUTH_TOKEN" in err
    code, out, _ = phone.run(
        "--url",
        phone.target,
        said="help\n",
        CALLFLOW_TWILIO_AUTH_TOKEN=TOKEN,
        CALLFLOW_PUBLIC_URL=PUBLIC,
    )
    assert code == 0
    assert all(asked.signed for asked in phone.line.asked)


def test_nobody_is_called_where_no_stack_runs(phone: Phone) -> None:
    code, out, err = phone.run(said="help\n")
    assert (code, out) == (1, "")
    assert "callflow up" in err
    (phone.home / FILE).write_text("{", encoding="utf-8")
    code, _, err = phone.run(said="help\n")
    assert code == 1
    assert "cannot be read" in err


def test_what_the_stack_has_left_is_made_whole_by_the_settings(tmp_path: Path) -> None:
    assert read_phone(tmp_path) == {}
    left: dict[str, object] = {"targets": ["http://127.0.0.1:1"], "public_url": PUBLIC}
    left |= {"account_sid": None, "auth_token": None, "api_port": None}
    with pytest.raises(NoPhone, match="token"):
        complete_account(left)
    known = complete_account(left, auth_token="t", account_sid=ACCOUNT, api_port=7)
    assert known == PhoneAccount(PUBLIC, ("http://127.0.0.1:1",), ACCOUNT, "t", 7)
    elsewhere = complete_account(left, url="http://127.0.0.1:2", auth_token="t")
    assert (elsewhere.public_url, elsewhere.targets) == (
        "http://127.0.0.1:2",
        ("http://127.0.0.1:2",),
    )


def test_it_waits_for_who_types_slowly(phone: Phone) -> None:
    async def inbound(asked: Asked) -> str:
        return response(gather("Hello?", 1, 1))

    phone.line.handlers["/voice/inbound"] = inbound
    phone.leave_word()
    started = phone.start("--json")
    assert started.stdin is not None
    assert started.stdout is not None
    heard = started.stdout.readline
    wait_until(lambda: json.loads(heard())["event"] == "listens", "the line listened")
    patient_until = time.monotonic() + 1.2
    wait_until(lambda: time.monotonic() > patient_until, "the time of the Gather was over")
    started.stdin.write("help\n")
    started.stdin.close()
    *_, report = map(json.loads, started.stdout)
    assert started.wait(10) == 0
    assert [turn["said"] for turn in report["turns"]] == ["help"]
    assert len(phone.line.to("/voice/turn")) == 1
