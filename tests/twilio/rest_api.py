"""A small HTTP server in the place of Twilio's REST API: it records, and answers as it is told."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

ACCOUNT = "AC00000000000000000000000000000001"
TOKEN = "fedcba9876543210fedcba9876543210"


@dataclass(frozen=True)
class Asked:
    """One request that arrived."""

    method: str
    path: str
    query: dict[str, list[str]]
    form: dict[str, list[str]]
    authorization: str

    @property
    def authorized(self) -> bool:
        pair = base64.b64encode(f"{ACCOUNT}:{TOKEN}".encode()).decode()
        return self.authorization == f"Basic {pair}"


Answer = tuple[int, str | bytes]


@dataclass
class RestApi:
    """`answer` is asked for each request; None lets it hang until the server is stopped."""

    url: str = ""
    asked: list[Asked] = field(default_factory=list)
    answer: Callable[[Asked], Answer | None] = lambda asked: (200, "{}")

    def answers(self, status: int, /, **body: Any) -> None:
        """Answer everything with this from now on."""
        self.answer = lambda asked: (status, json.dumps(body))

    def refuses(self, status: int, code: int, message: str) -> None:
        """Answer everything with an error of Twilio's."""
        self.answers(status, code=code, message=message, status=status, more_info="https://…")

    @property
    def last(self) -> Asked:
        return self.asked[-1]


@contextmanager
def rest_api() -> Iterator[RestApi]:
    """Serve until the end of the block."""
    api = RestApi()
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            form = self.rfile.read(length).decode()
            asked = Asked(
                self.command,
                parts.path,
                parse_qs(parts.query, keep_blank_values=True),
                parse_qs(form, keep_blank_values=True),
                self.headers.get("Authorization", ""),
            )
            api.asked.append(asked)
            answer = api.answer(asked)
            if answer is None:
                over.wait(30)
                self.close_connection = True
                return
            status, body = answer
            raw = body.encode() if isinstance(body, str) else body
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        do_GET = do_POST = handle_any  # The names that http.server looks for.

        def log_message(self, format: str, *args: Any) -> None:
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        api.url = f"http://127.0.0.1:{server.server_address[1]}"
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield api
        finally:
            over.set()
            server.shutdown()
            serving.join()
