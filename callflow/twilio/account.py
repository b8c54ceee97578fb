"""One Twilio account over its REST API, and the one place where its errors are translated."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

from callflow.errors import CallflowError
from callflow.twilio.speech import clean

OVER: Final = frozenset({21220, 20404})
"""Twilio's words for a call that has ended, or that it has forgotten."""

TOO_MANY: Final = 20429
MOST_QUOTED_CHARS: Final = 200


class TelephoneError(CallflowError):
    """The carrier did not do what was asked; where it did not answer, it may have done it.

    `retry` tells whether the same request may succeed later. `status` is the HTTP status and `code`
    Twilio's error; None where there was no answer.
    """

    def __init__(
        self, reason: str, retry: bool, status: int | None = None, code: int | None = None
    ) -> None:
        self.reason = reason
        self.retry = retry
        self.status = status
        self.code = code
        super().__init__(reason)


class CallIsOver(TelephoneError):
    """The call has ended: nothing can be done with it any more, and nothing need be."""

    def __init__(self, call_sid: str, status: int | None = None, code: int | None = None) -> None:
        self.call_sid = call_sid
        super().__init__(f"call {call_sid} is over for the carrier", False, status, code)


class Account:
    """Requests to one account. Threads may share it; it asks nothing before it is used."""

    def __init__(self, account_sid: str, auth_token: str, api_url: str | None = None) -> None:
        """`api_url` replaces https://api.twilio.com."""
        self.account_sid = account_sid
        self._auth_token = auth_token
        self._api_url = api_url

    @cached_property
    def client(self) -> Any:
        """The SDK's client."""
        # Here, because it takes a sixth of a second, and most processes never telephone.
        from callflow.twilio import carrier

        return carrier.client(self.account_sid, self._auth_token, self._api_url)

    @contextmanager
    def asking(self, what: str, call_sid: str | None = None) -> Iterator[Any]:
        """The client, for one request that is described by `what` ("ringing +44…").

        Raises TelephoneError, or CallIsOver when it was about `call_sid` and that call is over.
        """
        client = self.client
        from twilio.base.exceptions import TwilioException

        try:
            yield client
        except TwilioException as error:
            raise self._refused(what, call_sid, error) from error
        except OSError as error:
            # What requests raises; its own text names hosts and ports, and nothing that helps.
            reason = f"{what}: Twilio cannot be reached ({type(error).__name__})"
            raise TelephoneError(reason, retry=True) from error
        except (ValueError, TypeError, AttributeError, LookupError) as error:
            reason = f"{what}: what answered is not Twilio's API ({type(error).__name__})"
            raise TelephoneError(reason, retry=True) from error

    def _refused(self, what: str, call_sid: str | None, error: Any) -> TelephoneError:
        status, code, said = _told(error)
        if call_sid is not None and code in OVER:
            return CallIsOver(call_sid, status, code)
        retry = status == 429 or code == TOO_MANY or (status or 0) >= 500
        reason = f"{what}: Twilio refused ({status}, error {code}): {self._quoted(said)}"
        if status in (401, 403):
            reason += "; check CALLFLOW_TWILIO_ACCOUNT_SID and CALLFLOW_TWILIO_AUTH_TOKEN"
        return TelephoneError(reason, retry, status, code)

    def _quoted(self, said: str) -> str:
        """Twilio's own words, short, on one line, and without the account's secret."""
        pair = f"{self.account_sid}:{self._auth_token}".encode()
        for secret in (self._auth_token, base64.b64encode(pair).decode()):
            said = said.replace(secret, "…") if secret else said
        return " ".join(clean(said).split())[:MOST_QUOTED_CHARS]


def _told(error: Any) -> tuple[int | None, int | None, str]:
    """HTTP status, Twilio's code and words, from whichever of its errors the SDK raised."""
    from twilio.base.version import Version

    if len(error.args) == 2 and hasattr(error.args[1], "status_code"):
        # Of a list the SDK hands over the answer as it came.
        error = Version.exception("GET", "", error.args[1], str(error.args[0]))
    said = getattr(error, "msg", None) or getattr(error, "title", None) or error
    return _number(error, "status"), _number(error, "code"), str(said)


def _number(error: Any, name: str) -> int | None:
    found = getattr(error, name, None)
    return found if isinstance(found, int) and not isinstance(found, bool) else None
