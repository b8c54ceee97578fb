"""Words the answers to the carrier, and the addresses in them that it asks next.

Everything that a later request must know is in its address, which the carrier signs, so the next
one may reach any web process. Speech recognition is given the words that matter with each answer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final
from xml.sax.saxutils import escape

from callflow.call.language_tag import primary_language, same_language
from callflow.call.utterance import MAX_UTTERANCE_CHARS, parse_confidence
from callflow.procedures.library import SopLibrary
from callflow.responder.phrases import generic, greeting
from callflow.responder.sentences import joined
from callflow.sites.site import Site
from callflow.twilio.twiml import Twiml
from callflow.twilio.urls import ANSWER, Patience, callback_url, socket_url
from callflow.web.webhook import CallerInput, VoiceRequest, parse_number

FAILED_SOCKETS = 2
"""After so many sockets in a row that failed the call goes on by webhooks."""

BY_WEBHOOKS = "w"
"""In an address: the call goes on by webhooks."""

MOST_SPOKEN_BYTES = 50_000
"""Of XML in one answer: the carrier takes 64 kB, and a quarter of an hour of speech is more than
anybody hears to its end. The record keeps the whole."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """`base`: where the carrier reaches us, without a slash at its end. `heard`: phrases of people
    that the caller has heard once one of these addresses is asked, by their ids. `patience`: how
    long the carrier waits for an answer, and whom it asks then. `by_webhooks`: the call goes on
    without a socket, since the process that held one fell silent; the next may reach it again."""

    base: str
    heard: tuple[str, ...] = ()
    patience: Patience = ANSWER
    by_webhooks: bool = False

    def to(self, path: str, **query: str | int | None) -> str:
        """An address of ours; values that are None are left out.

        How long the carrier waits and how often it asks again is in the part behind the `#`, which
        it takes off before it signs.
        """
        given = {name: str(value) for name, value in query.items() if value is not None}
        if self.heard:
            given["p"] = ".".join(self.heard)
        if self.by_webhooks:
            given[BY_WEBHOOKS] = "1"
        return callback_url(self.base, path, given, self.patience)

    def turn(self, turn: int) -> str:
        """Where what the caller says in `turn` goes."""
        return self.to("/voice/turn", n=turn)

    def wait(self, turn: int, phrases: int, unstored: UnstoredInput | None = None) -> str:
        """Where the caller goes on waiting for the reply to `turn` after so many phrases."""
        return self.to("/voice/wait", n=turn, k=phrases, **_query_of(unstored))

    def transfer_ended(
        self,
        turn: int,
        contact: int | None = None,
        unstored: UnstoredInput | None = None,
        why: str | None = None,
    ) -> str:
        """Where the caller comes when the human is gone; `contact`: which of the site's humans
        was rung without the store,
        `why`: the reason for it."""
        return self.to(
            "/voice/transfer-ended", n=turn, rung=contact, why=why, **_query_of(unstored)
        )

    def relay_ended(self, failures: int, reply: OpeningReply | None) -> str:
        """Where the caller comes when the socket is gone, which has failed so often in a row.

        `reply`: what it was to begin with, in case that it never did.
        """
        begun = {} if reply is None else reply.query
        return self.to("/voice/relay-ended", k=failures, **begun)

    @property
    def relay(self) -> str:
        """The socket."""
        return socket_url(self.base, "/voice/relay")


@dataclass(frozen=True, slots=True)
class OpeningReply:
    """The reply to `turn`, from the letter `since` on, is said as the first thing on a socket.

    `after`: when a socket was last sent anything, ms; one that has begun since is another one.
    """

    turn: int
    since: int = 0
    after: int = 0

    @classmethod
    def of(cls, request: VoiceRequest) -> OpeningReply | None:
        """What the socket of this request was to begin with."""
        if "g" not in request.query:
            return None
        after = parse_number(request.query.get("a", "")) or 0
        return cls(request.number("g"), request.number("h", 0), after)

    @property
    def query(self) -> dict[str, str | int | None]:
        """The same as a part of an address."""
        return {"g": self.turn, "h": self.since, "a": self.after}


@dataclass(frozen=True, slots=True)
class UnstoredInput:
    """What the caller said while the server could not be reached: it rides in the address, so that
    no process holds it. `since_ms`: when the outage was met, ms since 1970."""

    said: CallerInput
    since_ms: int

    @property
    def handoff(self) -> dict[str, str]:
        """The same for a relay session that ends: the carrier gives it back to its action."""
        given = {"since": str(self.since_ms), "u": self.said.text, "d": self.said.digits or ""}
        sure = "1" if self.said.understood else "0"
        return given | {"c": sure, "q": _confidence_of(self.said) or ""}

    @classmethod
    def of(cls, request: VoiceRequest) -> UnstoredInput | None:
        """What rides in the address of this request, if anything does."""
        if "since" not in request.query:
            return None
        since = request.query["since"]
        said = CallerInput(
            request.query.get("u", "")[:MAX_UTTERANCE_CHARS],
            request.query.get("d") or None,
            parse_confidence(request.query.get("q", "")),
        )
        return cls(said, parse_number(since) or 0)


def _query_of(unstored: UnstoredInput | None) -> dict[str, str | int | None]:
    if unstored is None:
        return {}
    said = unstored.said
    words = {"u": said.text or None, "d": said.digits, "q": _confidence_of(said)}
    # An earlier release reads `c` alone.
    return {"since": unstored.since_ms, "c": None if said.understood else 0, **words}


def _confidence_of(said: CallerInput) -> str | None:
    return None if said.confidence is None else f"{said.confidence:g}"


def _fitting(text: str) -> str:
    """As much of `text` as one answer can hold."""
    size = len(escape(text).encode(errors="replace"))
    return text if size <= MOST_SPOKEN_BYTES else text[: len(text) * MOST_SPOKEN_BYTES // size]


@dataclass(frozen=True, slots=True)
class Answers:
    """Words answers for one caller: in `language`, spoken by `voice`."""

    addresses: Addresses
    language: str
    voice: str
    site: Site | None = None

    def phrase(self, name: str) -> str:
        """One of the sentences that need no procedure."""
        return generic(self.language)[name]

    def phrases(self, *names: str) -> str:
        """Some of them, one after the other."""
        return "".join(joined([self.phrase(name) for name in names]))

    def opening(self, *, alerting: bool) -> str:
        """What the caller hears first: that a machine speaks, and a question."""
        return greeting(self.language, alerting)

    def listen(
        self, turn: int, text: str, *, failures: int = 0, reply: OpeningReply | None = None
    ) -> Twiml:
        """Say `text` (which may be empty) and hear what the caller says in `turn`.

        `failures`: sockets in a row that failed; `reply`: the reply that `text` ends with.
        """
        twiml, text = Twiml(self.language), _fitting(text)
        expected = hints(self.site, self.language)
        if self.voice == "relay" and failures < FAILED_SOCKETS:
            # They come back in the socket's first frame.
            begun = reply and {"saying": str(reply.turn), "since": str(reply.since)}
            parameters = (begun or {}) | ({"letters": str(len(text))} if text else {})
            return twiml.relay(
                self.addresses.relay,
                action=self.addresses.relay_ended(failures, reply),
                greeting=text or None,
                parameters=parameters,
                hints=expected,
            )
        return twiml.gather(text, action=self.addresses.turn(turn), hints=expected).redirect(
            self.addresses.turn(turn)
        )

    def hold(
        self, turn: int, phrases: int, name: str, unstored: UnstoredInput | None = None
    ) -> Twiml:
        """Say a phrase and go on waiting."""
        said = Twiml(self.language).say(self.phrase(name))
        return said.redirect(self.addresses.wait(turn, phrases + 1, unstored))

    def again(self, name: str) -> Twiml:
        """Say a phrase and ask once more where the call stands."""
        return (
            Twiml(self.language).say(self.phrase(name)).redirect(self.addresses.to("/voice/join"))
        )

    def conference(self, call_sid: str, turn: int) -> Twiml:
        """Join the human; when they leave, the agent goes on with `turn`."""
        twiml = Twiml(self.language).say(self.phrase("person_here"))
        return twiml.conference(call_sid, action=self.addresses.transfer_ended(turn))

    def dial(
        self,
        site: Site,
        contact: int,
        turn: int,
        unstored: UnstoredInput | None,
        *,
        why: str | None = None,
    ) -> Twiml:
        """Put the caller through to one number of the ladder: needs neither store nor workers.

        `why`: the reason that the human hears, an outage of ours where it is None.
        """
        human = site.humans[contact]
        twiml = Twiml(self.language)
        if contact == 0:
            twiml = twiml.say(self.phrase("getting_person"))
        return twiml.dial(
            human.number,
            action=self.addresses.transfer_ended(turn, contact, unstored, why),
            timeout_s=human.ring_s,
            caller_id=site.number_to_show,
            whisper_url=self.addresses.to("/voice/human", out=1, why=why),
        )

    def in_language(self, language: str | None) -> Answers:
        """The same in the language that a reply is in: the call may have changed it with this very
        turn."""
        if language is None or same_language(self.language, language):
            return self
        return replace(self, language=language)

    def hang_up(self) -> Twiml:
        """Close the line."""
        return Twiml(self.language).hangup()


MOST_PHRASES: Final = 500
MOST_CHARS: Final = 100
"""What the carrier takes: phrases, and characters of each."""


@cache
def hints(site: Site | None, language: str) -> str:
    """Return the phrases for `site` and `language`, with commas between them."""
    places = [] if site is None else [site.lift, *site.address.split(",")]
    phrases = (" ".join(each.replace(",", " ").split()) for each in (*places, *_dangers(language)))
    fitting = [each for each in dict.fromkeys(phrases) if 0 < len(each) <= MOST_CHARS]
    return ",".join(fitting[:MOST_PHRASES])


def prepare_hints() -> None:
    """Read the procedures now, so that no caller waits for them."""
    _library()


def _dangers(language: str) -> tuple[str, ...]:
    fronts = (document.front for document in _library().documents.values())
    cues = (front.cues for front in fronts if front.urgency == "P1")
    return tuple(cue for each in cues for cue in each.get(primary_language(language), ()))


@cache
def _library() -> SopLibrary:
    return SopLibrary.load()
