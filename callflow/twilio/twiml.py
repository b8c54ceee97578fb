"""Builds the answers to Twilio's webhooks, in the words of calls instead of XML.

Built with the SDK's own generator. Whatever text comes in, a valid document comes out, each `<Say>`
within Twilio's limits. One document is kept by the carrier for the hour when nothing of ours
answers: it rings the site's people, one after the other, and tells the caller to stay.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from twilio.twiml.voice_response import VoiceResponse

from callflow.call.language_tag import primary_language
from callflow.errors import CallflowError
from callflow.twilio.phone_numbers import diallable
from callflow.twilio.speech import clean, pieces, say_tag, speech_tag

MOST_BYTES: Final = 64_000
"""Twilio refuses an answer of more than 64 kB (error 11750), and the caller is cut off."""


class TwimlError(CallflowError):
    """A document that Twilio would refuse, or that would lose the caller; it was not sent."""


class TwimlTooLong(TwimlError):
    """`size` above `limit`, both in bytes."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(
            f"a TwiML document of {size} bytes: Twilio takes {limit}; say less in one turn"
        )


class Twiml:
    """One document, verb by verb: each method adds one and returns the document."""

    def __init__(self, language: str) -> None:
        """`language` is the call's: it is spoken and recognised."""
        self.language = language
        self.relays = False
        """It has a relay socket opened."""
        self._response = VoiceResponse()

    def say(self, text: str) -> Self:
        """Speak; a long text in several `<Say>`. Nothing to say adds nothing."""
        self._speak(self._response, text)
        return self

    def speaking(self, language: str) -> Self:
        """What follows is in `language`."""
        self.language = language
        return self

    def pause(self, seconds: int) -> Self:
        """Silence. Callers do not bear more than 4 s of it."""
        self._response.pause(length=max(1, seconds))
        return self

    def gather(self, text: str, *, action: str, timeout_s: int = 5, hints: str = "") -> Self:
        """Speak and listen at once; what is said, one key, or nothing at all goes to `action`.

        `timeout_s` is how long a caller may stay silent after our words; `hints` are phrases that
        the recognition is to expect, with commas between them. When Twilio cannot reach
        `action` it goes on with the next verb: that is the caller's of this method to add.
        """
        gather = self._response.gather(
            input="speech dtmf",
            action=action,
            timeout=timeout_s,
            # "auto" ends with the caller's pause; with a speechModel Twilio would refuse it.
            speech_timeout="auto",
            language=speech_tag(self.language),
            hints=clean(hints) or None,
            # Masked words would be lost evidence, and what masks them mistakes others for them.
            profanity_filter=False,
            # Or a caller who says nothing would fall through, unheard of.
            action_on_empty_result=True,
            # A pressed key comes at once: it may be all that a caller can do.
            num_digits=1,
            finish_on_key="",
        )
        self._speak(gather, text)
        return self

    def key(self, text: str, *, action: str, timeout_s: int = 5) -> Self:
        """Ask a human for one key. No key goes to `action` too, without `Digits`."""
        gather = self._response.gather(
            input="dtmf",
            action=action,
            timeout=timeout_s,
            action_on_empty_result=True,
            num_digits=1,
            finish_on_key="",
        )
        self._speak(gather, text)
        return self

    def redirect(self, url: str) -> Self:
        """Go on with the document at `url`."""
        self._response.redirect(url)
        return self

    def again(self, after_s: int = 1) -> Self:
        """Go on with this very document, which is fetched from where it was; nobody's URL is in it.

        A `<Gather>` without action asks the address of its own document.
        """
        self._response.gather(input="dtmf", timeout=max(1, after_s), action_on_empty_result=True)
        return self

    def hangup(self) -> Self:
        """End the call."""
        self._response.hangup()
        return self

    def conference(self, name: str, *, action: str | None = None, human: bool = False) -> Self:
        """Join the conference `name` (the caller's CallSid: names must not tell who is in it).

        It ends with either of the two: a caller must never be left alone in it, and `action`, which
        is asked when they come out, brings them back to the agent. Raises TwimlError for a caller
        without one. Nobody hears music or beeps.
        """
        if action is None and not human:
            raise TwimlError(
                f"the caller of conference {name} would be lost when the human leaves: give the "
                "action that brings them back"
            )
        self._response.dial(action=action).conference(
            clean(name),
            start_conference_on_enter=True,
            end_conference_on_exit=True,
            beep=False,
            wait_url="",
        )
        return self

    def dial(
        self,
        number: str,
        *,
        action: str | None,
        timeout_s: int,
        caller_id: str | None = None,
        whisper_url: str | None = None,
    ) -> Self:
        """Ring `number` for `timeout_s` and connect it; then `action`, or the next verb if None.

        `whisper_url` is asked for what the human hears before they are connected. Raises
        NumberRefused for a number that a machine may not dial.
        """
        dial = self._response.dial(action=action, timeout=timeout_s, caller_id=caller_id)
        dial.number(diallable(number), url=whisper_url)
        return self

    def relay(
        self,
        url: str,
        *,
        action: str,
        greeting: str | None,
        parameters: Mapping[str, str],
        hints: str = "",
    ) -> Self:
        """Speak through a ConversationRelay socket at `url` (wss, no query).

        `parameters` come back in its first frame; `greeting` is said before it. `action` is asked
        when the socket is lost: without it the call would end there.
        """
        self.relays = True
        tag = say_tag(self.language)
        relay = self._response.connect(action=action).conversation_relay(
            url=url,
            language=tag,
            tts_language=tag,
            transcription_language=tag,
            hints=clean(hints) or None,
            profanity_filter=False,
            dtmf_detection=True,
            interruptible="any",
            # By default Twilio drops what is said while we speak and cannot be interrupted.
            report_input_during_agent_speech="any",
            # Who speaks on is told from a noise that has stopped our voice.
            partial_prompts=True,
            # Should the socket break, we know what was heard.
            events="tokens-played",
            welcome_greeting=None if greeting is None else clean(greeting),
            welcome_greeting_interruptible=None if greeting is None else "any",
        )
        for name, value in parameters.items():
            relay.parameter(name=clean(name), value=clean(value))
        return self

    def xml(self) -> str:
        """The document. Raises TwimlTooLong above 64 kB."""
        document = str(self._response.to_xml())
        size = len(document.encode())
        if size > MOST_BYTES:
            raise TwimlTooLong(size, MOST_BYTES)
        return document

    def _speak(self, verb: Any, text: str) -> None:
        for piece in pieces(text):
            verb.say(piece, language=say_tag(self.language))


SENTENCES: Final = {
    "en": "Please stay on the line: a person is being called.",
    "zh": "请不要挂断，正在为您呼叫工作人员。",
    "es": "No cuelgue, por favor: estamos llamando a una persona.",
}

MOST_ROUNDS: Final = 5
MOST_CHARS: Final = 4_000
"""Twilio's limit for a document in a REST request (error 32018), the tightest that it has; what it
fetches may be sixteen times as long."""


class FallbackTooLong(CallflowError):
    """So many numbers that the carrier would not keep the document."""

    def __init__(self, numbers: int, size: int) -> None:
        self.numbers = numbers
        super().__init__(
            f"a fallback for {numbers} numbers takes {size} characters, and the carrier keeps "
            f"{MOST_CHARS}: give the site fewer human numbers"
        )


class NobodyToCall(CallflowError):
    """No number at all: there is nothing that the document could do."""

    def __init__(self) -> None:
        super().__init__("a fallback needs at least one human number to ring")


def document(
    languages: Sequence[str], ladder: Sequence[tuple[str, int]], caller_id: str | None = None
) -> str:
    """The TwiML that rings the `ladder`, pairs of number and seconds to ring, round after round.

    As many rounds as fit, five at most; then it starts over from where the carrier keeps it. After
    a talk, too, the next number is rung: a caller who is still on the line still needs somebody.
    `caller_id` is a number of the account; None shows the caller's own. Raises NumberRefused for a
    number that a machine may not dial, FallbackTooLong, NobodyToCall.
    """
    if not ladder:
        raise NobodyToCall
    size = 0
    for rounds in range(MOST_ROUNDS, 0, -1):
        written = _build(languages, ladder, caller_id, rounds)
        size = len(written)
        if size <= MOST_CHARS:
            return written
    raise FallbackTooLong(len(ladder), size)


def _build(
    languages: Sequence[str], ladder: Sequence[tuple[str, int]], caller_id: str | None, rounds: int
) -> str:
    built = Twiml(languages[0] if languages else "en")
    for _ in range(rounds):
        for language, sentence in _sentences(languages):
            built.speaking(language).say(sentence)
        for number, ring_s in ladder:
            built.dial(number, action=None, timeout_s=ring_s, caller_id=caller_id)
        # Numbers that are all engaged fail within milliseconds.
        built.pause(1)
    root = ET.fromstring(built.again().xml())
    ET.indent(root)
    body = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{body}'


def _sentences(languages: Sequence[str]) -> list[tuple[str, str]]:
    """Each language's sentence once; English where we have none."""
    found: dict[str, tuple[str, str]] = {}
    for language in languages or ("en",):
        primary = primary_language(language)
        tag, sentence = "en", SENTENCES["en"]
        if primary in SENTENCES:
            tag, sentence = language, SENTENCES[primary]
        found.setdefault(sentence, (tag, sentence))
    return list(found.values())
