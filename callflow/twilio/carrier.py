"""The SDK's REST client with an end to its patience. Imported when it is first needed: it is big.

The SDK itself waits for ever, and asks api.twilio.com alone.
"""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlsplit

from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client
from urllib3 import Timeout

CONNECT_S: Final = 2.0
TOTAL_S: Final = 4.5
"""The ladder counts a ring that was not confirmed within 5 s as lost, and rings again."""

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class ImpatientHttpClient(TwilioHttpClient):  # type: ignore[misc]  # Published without types.
    """Asks at `api_url` instead of the SDK's own address, and for 4.5 s at most.

    Only looking up a name, and a name with several addresses that do not answer, can take longer.
    """

    def __init__(self, api_url: str | None) -> None:
        super().__init__(timeout=TOTAL_S)
        self.timeout = Timeout(connect=CONNECT_S, total=TOTAL_S)
        self._base = api_url.rstrip("/") if api_url else None
        if api_url and urlsplit(api_url).hostname in LOOPBACK:
            # A proxy that leads out of the house does not lead back to a simulator in it.
            self.session.trust_env = False

    def request(self, method: str, url: str, *args: Any, **more: Any) -> Any:
        """Send one request; as the SDK's, but for the address."""
        if self._base is not None:
            parts = urlsplit(url)
            query = f"?{parts.query}" if parts.query else ""
            url = f"{self._base}{parts.path}{query}"
        return super().request(method, url, *args, **more)


def client(account_sid: str, auth_token: str, api_url: str | None) -> Any:
    """The SDK's client of one account. The environment's own TWILIO_ variables are not read."""
    return Client(
        account_sid,
        auth_token,
        http_client=ImpatientHttpClient(api_url),
        # The SDK falls back to os.environ for an empty mapping; region and edge are not ours.
        environment={"TWILIO_REGION": ""},
    )
