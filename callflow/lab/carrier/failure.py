"""What can go wrong between carrier and application, with the number Twilio gives to it."""

from __future__ import annotations

from typing import Final

from callflow.errors import CallflowError

NO_ANSWER: Final = 11200
"""No 2xx answer: refused, reset, too late, or an error status."""
BAD_DOCUMENT: Final = 12100
NOT_XML: Final = 12300
RELATIVE_ADDRESS: Final = 15004
SOCKET_LOST: Final = 39001

STOCK_ERROR: Final = "We are sorry, an application error has occurred. Goodbye."


class ApplicationFailed(CallflowError):
    """The application did not tell the carrier what to do; the caller goes to the fallback."""

    def __init__(self, code: int, url: str, reason: str) -> None:
        self.code = code
        self.url = url
        self.reason = reason
        super().__init__(f"{_shown(url)}: {reason} (error {code})")


class TwimlRefused(CallflowError):
    """A document that Twilio would not carry out."""

    def __init__(self, reason: str, code: int = BAD_DOCUMENT) -> None:
        self.code = code
        self.reason = reason
        super().__init__(f"the TwiML document cannot be carried out: {reason}")


class AddressRefused(CallflowError):
    """An address in a document that leads nowhere."""

    def __init__(self, url: str, reason: str, code: int = NO_ANSWER) -> None:
        self.code = code
        self.url = url
        self.reason = reason
        super().__init__(f"{_shown(url)}: {reason}")


def _shown(url: str) -> str:
    """Without its query, in which an application may carry what somebody said."""
    return url.partition("?")[0]
