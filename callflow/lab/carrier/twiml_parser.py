"""Reads TwiML as a carrier does: an answer becomes verbs with typed attributes. Pure.

Only what callflow may say is understood, with Twilio's defaults. Everything else is refused instead
of ignored: a misspelt attribute that Twilio would silently drop must show in a test.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

from callflow.lab.carrier.app_network import TwimlRefused


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
class DialledNumber:
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

    to: DialledNumber | Conference
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
    guesses: bool = False


Verb = Say | Pause | Gather | Redirect | Hangup | Dial | Relay


@dataclass(frozen=True, slots=True)
class Document:
    """What a line does next. `url`: where the document came from; None: a REST request."""

    url: str | None
    verbs: tuple[Verb, ...]


MOST_SAY_CHARS: Final = 4_096
MOST_BYTES: Final = 64_000


def parse(text: str, url: str | None) -> Document:
    """The document in `text`. Raises TwimlRefused for what Twilio would not carry out."""
    if (size := len(text.encode())) > MOST_BYTES:
        raise TwimlRefused(f"it has {size} bytes, more than {MOST_BYTES}", 11750)
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise TwimlRefused(f"it is not XML: {error}") from error
    if root.tag != "Response":
        raise TwimlRefused(f"its root is <{root.tag}> instead of <Response>")
    return Document(url, tuple(_verb(each) for each in root))


class _Attributes:
    """The attributes of one element; each is taken once, and none may be left."""

    def __init__(self, element: ElementTree.Element) -> None:
        self._tag = element.tag
        self._left = dict(element.attrib)
        if self.word("method", "POST").upper() != "POST":
            raise TwimlRefused(f"<{self._tag} method>: only POST is simulated")

    def word(self, name: str, default: str) -> str:
        return self._left.pop(name, default)

    def maybe(self, name: str) -> str | None:
        return self._left.pop(name, None)

    def flag(self, name: str, default: bool) -> bool:
        value = self._left.pop(name, str(default).lower())
        if value not in ("true", "false"):
            raise TwimlRefused(f"<{self._tag} {name}={value!r}> is neither true nor false")
        return value == "true"

    def number(self, name: str, default: int) -> int:
        value = self._left.pop(name, str(default))
        if not value.isascii() or not value.isdigit():
            raise TwimlRefused(f"<{self._tag} {name}={value!r}> is no whole number")
        return int(value)

    def refuse_left(self, ignored: Collection[str]) -> None:
        unknown = sorted(self._left.keys() - set(ignored))
        if unknown:
            raise TwimlRefused(f"<{self._tag}> has no attribute {unknown[0]!r}")


@contextmanager
def _attributes(element: ElementTree.Element, *ignored: str) -> Iterator[_Attributes]:
    """The attributes of `element`. At the end of the block none may be left but those ignored."""
    given = _Attributes(element)
    yield given
    given.refuse_left(ignored)


def _verb(element: ElementTree.Element) -> Verb:
    read = _VERBS.get(element.tag)
    if read is None:
        raise TwimlRefused(f"<{element.tag}> is no verb that is simulated")
    return read(element)


def _say(element: ElementTree.Element) -> Say:
    with _attributes(element, "voice", "language", "loop"):
        text = "".join(element.itertext()).strip()
    if len(text) > MOST_SAY_CHARS:
        raise TwimlRefused(f"a <Say> of {len(text)} characters, more than {MOST_SAY_CHARS}", 13520)
    return Say(text)


def _pause(element: ElementTree.Element) -> Pause:
    with _attributes(element) as given:
        return Pause(given.number("length", 1))


def _gather(element: ElementTree.Element) -> Gather:
    verbs = [_verb(each) for each in element]
    prompt = tuple(each for each in verbs if isinstance(each, Say | Pause))
    if len(prompt) < len(verbs):
        raise TwimlRefused("<Gather> may hold nothing but <Say> and <Pause>", 13323)
    with _attributes(element, "profanityFilter", "hints", "enhanced", "debug") as given:
        inputs = given.word("input", "dtmf").split()
        timeout_s = _timeout(given)
        return Gather(
            prompt=prompt,
            action=given.maybe("action"),
            speech="speech" in inputs,
            keys="dtmf" in inputs,
            timeout_s=timeout_s,
            speech_timeout_s=_speech_timeout(given, timeout_s),
            empty_too=given.flag("actionOnEmptyResult", False),
            num_digits=given.number("numDigits", 0) or None,
            finish_on=given.word("finishOnKey", "#"),
            barge_in=given.flag("bargeIn", True),
            language=given.word("language", "en-US"),
        )


def _timeout(given: _Attributes) -> float:
    value = given.word("timeout", "5")
    if not value.isascii() or not value.isdigit():
        raise TwimlRefused(f"<Gather timeout={value!r}> is no number of seconds", 13313)
    return int(value)


def _speech_timeout(given: _Attributes, timeout_s: float) -> float | None:
    value, model = given.maybe("speechTimeout"), given.maybe("speechModel")
    if value == "auto":
        if model is not None:
            raise TwimlRefused("speechModel needs a whole number as speechTimeout", 13335)
        return None
    if value is None:
        # Twilio's default: the caller waits for as long again after each of their own sentences.
        return timeout_s
    if not value.isascii() or not value.isdigit() or int(value) == 0:
        raise TwimlRefused(f"<Gather speechTimeout={value!r}> is neither seconds nor auto", 13327)
    return int(value)


def _redirect(element: ElementTree.Element) -> Redirect:
    with _attributes(element):
        return Redirect((element.text or "").strip())


def _hangup(element: ElementTree.Element) -> Hangup:
    with _attributes(element):
        return Hangup()


def _dial(element: ElementTree.Element) -> Dial:
    nouns = list(element)
    if len(nouns) > 1:
        raise TwimlRefused("<Dial> with more than one noun is not simulated")
    with _attributes(element, "answerOnBridge", "hangupOnStar", "timeLimit", "record") as given:
        return Dial(
            to=_noun(nouns[0]) if nouns else DialledNumber((element.text or "").strip()),
            action=given.maybe("action"),
            timeout_s=given.number("timeout", 30),
            caller_id=given.maybe("callerId"),
        )


def _noun(element: ElementTree.Element) -> DialledNumber | Conference:
    text = (element.text or "").strip()
    if element.tag == "Number":
        with _attributes(element) as given:
            return DialledNumber(text, given.maybe("url"))
    if element.tag != "Conference":
        raise TwimlRefused(f"<Dial><{element.tag}> is not simulated")
    ignored = ("beep", "muted", "maxParticipants", "record", "participantLabel")
    with _attributes(element, *ignored) as given:
        return Conference(
            text,
            starts=given.flag("startConferenceOnEnter", True),
            ends=given.flag("endConferenceOnExit", False),
            music=given.maybe("waitUrl") != "",
        )


def _connect(element: ElementTree.Element) -> Relay:
    with _attributes(element) as connect:
        action = connect.maybe("action")
    nouns = list(element)
    if len(nouns) != 1 or nouns[0].tag != "ConversationRelay":
        raise TwimlRefused("<Connect> needs one <ConversationRelay>; nothing else is simulated")
    ignored = ("profanityFilter", "reportInputDuringAgentSpeech", "voice", "hints", "debug")
    with _attributes(nouns[0], *ignored) as given:
        names = ("transcriptionLanguage", "language", "ttsLanguage")
        languages = [given.maybe(name) for name in names]
        return Relay(
            url=given.word("url", ""),
            action=action,
            greeting=given.maybe("welcomeGreeting"),
            greeting_interruptible=_hears_speech(given, "welcomeGreetingInterruptible"),
            interruptible=_hears_speech(given, "interruptible"),
            keys=given.flag("dtmfDetection", False),
            guesses=given.flag("partialPrompts", False),
            tells_played="tokens-played" in given.word("events", "").split(),
            language=next((one for one in languages if one is not None), "en-US"),
            parameters=dict(_parameter(each) for each in nouns[0]),
        )


def _parameter(element: ElementTree.Element) -> tuple[str, str]:
    if element.tag != "Parameter" or not {"name", "value"} <= element.attrib.keys():
        raise TwimlRefused(
            f"<ConversationRelay><{element.tag}> is not simulated: write <Parameter name value>"
        )
    return element.attrib["name"], element.attrib["value"]


def _hears_speech(given: _Attributes, name: str) -> bool:
    return given.word(name, "any") in ("any", "speech", "true")


_VERBS: Final[Mapping[str, Callable[[ElementTree.Element], Verb]]] = {
    "Say": _say,
    "Pause": _pause,
    "Gather": _gather,
    "Redirect": _redirect,
    "Hangup": _hangup,
    "Dial": _dial,
    "Connect": _connect,
}
