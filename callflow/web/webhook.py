"""Reads one webhook of the carrier: that it was signed, who calls, in which turn, what was said.

While the account's auth token is being changed, either of two may have signed. Where the account
has a signing rule, Twilio announces SHA-256 and signs with a shared key instead.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from starlette.datastructures import ImmutableMultiDict
from starlette.requests import Request
from starlette.websockets import WebSocket
from twilio.request_validator import HMAC_SHA1, HMAC_SHA256, RequestValidator
from twilio.request_validator import get_signature_algorithm as announced_algorithm

from callflow import logs, tracing
from callflow.call.utterance import LOW_CONFIDENCE, MAX_UTTERANCE_CHARS, parse_confidence
from callflow.errors import CallflowError
from callflow.language.requests import asks_for_human
from callflow.store.keys import call_keys
from callflow.twilio.urls import signed_url, socket_url

MAX_BODY_BYTES = 256 * 1024
"""A webhook has some dozen short fields; an utterance of a minute is some kilobytes."""

MAX_FIELDS = 500

MAX_TURN = 100_000

MAX_DIGITS = 64
"""A Gather of ours ends with the first key."""

TURN = "/voice/turn"
"""Where the carrier sends what a caller has said."""

TERMINAL = frozenset({"completed", "busy", "failed", "no-answer", "canceled"})
"""CallStatus values after which a line is closed: whatever arrives later cannot open it again."""


SIGNATURE_HEADER: Final = "x-twilio-signature"
SETTINGS_HEADER: Final = "x-twilio-webhooks-signature-settings"

_PORTS: Final = {"https": 443, "wss": 443, "http": 80, "ws": 80}


class BadRequest(CallflowError):
    """A request that the carrier would not send: which part of it, and the rule."""


class TooLarge(CallflowError):
    """A body that no webhook has."""


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
        fields = ImmutableMultiDict(list(params))
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


class SignatureGate:
    """Lets in what the carrier has signed with one of our secrets, and nothing else."""

    def __init__(self, signatures: Signatures, base: str, *, unsigned: bool) -> None:
        self._signatures = signatures
        self._base = base
        self._unsigned = unsigned

    def admits(self, request: Request, form: list[tuple[str, str]]) -> bool:
        """True for a webhook that was signed over our public address and this form."""
        return self._valid(
            request, signed_url(self._base, request.url.path, request.url.query), form
        )

    def admits_socket(self, socket: WebSocket) -> bool:
        """True for a handshake that was signed over our public address."""
        return self._valid(socket, socket_url(self._base, socket.url.path), [])

    def _valid(self, request: Request | WebSocket, url: str, form: list[tuple[str, str]]) -> bool:
        return self._unsigned or self._signatures.valid(url, form, dict(request.headers))


@dataclass(frozen=True, slots=True)
class CallerInput:
    """What the caller said or pressed in one turn; nothing of both is silence."""

    text: str = ""
    digits: str | None = None
    confidence: float | None = None

    @property
    def understood(self) -> bool:
        """False for silence, and for what was hardly more than a guess."""
        sure = self.confidence is None or self.confidence >= LOW_CONFIDENCE
        return bool(self.digits) or (bool(self.text.strip()) and sure)

    @property
    def wants_human(self) -> str | None:
        """Why a human is to be rung for it: they asked, in words or with the 0 key. Or None."""
        if self.digits == "0":
            return "pressed_0"
        return "asked" if asks_for_human(self.text) else None


@dataclass(frozen=True, slots=True)
class VoiceRequest:
    """`fields` are the form's, `query` our own, from the URL that we gave."""

    fields: Mapping[str, str]
    query: Mapping[str, str]
    repeated: bool = False
    """The carrier says that it sends this for another time: the first answer did not arrive."""

    @property
    def call_sid(self) -> str:
        """Which call. Raises InvalidCallSid."""
        sid = self.fields.get("CallSid", "")
        call_keys(sid)
        return sid

    @property
    def called(self) -> str:
        """The number that was dialled."""
        return self.fields.get("To") or self.fields.get("Called", "")

    @property
    def calling(self) -> str:
        """The number that dialled; `anonymous` and other words where it is withheld."""
        return self.fields.get("From") or self.fields.get("Caller", "")

    @property
    def line_closed(self) -> bool:
        """True when the carrier says that the line is closed."""
        return self.fields.get("CallStatus", "") in TERMINAL

    def number(self, name: str, default: int | None = None) -> int:
        """A number of ours in the URL. Raises BadRequest for what we have not put there."""
        given = self.query.get(name)
        if given is None and default is not None:
            return default
        value = parse_number(given or "")
        if value is None or value > MAX_TURN:
            raise BadRequest(f"{name} in the address must be a number up to {MAX_TURN}")
        return value

    def turn(self) -> int:
        """The turn in the URL, from 1."""
        turn = self.number("n")
        if turn < 1:
            raise BadRequest("n in the address must be 1 or more: turns count from 1")
        return turn

    def said(self) -> CallerInput:
        """What the caller said or pressed, as the carrier heard it."""
        text = self.fields.get("SpeechResult", "")[:MAX_UTTERANCE_CHARS]
        digits = self.fields.get("Digits", "")[:MAX_DIGITS] or None
        return CallerInput(text, digits, parse_confidence(self.fields.get("Confidence", "")))


def parse_number(text: str) -> int | None:
    """`text` as a number; None for what is none, or longer than any of ours (a time in ms)."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


async def read_webhook(request: Request) -> tuple[list[tuple[str, str]], VoiceRequest]:
    """The form as it was signed, and what it says. Raises TooLarge and BadRequest."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise TooLarge(f"a webhook has at most {MAX_BODY_BYTES} bytes")
    try:
        pairs = parse_qsl(
            body.decode("utf-8"),
            keep_blank_values=True,
            max_num_fields=MAX_FIELDS,
            errors="surrogateescape",
        )
    except ValueError as error:
        raise BadRequest("the body is no form, or one of too many fields") from error
    return pairs, VoiceRequest(
        fields=dict(pairs),
        query=dict(request.query_params),
        repeated="i-twilio-idempotency-token" in request.headers,
    )


@contextmanager
def logged_and_traced(path: str, request: VoiceRequest) -> Iterator[None]:
    """Logs and traces name the call, the turn and the webhook that is being answered."""
    sid, turn = request.call_sid, parse_number(request.query.get("n", "")) or None
    with logs.bound(call_sid=sid, turn=turn):
        if turn is None:
            with tracing.span(path, call_sid=sid):
                yield
        else:
            # The trace of a turn begins where the caller's words arrive.
            first = path == TURN and not request.repeated
            with tracing.turn(path, sid, turn, first=first):
                yield
