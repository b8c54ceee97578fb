"""Tells which numbers a machine may dial: those of people, and no public emergency number.

An emergency number is routed by the address that the carrier has for *our* number, not by the
lift's: the ambulance would go to the wrong town. A human calls the service that covers the lift.
"""

from __future__ import annotations

import re
from typing import Final

from callflow.errors import CallflowError

_E164: Final = re.compile(r"\+[1-9][0-9]{7,14}")
_COUNTRY_CODE: Final = re.compile(
    r"[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|[0-9]{3}"
)
"""As the ITU gives them out: one digit, two, or else three."""

FEWEST_SUBSCRIBER_DIGITS: Final = 5
"""What a person's number has at least behind its country code and padding zeros. Emergency numbers
have two to four, and Twilio connects them with a country code in front too."""

_OVERDIALLED: Final = (
    *("1911", "1933", "44112", "44999", "49110", "49112", "61000", "86110", "86119", "86120"),
)
"""Where a switch may take the call at these digits and not wait for more. No person's number begins
like that: there are no such area codes."""


class NumberRefused(CallflowError):
    """A number that is not dialled, and why."""

    def __init__(self, number: str, reason: str) -> None:
        self.number = number
        self.reason = reason
        super().__init__(f"the number {number[:32]!a} {reason}")


def e164(number: str) -> str:
    """Return `number` if it is written as `+`, country code and subscriber, 8 to 15 digits.

    Raises NumberRefused: a local spelling means something else in every country.
    """
    if not _E164.fullmatch(number):
        raise NumberRefused(
            number, "is no telephone number: write it as + and 8 to 15 digits, country code first"
        )
    return number


def diallable(number: str) -> str:
    """Return `number` if a machine may dial it. Raises NumberRefused for any other."""
    digits = re.sub(r"[^0-9]", "", number)
    if digits and (len(_subscriber(digits)) < FEWEST_SUBSCRIBER_DIGITS or _overdials(digits)):
        raise NumberRefused(
            number,
            "is a public emergency number or another short code: a machine never dials those; "
            "name the number of a person, who calls the service that covers the lift",
        )
    return e164(number)


def _subscriber(digits: str) -> str:
    """Without exit code, country code and zeros in front."""
    bare = digits.lstrip("0")
    code = _COUNTRY_CODE.match(bare)
    return bare[code.end() :].lstrip("0") if code else bare


def _overdials(digits: str) -> bool:
    return digits.lstrip("0").startswith(_OVERDIALLED)
