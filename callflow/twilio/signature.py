"""Checks that a request was signed by Twilio; nothing else of it is believed before.

A request is signed with the account's auth token. While a token is being changed, either of two may
be the right one. Where the account has a signing rule, Twilio announces SHA-256 and signs with a
shared key instead. What cannot be judged is not Twilio's: no request, however odd, raises here.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from twilio.request_validator import HMAC_SHA1, HMAC_SHA256, RequestValidator
from twilio.request_validator import get_signature_algorithm as announced_algorithm

SIGNATURE_HEADER: Final = "x-twilio-signature"
SETTINGS_HEADER: Final = "x-twilio-webhooks-signature-settings"

_PORTS: Final = {"https": 443, "wss": 443, "http": 80, "ws": 80}


class Signatures:
    """Judges requests by the secrets of one account."""

    def __init__(self, tokens: Sequence[str], shared_keys: Sequence[str] = ()) -> None:
        """`tokens`: the auth token, and the second one while it is being changed.

        A blank secret counts as none: anybody could sign with it.
        """
        self._tokens = [RequestValidator(token) for token in tokens if token.strip()]
        self._shared = [RequestValidator(key) for key in shared_keys if key.strip()]

    def valid(
        self, url: str, params: Sequence[tuple[str, str]], headers: Mapping[str, str]
    ) -> bool:
        """True if one of the secrets signed exactly this. False for anything else; never raises.

        `url` as Twilio was given it (`urls.signed_url`, `urls.socket_url`); `params` the form's
        fields in any order, blank ones and repeated names included; names of `headers` lower case.
        """
        given = headers.get(SIGNATURE_HEADER)
        if not given:
            return False
        announced = headers.get(SETTINGS_HEADER)
        algorithm = str(announced_algorithm(announced)).upper()
        if algorithm not in (HMAC_SHA1, HMAC_SHA256):
            return False
        # Accounts without a shared key of their own sign with the token in the new scheme too.
        secrets = self._shared + self._tokens if announced else self._tokens
        fields = _Fields(params)
        try:
            made = [
                secret.compute_signature(spelling, fields, algorithm)
                for spelling in _spellings(url)
                for secret in secrets
            ]
        except ValueError:
            # No Unicode, or no address: Twilio sends neither.
            return False
        wanted = given.encode("utf-8", "surrogatepass")
        # All are compared, so that the time taken does not tell which one came close.
        verdicts = [hmac.compare_digest(each.encode(), wanted) for each in made]
        return True in verdicts


class _Fields:
    """A form as the SDK looks at it: each name once, and all its values."""

    def __init__(self, params: Sequence[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in params:
            self._values.setdefault(name, []).append(value)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def getall(self, name: str) -> list[str]:
        return self._values[name]


def _spellings(url: str) -> set[str]:
    """`url` as it is, without its port and with it: Twilio is not consistent in that."""
    parts = urlsplit(url)
    host = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
    port = parts.port or _PORTS.get(parts.scheme)
    return {
        url,
        urlunsplit(parts._replace(netloc=host)),
        urlunsplit(parts._replace(netloc=f"{host}:{port}" if port else host)),
    }
