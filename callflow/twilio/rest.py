"""Asks Twilio's REST API: rings people, moves and ends calls, sets where a number's calls lead.

Each request is done once, never again here: whether to ask again is for the caller to decide, who
knows what stands in the record.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

from callflow.errors import CallflowError
from callflow.twilio.phone_numbers import NumberRefused, diallable, e164
from callflow.twilio.speech import clean
from callflow.twilio.urls import NOTICE, callback_url

CONNECT_S: Final = 2.0
TOTAL_S: Final = 4.5
"""The ladder counts a ring that was not confirmed within 5 s as lost, and rings again."""

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")

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


class RestClient:
    """Requests to one account. Threads may share it; it asks nothing before it is used."""

    def __init__(self, account_sid: str, auth_token: str, api_url: str | None = None) -> None:
        """`api_url` replaces https://api.twilio.com."""
        self.account_sid = account_sid
        self._auth_token = auth_token
        self._api_url = api_url

    @cached_property
    def client(self) -> Any:
        """The SDK's client."""
        return sdk_client(self.account_sid, self._auth_token, self._api_url)

    @contextmanager
    def _request(self, what: str, call_sid: str | None = None) -> Iterator[Any]:
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
        status, code, said = _parse_error(error)
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


def _parse_error(error: Any) -> tuple[int | None, int | None, str]:
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


def sdk_client(account_sid: str, auth_token: str, api_url: str | None) -> Any:
    """The SDK's client of one account, at `api_url` instead of the SDK's own address, with an end
    to its patience: the SDK waits for ever.

    Only looking up a name, and a name with several addresses that do not answer, can take longer.
    The environment's own TWILIO_ variables are not read.
    """
    # Here, because it takes a sixth of a second, and most processes never telephone.
    from twilio.http.http_client import TwilioHttpClient
    from twilio.rest import Client
    from urllib3 import Timeout

    base = api_url.rstrip("/") if api_url else None

    class ImpatientHttpClient(TwilioHttpClient):  # type: ignore[misc]  # Published without types.
        def request(self, method: str, url: str, *args: Any, **more: Any) -> Any:
            if base is not None:
                parts = urlsplit(url)
                url = base + parts.path + (f"?{parts.query}" if parts.query else "")
            return super().request(method, url, *args, **more)

    http = ImpatientHttpClient(timeout=TOTAL_S)
    http.timeout = Timeout(connect=CONNECT_S, total=TOTAL_S)
    if api_url and urlsplit(api_url).hostname in LOOPBACK:
        # A proxy that leads out of the house does not lead back to a simulator in it.
        http.session.trust_env = False
    # The SDK falls back to os.environ for an empty mapping; region and edge are not ours.
    environment = {"TWILIO_REGION": ""}
    return Client(account_sid, auth_token, http_client=http, environment=environment)


class Telephone(RestClient):
    """Calls of one account. Every request ends within 5 s."""

    def ring(self, to: str, caller_id: str, url: str, status_url: str, timeout_s: int) -> str:
        """Ring `to` for `timeout_s` and return the CallSid of that leg, which rings from now on.

        When picked up, Twilio asks `url` what to do; `status_url` hears of the answer and the end.
        Asked twice, the telephone rings twice. Raises TelephoneError: also for a number that a
        machine may not dial, and without an answer the telephone may ring all the same.
        """
        try:
            diallable(to)
        except NumberRefused as refused:
            raise TelephoneError(str(refused), retry=False) from refused
        with self._request(f"ringing {to}") as client:
            leg = client.calls.create(
                to=to,
                from_=caller_id,
                url=url,
                method="POST",
                status_callback=status_url,
                status_callback_method="POST",
                status_callback_event=["answered", "completed"],
                timeout=timeout_s,
            ).sid
        if not isinstance(leg, str) or not leg:
            raise TelephoneError(f"ringing {to}: Twilio named no CallSid", retry=True)
        return leg

    def redirect(self, call_sid: str, url: str) -> None:
        """Have the call go on with the document at `url` (absolute), whatever it does now.

        Twice is as good as once. Raises CallIsOver, or another TelephoneError.
        """
        with self._request(f"moving call {call_sid}", call_sid) as client:
            client.calls(call_sid).update(url=url, method="POST")

    def status(self, call_sid: str) -> str:
        """Where the call stands, in Twilio's word (`in-progress`, `completed`, …).

        Raises TelephoneError, also for a call that this account knows nothing of: that says nothing
        about its line.
        """
        with self._request(f"asking for call {call_sid}") as client:
            return str(client.calls(call_sid).fetch().status)

    def hang_up(self, call_sid: str) -> None:
        """End the call, also while it rings. Raises CallIsOver if it has ended before."""
        with self._request(f"hanging up call {call_sid}", call_sid) as client:
            client.calls(call_sid).update(status="completed")


class UnknownNumber(CallflowError):
    """The account has no such number."""

    def __init__(self, number: str, account_sid: str) -> None:
        self.number = number
        super().__init__(
            f"account {account_sid} has no number {number}: buy or port it first, or name the "
            "account that has it in CALLFLOW_TWILIO_ACCOUNT_SID"
        )


class UselessFallback(CallflowError):
    """An address that Twilio could not ask when our own is gone."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            f"{url[:200]!r} is no fallback address: write it with https://, as the carrier shows "
            "it for the document that `callflow twilio fallback` printed"
        )


@dataclass(frozen=True, slots=True)
class NumberSettings:
    """A number's settings, by Twilio's own names. A blank one is not set."""

    voice_url: str = ""
    voice_method: str = "POST"
    status_callback: str = ""
    status_callback_method: str = "POST"
    voice_fallback_url: str = ""
    voice_fallback_method: str = "POST"
    # An application or a trunk of its own makes Twilio pass over all of the above.
    voice_application_sid: str = ""
    trunk_sid: str = ""

    def other_than(self, present: NumberSettings) -> dict[str, str]:
        """Those of these settings that `present` has otherwise, by name."""
        now = asdict(present)
        return {name: value for name, value in asdict(self).items() if value != now[name]}


@dataclass(frozen=True, slots=True)
class HeldNumber:
    """A number of the account: its sid there, and how it is set now."""

    sid: str
    settings: NumberSettings


def wanted_settings(public_url: str, fallback_url: str | None = None) -> NumberSettings:
    """How a number should be set so that its calls reach us.

    `fallback_url` is asked when we do not answer; it should be the carrier's own. Without one it is
    ours, which still helps when one of our processes died. Raises UselessFallback.
    """
    if fallback_url is not None and not fallback_url.startswith("https://"):
        raise UselessFallback(fallback_url)
    return NumberSettings(
        voice_url=callback_url(public_url, "/voice/inbound"),
        status_callback=callback_url(public_url, "/voice/status", patience=NOTICE),
        voice_fallback_url=fallback_url or callback_url(public_url, "/voice/fallback"),
    )


class Numbers(RestClient):
    """The numbers of one account."""

    def read(self, number: str) -> HeldNumber:
        """How `number` is set now. Raises UnknownNumber, NumberRefused or TelephoneError."""
        e164(number)
        with self._request(f"reading the settings of {number}") as client:
            # Twilio also finds numbers that only contain this one.
            found = [
                _parse_number(each)
                for each in client.incoming_phone_numbers.list(phone_number=number, limit=20)
                if each.phone_number == number
            ]
        if not found:
            raise UnknownNumber(number, self.account_sid)
        return found[0]

    def change(self, held: HeldNumber, settings: NumberSettings) -> dict[str, str]:
        """Set what differs, and return it by name; nothing differs: Twilio is not asked.

        Raises TelephoneError.
        """
        changes = settings.other_than(held.settings)
        if changes:
            with self._request(f"setting number {held.sid}") as client:
                client.incoming_phone_numbers(held.sid).update(**changes)
        return changes


def _parse_number(found: Any) -> HeldNumber:
    now = {each.name: str(getattr(found, each.name) or "") for each in fields(NumberSettings)}
    return HeldNumber(str(found.sid), NumberSettings(**now))
