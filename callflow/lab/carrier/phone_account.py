"""Says where a local stack is called and with which secrets, in the file that `callflow up` leaves.

`phone.json` lies in the data directory, for its owner's eyes only, as long as the stack runs. What
the settings do not name is made up for this one stack, so that `callflow phone` can call it without
any account: an account number, a token that signs webhooks, sites with fictitious numbers.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Final

from callflow.errors import CallflowError
from callflow.lab.stack import free_port
from callflow.settings import PREFIX, Settings

FILE: Final = "phone.json"

_AGAIN: Final = "start the stack again with `callflow up`"


class NoPhone(CallflowError):
    """Nobody can be called: there is no stack, or its secrets are not known."""

    def __init__(self, reason: str, way_out: str) -> None:
        self.reason = reason
        super().__init__(f"nobody can be called: {reason}; {way_out}")


@dataclass(frozen=True, slots=True)
class PhoneAccount:
    """How an application is reached. `api_port`: where it expects the REST API; 0: anywhere."""

    public_url: str
    targets: tuple[str, ...]
    account_sid: str
    auth_token: str
    api_port: int = 0


@dataclass(frozen=True, slots=True)
class LocalPhone:
    """How the web process of a local stack is reached. `api_port` is None with a real account."""

    port: int
    public_url: str
    account_sid: str | None
    auth_token: str | None
    api_port: int | None
    env: dict[str, str]

    def as_dict(self) -> dict[str, object]:
        """What a carrier simulator needs to call this stack, and which file its lifts are in."""
        return {
            "public_url": self.public_url,
            "targets": [f"http://127.0.0.1:{self.port}"],
            "account_sid": self.account_sid,
            "auth_token": self.auth_token,
            "api_port": self.api_port,
            "sites": str(Path(self.env[f"{PREFIX}SITES"]).absolute()),
        }


def plan_phone(settings: Settings, port: int) -> LocalPhone:
    """The telephone for a stack whose web process listens on `port`: the settings come first."""
    public_url = settings.public_url or f"http://127.0.0.1:{port}"
    sites = settings.sites or resources.files("callflow.lab.chaos") / "demo_sites.yaml"
    env = {f"{PREFIX}PUBLIC_URL": public_url, f"{PREFIX}SITES": str(sites)}
    if settings.webhook_tokens or settings.unsigned:
        return LocalPhone(port, public_url, settings.twilio_account_sid, None, None, env)
    account, token, api_port = f"AC{secrets.token_hex(16)}", secrets.token_hex(16), free_port()
    env |= {
        f"{PREFIX}TWILIO_ACCOUNT_SID": account,
        f"{PREFIX}TWILIO_AUTH_TOKEN": token,
        f"{PREFIX}TWILIO_API_URL": f"http://127.0.0.1:{api_port}",
    }
    return LocalPhone(port, public_url, account, token, api_port, env)


@contextmanager
def published(phone: LocalPhone, data_dir: Path) -> Iterator[None]:
    """Leave word for `callflow phone` while the block runs, for this user's eyes only."""
    path = data_dir / FILE
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(phone.as_dict(), file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def read_phone(data_dir: Path) -> dict[str, object]:
    """What the stack of this data directory has left; empty when none has.

    Raises NoPhone for what is not from us.
    """
    path = data_dir / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NoPhone(f"{path} cannot be read ({type(error).__name__})", _AGAIN) from error
    if not isinstance(found, dict):
        raise NoPhone(f"{path} is no JSON object", _AGAIN)
    return found


def complete_account(
    left: Mapping[str, object],
    *,
    url: str | None = None,
    public_url: str | None = None,
    account_sid: str | None = None,
    auth_token: str | None = None,
    api_port: int = 0,
) -> PhoneAccount:
    """What the stack has left (`read_phone`), made whole by what is given; with a `url` of its own
    it is the other way round. Raises NoPhone when something is still missing."""
    given: dict[str, object] = {
        "public_url": public_url,
        "targets": None if url is None else [url],
        "account_sid": account_sid,
        "auth_token": auth_token,
        "api_port": api_port,
    }
    first, second = (left, given) if url is None else (given, left)
    found = {name: first.get(name) or second.get(name) for name in given}
    targets, token, port = found["targets"], found["auth_token"], found["api_port"]
    if not isinstance(targets, list):
        raise NoPhone("no local stack runs here", "start one with `callflow up`, or give --url")
    if not token:
        raise NoPhone(
            "the token that signs webhooks is not known", "set CALLFLOW_TWILIO_AUTH_TOKEN"
        )
    return PhoneAccount(
        public_url=str((public_url or url if url else found["public_url"]) or targets[0]),
        targets=tuple(str(target) for target in targets),
        account_sid=str(found["account_sid"] or f"AC{'0' * 32}"),
        auth_token=str(token),
        api_port=port if isinstance(port, int) else 0,
    )
