"""Finds the web process that answers an address of the application, and how patiently.

The public host name stands for a load balancer: requests go round the targets, whether they live or
not, and a retry goes to another one. The fragment of an address is the carrier's own: it is obeyed,
and neither sent nor signed. What can go wrong has the number that Twilio gives to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urljoin, urlsplit, urlunsplit

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
        super().__init__(f"{_without_query(url)}: {reason} (error {code})")


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
        super().__init__(f"{_without_query(url)}: {reason}")


def _without_query(url: str) -> str:
    """Without its query, in which an application may carry what somebody said."""
    return url.partition("?")[0]


POLICIES: Final = frozenset({"4xx", "5xx", "ct", "rt", "all"})

_LIMITS: Final = {"ct": (100, 10_000), "rt": (100, 15_000), "tt": (1, 15_000), "rc": (0, 5)}
_PORTS: Final = {"http": 80, "https": 443}
_SOCKETS: Final = {"https": "wss", "http": "ws"}


@dataclass(frozen=True, slots=True)
class RequestPatience:
    """How long one webhook may take, and what is tried again. Twilio's defaults."""

    connect_s: float = 5.0
    read_s: float = 15.0
    total_s: float = 15.0
    """Everything together, retries included; Twilio allows no more than this."""
    retries: int = 1
    policy: frozenset[str] = frozenset({"ct"})

    def tries_again(self, what: str) -> bool:
        """True when such a failure (`ct`, `rt`, `4xx`, `5xx`) is worth another attempt."""
        return what in self.policy or "all" in self.policy


@dataclass(frozen=True, slots=True)
class Target:
    host: str
    port: int
    tls: bool

    @classmethod
    def of(cls, url: str) -> Target:
        parts = urlsplit(url)
        if parts.scheme not in _PORTS or not parts.hostname:
            raise AddressRefused(url, "is no base address: write it like http://127.0.0.1:8080")
        port = parts.port or _PORTS[parts.scheme]
        return cls(parts.hostname, port, parts.scheme == "https")


@dataclass(frozen=True, slots=True)
class AppAddress:
    """One address of the application. `url` is what is signed, `path` what is asked for."""

    url: str
    path: str
    patience: RequestPatience


class Network:
    """Every target behind one public base URL. `targets` may be changed while calls are going on.

    A path in the public URL is what the proxy in front strips, so targets never see it.
    """

    def __init__(self, public_url: str, targets: Sequence[str]) -> None:
        self.public_url = public_url.rstrip("/")
        self.targets = list(targets)
        parts = urlsplit(self.public_url)
        self.host = parts.netloc
        self.scheme = parts.scheme
        self._turn = 0
        socket_scheme = _SOCKETS.get(parts.scheme, parts.scheme)
        self._socket_url = urlunsplit(parts._replace(scheme=socket_scheme))

    def address(self, url: str, base: str | None = None) -> AppAddress:
        """Where `url`, which stood in the document from `base`, leads.

        Raises AddressRefused for an address that is elsewhere, relative to nothing, or has
        overrides that Twilio does not know.
        """
        if base is None and not urlsplit(url).scheme:
            raise AddressRefused(url, "must be absolute here", RELATIVE_ADDRESS)
        whole, _, fragment = urljoin(base or "", url).partition("#")
        return AppAddress(whole, self._path(whole, self.public_url), _patience(url, fragment))

    def socket(self, url: str) -> AppAddress:
        """The same for a WebSocket, whose address begins with wss:// (or ws://)."""
        if urlsplit(url).query:
            raise AddressRefused(url, "a socket's address may have no query: it breaks signatures")
        return AppAddress(url, self._path(url, self._socket_url), RequestPatience())

    def target(self, other_than: Target | None = None) -> Target:
        """The next one in turn; another than the last, if there is one."""
        self._turn += 1
        target = Target.of(self.targets[self._turn % len(self.targets)])
        if target == other_than and len(self.targets) > 1:
            return self.target()
        return target

    def _path(self, url: str, base: str) -> str:
        rest = url.removeprefix(base)
        if rest == url or (rest and rest[0] not in "/?"):
            raise AddressRefused(url, f"is not under {base}: nothing is called there")
        return rest if rest.startswith("/") else f"/{rest}"


def _patience(url: str, fragment: str) -> RequestPatience:
    given = dict(parse_qsl(fragment, keep_blank_values=True))
    policy = given.pop("rp", "ct").split(",")
    if not POLICIES.issuperset(policy):
        raise AddressRefused(url, f"#rp={','.join(policy)} is none of {sorted(POLICIES)}")
    numbers = {"ct": 5_000, "rt": 15_000, "tt": 15_000, "rc": 1}
    for name, value in given.items():
        low, high = _LIMITS.get(name, (0, -1))
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            raise AddressRefused(url, f"#{name}={value} is no override that Twilio knows")
        numbers[name] = int(value)
    return RequestPatience(
        connect_s=numbers["ct"] / 1000,
        read_s=numbers["rt"] / 1000,
        total_s=numbers["tt"] / 1000,
        retries=numbers["rc"],
        policy=frozenset(policy),
    )
