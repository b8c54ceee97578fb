"""Reads the frames that Twilio sends on a ConversationRelay socket, and writes ours.

Twilio adds types and fields without notice, so an unknown type is `Other` and unknown fields are
passed over. What a frame cannot do without it must have: else it is malformed. Ten malformed frames
of ours in a row close the socket (1007); theirs are logged and the call goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from callflow.call.utterance import clean_text, parse_confidence
from callflow.errors import CallflowError
from callflow.twilio.speech import clean, say_tag


class MalformedFrame(CallflowError):
    """A frame that means nothing. Its text, which may be what somebody said, is never shown."""

    def __init__(self, reason: str, size: int | None = None) -> None:
        self.reason = reason
        self.size = size
        long = "" if size is None else f" of {size} characters"
        super().__init__(f"a relay frame{long} is malformed: {reason}")


@dataclass(frozen=True, slots=True)
class Setup:
    """The socket is open. It may come a second time for a call that we know."""

    call_sid: str
    from_: str = ""
    to: str = ""
    custom_parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the caller said; more of the same utterance follows unless `last`. `confidence`: the
    recogniser's own, above 0 and up to 1; None where the frame gives none, or 0 for unknown."""

    text: str
    last: bool = True
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The caller spoke into our words: what they heard of them."""

    heard: str = ""


@dataclass(frozen=True, slots=True)
class Dtmf:
    """The caller, or the lift's device, pressed a key."""

    digit: str


@dataclass(frozen=True, slots=True)
class Played:
    """Words of ours that the caller has heard by now: those since the last such frame, or all."""

    text: str


@dataclass(frozen=True, slots=True)
class RelayError:
    """Twilio could not use what we sent. The description may quote it."""

    description: str = ""


@dataclass(frozen=True, slots=True)
class Other:
    """A frame of a type that we do not know."""

    type: str


Frame = Setup | Prompt | Interrupt | Dtmf | Played | RelayError | Other


def parse(text: str) -> Frame:
    """What Twilio sent. Raises MalformedFrame, and nothing else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        # Without the decoder's own error: that one carries the whole text along.
        raise MalformedFrame("it is no JSON object", len(text))
    fields: dict[str, Any] = found

    def optional(name: str) -> str:
        return _text(fields.get(name)) or ""

    def needed(name: str) -> str:
        if (value := _text(fields.get(name))) is None:
            what = "is no text" if name in fields else "is missing"
            raise MalformedFrame(f"its {name} {what}", len(text))
        return value

    match optional("type"):
        case "setup":
            given = _texts(fields.get("customParameters"))
            return Setup(needed("callSid"), optional("from"), optional("to"), given)
        case "prompt":
            last = str(fields.get("last")).lower() != "false"
            return Prompt(needed("voicePrompt"), last, parse_confidence(optional("confidence")))
        case "interrupt":
            return Interrupt(optional("utteranceUntilInterrupt"))
        case "dtmf":
            return Dtmf(needed("digit"))
        case "info" if optional("name") == "tokensPlayed":
            return Played(optional("value"))
        case "error":
            return RelayError(optional("description"))
        case "":
            raise MalformedFrame("it has no type", len(text))
        case other:
            return Other(other[:64])


def text(token: str, *, last: bool, interruptible: bool = True) -> str:
    """Words to be spoken in the language set before; `last` ends a reply."""
    firm = {} if interruptible else {"interruptible": False}
    return _dump({"type": "text", "token": clean(token), "last": last, **firm})


def end(handoff: Mapping[str, Any]) -> str:
    """End of the session: `handoff` comes back as HandoffData of the `<Connect action>`."""
    return _dump({"type": "end", "handoffData": json.dumps(dict(handoff), ensure_ascii=False)})


def language(language: str) -> str:
    """From now on speak and understand `language`, named as calls name it."""
    tag = say_tag(language)
    return _dump({"type": "language", "ttsLanguage": tag, "transcriptionLanguage": tag})


def _dump(frame: Mapping[str, Any]) -> str:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":"))


def _text(value: Any) -> str | None:
    """As text; None for what cannot be one. Halves of surrogate pairs are escaped in their JSON."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return clean_text(str(value))


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {clean_text(key): _text(each) or "" for key, each in value.items()}
