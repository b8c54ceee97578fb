"""Where a local stack is called and with which secrets: the word that `callflow up` leaves.

`phone.json` in the data directory, for its owner's eyes only, as long as the stack runs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from callflow.errors import CallflowError

HANDOUT: Final = "phone.json"


class NoPhone(CallflowError):
    """Nobody can be called: there is no stack, or its secrets are not known."""

    def __init__(self, reason: str, way_out: str) -> None:
        self.reason = reason
        super().__init__(f"nobody can be called: {reason}; {way_out}")


@dataclass(frozen=True, slots=True)
class Account:
    """How an application is reached. `api_port`: where it expects the REST API; 0: anywhere."""

    public_url: str
    targets: tuple[str, ...]
    account_sid: str
    auth_token: str
    api_port: int = 0


def read(data_dir: Path) -> dict[str, object]:
    """What the stack of this data directory has left; empty when none has.

    Raises NoPhone for what is not from us.
    """
    path = data_dir / HANDOUT
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NoPhone(f"{path} cannot be read ({type(error).__name__})", _AGAIN) from error
    if not isinstance(found, dict):
        raise NoPhone(f"{path} is no JSON object", _AGAIN)
    return found


def account(
    left: Mapping[str, object],
    *,
    url: str | None = None,
    public_url: str | None = None,
    account_sid: str | None = None,
    auth_token: str | None = None,
    api_port: int = 0,
) -> Account:
    """What the stack has left (`read`), made whole by what is given; with a `url` of its own it is
    the other way round. Raises NoPhone when something is still missing."""
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
    return Account(
        public_url=str((public_url or url if url else found["public_url"]) or targets[0]),
        targets=tuple(str(target) for target in targets),
        account_sid=str(found["account_sid"] or f"AC{'0' * 32}"),
        auth_token=str(token),
        api_port=port if isinstance(port, int) else 0,
    )


_AGAIN: Final = "start the stack again with `callflow up`"
