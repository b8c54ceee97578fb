"""The telephone of a local stack: where it is called, by whom, with which secrets.

What the settings do not name is made up for this one stack, so that `callflow phone` can call it
without any account: an account number, a token that signs webhooks, sites with fictitious numbers.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from callflow.lab.stack import free_port
from callflow.settings import PREFIX, Settings

HANDOUT = "phone.json"


@dataclass(frozen=True, slots=True)
class Exchange:
    """How the web process of a local stack is reached. `api_port` is None with a real account."""

    port: int
    public_url: str
    account_sid: str | None
    auth_token: str | None
    api_port: int | None
    env: dict[str, str]

    def handout(self) -> dict[str, object]:
        """What a carrier simulator needs to call this stack, and which file its lifts are in."""
        return {
            "public_url": self.public_url,
            "targets": [f"http://127.0.0.1:{self.port}"],
            "account_sid": self.account_sid,
            "auth_token": self.auth_token,
            "api_port": self.api_port,
            "sites": str(Path(self.env[f"{PREFIX}SITES"]).absolute()),
        }


def plan(settings: Settings, port: int) -> Exchange:
    """The telephone for a stack whose web process listens on `port`: the settings come first."""
    env: dict[str, str] = {}
    public_url = settings.public_url or f"http://127.0.0.1:{port}"
    env[f"{PREFIX}PUBLIC_URL"] = public_url
    env[f"{PREFIX}SITES"] = str(
        settings.sites or resources.files("callflow.lab.chaos") / "demo_sites.yaml"
    )
    if settings.webhook_tokens or settings.unsigned:
        return Exchange(port, public_url, settings.twilio_account_sid, None, None, env)
    account, token, api_port = f"AC{secrets.token_hex(16)}", secrets.token_hex(16), free_port()
    env |= {
        f"{PREFIX}TWILIO_ACCOUNT_SID": account,
        f"{PREFIX}TWILIO_AUTH_TOKEN": token,
        f"{PREFIX}TWILIO_API_URL": f"http://127.0.0.1:{api_port}",
    }
    return Exchange(port, public_url, account, token, api_port, env)


@contextmanager
def handed_out(exchange: Exchange, data_dir: Path) -> Iterator[None]:
    """Leave word for `callflow phone` while the block runs, for this user's eyes only."""
    path = data_dir / HANDOUT
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(exchange.handout(), file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
