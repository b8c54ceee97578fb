"""What Twilio does when a number of ours is called: its addresses, read and set.

Setting them twice changes nothing the second time.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

from callflow.errors import CallflowError
from callflow.twilio.account import Account
from callflow.twilio.dialling import e164
from callflow.twilio.urls import NOTICE, callback_url


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


def wanted(public_url: str, fallback_url: str | None = None) -> NumberSettings:
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


class Numbers:
    """The numbers of one account."""

    def __init__(self, account_sid: str, auth_token: str, api_url: str | None = None) -> None:
        """`api_url` replaces https://api.twilio.com."""
        self._account = Account(account_sid, auth_token, api_url)

    def read(self, number: str) -> HeldNumber:
        """How `number` is set now. Raises UnknownNumber, NumberRefused or TelephoneError."""
        e164(number)
        with self._account.asking(f"reading the settings of {number}") as client:
            # Twilio also finds numbers that only contain this one.
            found = [
                _held(each)
                for each in client.incoming_phone_numbers.list(phone_number=number, limit=20)
                if each.phone_number == number
            ]
        if not found:
            raise UnknownNumber(number, self._account.account_sid)
        return found[0]

    def change(self, held: HeldNumber, settings: NumberSettings) -> dict[str, str]:
        """Set what differs, and return it by name; nothing differs: Twilio is not asked.

        Raises TelephoneError.
        """
        changes = settings.other_than(held.settings)
        if changes:
            with self._account.asking(f"setting number {held.sid}") as client:
                client.incoming_phone_numbers(held.sid).update(**changes)
        return changes


def _held(found: Any) -> HeldNumber:
    now = {each.name: str(getattr(found, each.name) or "") for each in fields(NumberSettings)}
    return HeldNumber(str(found.sid), NumberSettings(**now))
