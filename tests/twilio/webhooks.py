"""The signed requests in `fixtures/webhooks.json`, as a web process has them before it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

FIXTURES = Path(__file__).parent / "fixtures"
_ALL: dict[str, Any] = json.loads((FIXTURES / "webhooks.json").read_text(encoding="utf-8"))

AUTH_TOKEN: str = _ALL["auth_token"]
SOCKET_URL: str = _ALL["websocket"]["url"]
SOCKET_SIGNATURE: str = _ALL["websocket"]["signature"]


@dataclass(frozen=True)
class Webhook:
    """One request; `genuine` tells whether it must be accepted."""

    name: str
    url: str
    params: tuple[tuple[str, str], ...]
    headers: dict[str, str]
    body: str

    @property
    def genuine(self) -> bool:
        return self.name != "inbound_bad_signature"

    @property
    def signature(self) -> str:
        return self.headers["x-twilio-signature"]


def _read(raw: dict[str, Any]) -> Webhook:
    params = tuple(parse_qsl(raw["body"], keep_blank_values=True))
    assert dict(params) == raw["params"], "the fixture's body and fields differ"
    headers = {name.lower(): value for name, value in raw["headers"].items()}
    return Webhook(raw["name"], raw["url"], params, headers, raw["body"])


WEBHOOKS = [_read(raw) for raw in _ALL["http"]]
GENUINE = [webhook for webhook in WEBHOOKS if webhook.genuine]
