"""Builds the answers to Twilio's webhooks, in the words of calls instead of XML.

Built with the SDK's own generator. Whatever text comes in, a valid document comes out, each `<Say>`
within Twilio's limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from twilio.twiml.voice_response import VoiceResponse

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
