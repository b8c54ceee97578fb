"""The carrier's REST API as seen from us: notes what is asked, answers as it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl


@dataclass(frozen=True)
class Asked:
    """One request: `leg` is the CallSid in its address, or None for a new call."""

    leg: str | None
    fields: dict[str, str]


@dataclass
class RestApi:
    """`refuse`: status and Twilio code of every answer to come, None to do what is asked. `lines`:
    where the calls stand that it knows."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    refuse: tuple[int, int] | None = None
    lines: dict[str, str] = field(default_factory=dict)
    looked_at: list[str] = field(default_factory=list)

    def forget(self) -> None:
        """Do what is asked, and know of nothing that was."""
        self.refuse = None
        for known in (self.asked, self.lines, self.looked_at):
            known.clear()

    @property
    def rung(self) -> list[str]:
        """The numbers that were called, in order."""
        return [one.fields["To"] for one in self.asked if one.leg is None]

    @property
    def last_ring(self) -> dict[str, str]:
        """The newest outbound call."""
        return next(one.fields for one in reversed(self.asked) if one.leg is None)


@contextmanager
def rest_api() -> Iterator[RestApi]:
    """Serve it on loopback while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            name = self.path.rsplit("/", 1)[1].removesuffix(".json")
            leg = None if name == "Calls" else name
            api.asked.append(Asked(leg, dict(parse_qsl(body, keep_blank_values=True))))
            if api.refuse is not None:
                status, code = api.refuse
                self._say(status, {"code": code, "message": "refused", "status": status})
            else:
                self._say(201, {"sid": leg or f"CA{len(api.asked):032x}", "status": "queued"})

        def do_GET(self) -> None:
            leg = self.path.rsplit("/", 1)[1].removesuffix(".json")
            api.looked_at.append(leg)
            if api.refuse is not None or leg not in api.lines:
                status, code = api.refuse or (404, 20404)
                self._say(status, {"code": code, "message": "refused", "status": status})
            else:
                self._say(200, {"sid": leg, "status": api.lines[leg]})

        def _say(self, status: int, answer: dict[str, object]) -> None:
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    api = RestApi(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
