"""The fields that Twilio sends with every webhook of a line, blank ones too. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_COUNTRIES: Final = {"+1": "US", "+34": "ES", "+44": "GB", "+49": "DE", "+86": "CN"}
_PLACES: Final = ("Called", "Caller", "From", "To")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a line is, for as long as it lasts."""

    account_sid: str
    call_sid: str
    caller: str
    called: str
    direction: str = "inbound"
    parent_sid: str | None = None

    def form(self, status: str) -> dict[str, str]:
        """The fields of a webhook now, CallStatus being `status`."""
        fields = {
            "AccountSid": self.account_sid,
            "ApiVersion": "2010-04-01",
            "CallSid": self.call_sid,
            "CallStatus": status,
            "Called": self.called,
            "Caller": self.caller,
            "Direction": self.direction,
            "From": self.caller,
            "To": self.called,
        }
        fields |= {f"{who}{what}": "" for who in _PLACES for what in ("City", "State", "Zip")}
        caller, called = _country(self.caller), _country(self.called)
        fields |= {"CalledCountry": called, "CallerCountry": caller}
        fields |= {"FromCountry": caller, "ToCountry": called}
        if self.parent_sid is not None:
            fields["ParentCallSid"] = self.parent_sid
        if self.direction == "inbound":
            fields["StirVerstat"] = "No-TN-Validation"
        return fields


def _country(number: str) -> str:
    return next((code for prefix, code in _COUNTRIES.items() if number.startswith(prefix)), "")
