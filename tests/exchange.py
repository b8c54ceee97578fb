"""A web process in this very process, a worker beside it, and a signed line to call it on."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit
from xml.etree import ElementTree

import httpx
import uvicorn
from pydantic import SecretStr
from twilio.request_validator import RequestValidator

from callflow.celery import CALLS, RING
from callflow.handover import Ringing
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.turn import Turns
from callflow.twilio.rest import Telephone
from callflow.web.app import create
from tests.parts import SID, Parts, Says
from tests.waiting import wait_until

PUBLIC = "https://voice.example.org/lifts"
ACCOUNT = "AC" + "0" * 32
TOKEN = "test-auth-token-not-a-secret"

GATHER = "+441632960010"
RELAY = "+441632960020"
ALONE = "+441632960030"
HUMANS = ("+441632960101", "+441632960102")

SITES = f"""
sites:
  - id: tower
    called: ["{GATHER}"]
    lift: Lift 4
    address: 1 High Street, Leeds
    language: en-GB
    mode: assist
    voice: gather
    emergency_number: "999"
    humans:
      - {{number: "{HUMANS[0]}", name: Control, ring_s: 20}}
      - {{number: "{HUMANS[1]}", name: Night desk, ring_s: 20}}
  - id: mill
    called: ["{RELAY}"]
    lift: Lift 1
    address: 2 Mill Lane, Leeds
    language: en-GB
    mode: agent_only
    voice: relay
    humans:
      - {{number: "{HUMANS[1]}", name: Night desk, ring_s: 20}}
  - id: annexe
    called: ["{ALONE}"]
    lift: Lift 9
    address: 3 Mill Lane, Leeds
    language: es-ES
    mode: agent_only
    voice: gather
    humans:
      - {{number: "{HUMANS[1]}", name: Night desk, ring_s: 20}}
"""


@dataclass(frozen=True)
class Answer:
    """What the web process told the carrier to do."""

    status: int
    text: str

    @property
    def verbs(self) -> list[ElementTree.Element]:
        assert self.status == 200, f"{self.status}: {self.text}"
        return list(ElementTree.fromstring(self.text))

    @property
    def names(self) -> list[str]:
        return [verb.tag for verb in self.verbs]

    @property
    def says(self) -> str:
        """Everything that the caller hears, Say after Say."""
        root = ElementTree.fromstring(self.text)
        return " ".join(say.text or "" for say in root.iter("Say"))

    def target(self, verb: str) -> tuple[str, dict[str, str]]:
        """Path and query of where the first such verb leads."""
        element = next(found for found in self.verbs if found.tag == verb)
        url = element.get("action") or element.text or ""
        assert url.startswith(PUBLIC), url
        parts = urlsplit(url)
        return parts.path.removeprefix("/lifts"), dict(parse_qsl(parts.query))


@dataclass
class Line:
    """A carrier's line to one web process."""

    port: int
    call_sid: str = SID
    called: str = GATHER
    calling: str = "+441632960999"
    token: str = TOKEN
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=20))

    def post(
        self,
        path: str,
        query: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
        /,
        **fields: str,
    ) -> Answer:
        """Send one signed webhook; `fields` are its form's."""
        form = {
            "AccountSid": ACCOUNT,
            "CallSid": self.call_sid,
            "CallStatus": "in-progress",
            "Called": self.called,
            "Caller": self.calling,
            "From": self.calling,
            "To": self.called,
            "FromCity": "",
            **fields,
        }
        asked = f"?{urlencode(query)}" if query else ""
        signature = RequestValidator(self.token).compute_signature(f"{PUBLIC}{path}{asked}", form)
        found = self.client.post(
            f"http://127.0.0.1:{self.port}{path}{asked}",
            content=urlencode(form),
            headers={
                "Content-Type": "application/x-www-form-urlencoded; charset=UTF-8",
                "X-Twilio-Signature": signature,
                **(headers or {}),
            },
        )
        return Answer(found.status_code, found.text)

    def socket_ended(self, status: str = "ended", **fields: str) -> Answer:
        """The first socket of the call is gone: the carrier asks what comes next."""
        return self.post("/voice/relay-ended", {"k": 0}, SessionStatus=status, **fields)

    def follow(self, answer: Answer, verb: str, **fields: str) -> Answer:
        """Do what the answer says with its first such verb."""
        path, query = answer.target(verb)
        return self.post(path, query, **fields)

    def arrives(self) -> Answer:
        return self.post("/voice/inbound", CallStatus="ringing")

    def says(self, turn: int, text: str, **fields: str) -> Answer:
        return self.post("/voice/turn", {"n": turn}, SpeechResult=text, **fields)


@dataclass
class Worker:
    """Takes messages off the queues as a Celery worker does, in a thread of this process."""

    parts: Parts
    turns: Turns
    ringing: Ringing
    errors: list[BaseException] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        while not self._stop.is_set():
            found = self.parts.client.brpop(CALLS, timeout=0.1)
            if found:
                message = json.loads(found[1])
                (call_sid,), _, _ = json.loads(base64.b64decode(message["body"]))
                ring = message["headers"]["task"] == RING
                self.ringing.ring(call_sid) if ring else self.turns.run(call_sid)

    @contextmanager
    def working(self) -> Iterator[None]:
        thread = threading.Thread(target=self.run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()


@dataclass
class Exchange:
    """A running web process and all that belongs to it."""

    parts: Parts
    port: int
    sites: Sites
    ringing: Ringing

    def line(self, call_sid: str = SID, called: str = GATHER) -> Line:
        return Line(self.port, call_sid, called)

    def arrived(self, call_sid: str = SID, called: str = GATHER) -> Line:
        """A line whose call was answered."""
        line = self.line(call_sid, called)
        line.arrives()
        return line

    @contextmanager
    def worker(self, *pieces: str) -> Iterator[Worker]:
        """A worker that answers every turn with these pieces."""
        working = Worker(self.parts, self.parts.worker(Says(pieces)), self.ringing)
        with working.working():
            yield working


@dataclass
class WebServer:
    """A web process in a thread of this one, on a real port. Tests may share it."""

    server: uvicorn.Server
    sites: Sites
    telephone: Telephone | None

    @property
    def port(self) -> int:
        port = self.server.servers[0].sockets[0].getsockname()[1]
        assert isinstance(port, int)
        return port

    @contextmanager
    def exchange(self, parts: Parts) -> Iterator[Exchange]:
        """It with the parts of one test; at the end nothing of that test is under way any more."""
        ringing = Ringing(parts.store.handovers, self.sites, self.telephone, PUBLIC)
        yield Exchange(parts, self.port, self.sites, ringing)
        wait_until(lambda: not self.server.server_state.tasks, "a request is still under way")


@contextmanager
def web_server(
    url: str,
    folder: Path,
    *,
    api_url: str | None = None,
    sites_yaml: str = SITES,
    **settings: object,
) -> Iterator[WebServer]:
    """Run the app, by default with quick patience and nobody to ring."""
    path = folder / "sites.yaml"
    path.write_text(sites_yaml, encoding="utf-8")
    sites = Sites.load(path)
    telephone = None if api_url is None else Telephone(ACCOUNT, TOKEN, api_url)
    given: dict[str, object] = {
        "redis_url": url,
        "public_url": PUBLIC,
        "twilio_auth_token": SecretStr(TOKEN),
        "reply_wait_s": 0.5,
        **settings,
    }
    app = create(Settings.model_validate(given), sites, telephone)
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", access_log=False)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started or not thread.is_alive(), "the web process did not start")
    assert server.started, "the web process did not start"
    try:
        yield WebServer(server, sites, telephone)
    finally:
        server.should_exit = True
        thread.join(10)


@contextmanager
def open_exchange(
    parts: Parts, url: str, folder: Path, *, api_url: str | None = None, **settings: Any
) -> Iterator[Exchange]:
    """A web process for one test alone; see `web_server`."""
    with web_server(url, folder, api_url=api_url, **settings) as server:
        ringing = Ringing(parts.store.handovers, server.sites, server.telephone, PUBLIC)
        yield Exchange(parts, server.port, server.sites, ringing)
