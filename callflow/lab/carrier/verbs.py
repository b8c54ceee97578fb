"""The verbs of TwiML that the carrier knows, with typed attributes. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Say:
    """Speak `text`."""

    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Say nothing for `seconds`."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Gather:
    """Speak the prompt and listen at once, for `timeout_s` after the prompt's end."""

    prompt: tuple[Say | Pause, ...]
    action: str | None
    speech: bool
    keys: bool
    timeout_s: float
    speech_timeout_s: float | None
    """How long a pause ends the caller's words; None: the carrier finds out by itself."""
    empty_too: bool
    num_digits: int | None
    finish_on: str
    barge_in: bool
    language: str


@dataclass(frozen=True, slots=True)
class Redirect:
    """Go on with the document at `url`."""

    url: str


@dataclass(frozen=True, slots=True)
class Hangup:
    """End the call."""


@dataclass(frozen=True, slots=True)
class Number:
    """A telephone number to be connected; `whisper` is the document that they hear before."""

    number: str
    whisper: str | None = None


@dataclass(frozen=True, slots=True)
class Conference:
    """A room for several lines. `starts`, `ends`: this line's coming and going starts, ends it."""

    name: str
    starts: bool = True
    ends: bool = False
    music: bool = True


@dataclass(frozen=True, slots=True)
class Dial:
    """Connect this line with `to`; `action` is asked afterwards."""

    to: Number | Conference
    action: str | None
    timeout_s: float
    caller_id: str | None


@dataclass(frozen=True, slots=True)
class Relay:
    """`<Connect><ConversationRelay>`: go on by WebSocket, and with `action` when that is over."""

    url: str
    action: str | None
    greeting: str | None
    greeting_interruptible: bool
    interruptible: bool
    keys: bool
    tells_played: bool
    language: str
    parameters: Mapping[str, str]


Verb = Say | Pause | Gather | Redirect | Hangup | Dial | Relay


@dataclass(frozen=True, slots=True)
class Document:
    """What a line does next. `url`: where the document came from; None: a REST request."""

    url: str | None
    verbs: tuple[Verb, ...]
