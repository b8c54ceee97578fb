"""The frames of a ConversationRelay socket: what Twilio sends, and what we may send.

Twilio adds types and fields without notice, so an unknown type is `Other` and unknown fields are
passed over. What a frame cannot do without it must have: else it is malformed. Ten malformed frames
of ours in a row close the socket (1007); theirs are logged and the call goes on.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from callflow.errors import CallflowError
from callflow.twilio.locale import relay_tag
from callflow.twilio.speech import clean

DIGITS: Final = "0123456789*#w"
"""What Twilio can send on a line; `w` is a pause of half a second."""


class MalformedFrame(CallflowError):
    """A frame that means nothing. Its text, which may be what somebody said, is never shown."""

    def __init__(self, reason: str, size: int | None = None) -> None:
        self.reason = reason
        self.size = size
        long = "" if size is None else f" of {size} characters"
        super().__init__(f"a relay frame{long} is malformed: {reason}")


class DigitsRefused(CallflowError):
    """Digits that the device's profile does not allow; none of them was sent."""

    def __init__(self, digits: str, allowed: str) -> None:
        self.digits = digits
        self.allowed = allowed
        super().__init__(
            f"the digits {digits[:32]!a} are not sent: of {DIGITS}, which the carrier can send, "
            f"the site allows {allowed[:32]!a}, since on some lifts a digit opens doors or ends "
            "the alarm; add to `allowed_digits` of the site what its device needs"
        )


@dataclass(frozen=True, slots=True)
class Setup:
    """The socket is open. It may come a second time for a call that we know."""

    call_sid: str
    session_id: str = ""
    account_sid: str = ""
    parent_call_sid: str = ""
    from_: str = ""
    to: str = ""
    forwarded_from: str = ""
    call_type: str = ""
    caller_name: str = ""
    direction: str = ""
    call_status: str = ""
    custom_parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the caller said; more of the same utterance follows unless `last`."""

    text: str
    lang: str = ""
    last: bool = True


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The caller spoke into our words: what they heard of them, and for how long if it is known."""

    heard: str = ""
    after_ms: int | None = None


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
    frame = _Fields(found, len(text))
    match frame.text("type"):
        case "setup":
            return _setup(frame)
        case "prompt":
            last = frame.flag("last", absent=True)
            return Prompt(frame.needed("voicePrompt"), frame.text("lang"), last)
        case "interrupt":
            return Interrupt(
                frame.text("utteranceUntilInterrupt"), frame.whole("durationUntilInterruptMs")
            )
        case "dtmf":
            return Dtmf(frame.needed("digit"))
        case "info" if frame.text("name") == "tokensPlayed":
            return Played(frame.text("value"))
        case "error":
            return RelayError(frame.text("description"))
        case "":
            raise MalformedFrame("it has no type", len(text))
        case other:
            return Other(other[:64])


def text(token: str, last: bool, lang: str | None = None) -> str:
    """Words to be spoken, in `lang` or as set before; `last` ends a reply."""
    frame: dict[str, Any] = {"type": "text", "token": clean(token), "last": last}
    if lang is not None:
        frame["lang"] = relay_tag(lang)
    return _written(frame)


def end(handoff: Mapping[str, Any]) -> str:
    """End of the session: `handoff` comes back as HandoffData of the `<Connect action>`."""
    return _written({"type": "end", "handoffData": json.dumps(dict(handoff), ensure_ascii=False)})


def send_digits(digits: str, allowed: str) -> str:
    """Keys pressed towards the lift's device. Raises DigitsRefused unless each is in `allowed`."""
    if not digits or not set(digits) <= set(allowed) & set(DIGITS):
        raise DigitsRefused(digits, allowed)
    return _written({"type": "sendDigits", "digits": digits})


def language(tts: str, transcription: str) -> str:
    """From now on speak `tts` and understand `transcription`, both as calls name languages."""
    return _written(
        {
            "type": "language",
            "ttsLanguage": relay_tag(tts),
            "transcriptionLanguage": relay_tag(transcription),
        }
    )


def _written(frame: Mapping[str, Any]) -> str:
    return json.dumps(frame, ensure_ascii=False, separators=(",", ":"))


def _setup(frame: _Fields) -> Setup:
    return Setup(
        call_sid=frame.needed("callSid"),
        session_id=frame.text("sessionId"),
        account_sid=frame.text("accountSid"),
        parent_call_sid=frame.text("parentCallSid"),
        from_=frame.text("from"),
        to=frame.text("to"),
        forwarded_from=frame.text("forwardedFrom"),
        call_type=frame.text("callType"),
        caller_name=frame.text("callerName"),
        direction=frame.text("direction"),
        call_status=frame.text("callStatus"),
        custom_parameters=frame.texts("customParameters"),
    )


class _Fields:
    """A frame's fields, each read as what it should be however it was written."""

    def __init__(self, fields: Mapping[str, Any], size: int) -> None:
        self._fields = fields
        self._size = size

    def text(self, name: str) -> str:
        return _text(self._fields.get(name)) or ""

    def needed(self, name: str) -> str:
        found = _text(self._fields.get(name))
        if found is None:
            self._malformed(name)
        return found

    def texts(self, name: str) -> dict[str, str]:
        found = self._fields.get(name)
        if not isinstance(found, dict):
            return {}
        return {clean(key): _text(value) or "" for key, value in found.items()}

    def flag(self, name: str, *, absent: bool) -> bool:
        found = self._fields.get(name)
        if isinstance(found, bool):
            return found
        return {"true": True, "false": False}.get(str(found).lower(), absent)

    def whole(self, name: str) -> int | None:
        found = self._fields.get(name)
        if isinstance(found, bool) or not isinstance(found, int | float | str):
            return None
        try:
            return max(0, round(float(found)))
        except (ValueError, OverflowError):
            # Not worth a frame: how long it took to interrupt us is a detail.
            return None

    def _malformed(self, name: str) -> NoReturn:
        what = "is no text" if name in self._fields else "is missing"
        raise MalformedFrame(f"its {name} {what}", self._size)


def _text(value: Any) -> str | None:
    """As text; None for what cannot be one. Halves of surrogate pairs are escaped in their JSON."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return clean(str(value))
