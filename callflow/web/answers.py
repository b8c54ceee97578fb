"""What the carrier is told to do next: a few shapes of TwiML, each a whole answer."""

from __future__ import annotations

from dataclasses import dataclass
from xml.sax.saxutils import escape

from callflow.responder.phrases import generic, greeting
from callflow.responder.sentences import joined
from callflow.sites.site import Site
from callflow.twilio.twiml import Twiml
from callflow.web.addresses import Addresses, Flight, Saying

FAILED_SOCKETS = 2
"""After so many sockets in a row that failed the call goes on by webhooks."""


MOST_SPOKEN_BYTES = 50_000
"""Of XML in one answer: the carrier takes 64 kB, and a quarter of an hour of speech is more than
anybody hears to its end. The record keeps the whole."""


def _fitting(text: str) -> str:
    """As much of `text` as one answer can hold."""
    size = len(escape(text).encode(errors="replace"))
    return text if size <= MOST_SPOKEN_BYTES else text[: len(text) * MOST_SPOKEN_BYTES // size]


def _parameters(text: str, saying: Saying | None) -> dict[str, str]:
    """What a socket is told of what it begins with."""
    begun = {} if saying is None else saying.parameters
    return begun | ({"letters": str(len(text))} if text else {})


@dataclass(frozen=True, slots=True)
class Answers:
    """Words answers for one caller: in `language`, spoken by `voice`."""

    addresses: Addresses
    language: str
    voice: str

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
        self, turn: int, text: str, *, failures: int = 0, saying: Saying | None = None
    ) -> Twiml:
        """Say `text` (which may be empty) and hear what the caller says in `turn`.

        `failures`: sockets in a row that failed; `saying`: the reply that `text` ends with.
        """
        twiml, text = Twiml(self.language), _fitting(text)
        if self.voice == "relay" and failures < FAILED_SOCKETS:
            return twiml.relay(
                self.addresses.relay,
                action=self.addresses.relay_ended(failures, saying),
                greeting=text or None,
                parameters=_parameters(text, saying),
            )
        return twiml.gather(text, action=self.addresses.turn(turn)).redirect(
            self.addresses.turn(turn)
        )

    def hold(self, turn: int, phrases: int, name: str, flight: Flight | None = None) -> Twiml:
        """Say a phrase and go on waiting."""
        said = Twiml(self.language).say(self.phrase(name))
        return said.redirect(self.addresses.wait(turn, phrases + 1, flight))

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
        self, site: Site, rung: int, turn: int, flight: Flight | None, *, why: str | None = None
    ) -> Twiml:
        """Put the caller through to one number of the ladder: needs neither store nor workers.

        `why`: the reason that the human hears, an outage of ours where it is None.
        """
        human = site.humans[rung]
        twiml = Twiml(self.language)
        if rung == 0:
            twiml = twiml.say(self.phrase("getting_person"))
        return twiml.dial(
            human.number,
            action=self.addresses.transfer_ended(turn, rung, flight, why),
            timeout_s=human.ring_s,
            caller_id=site.number_to_show,
            whisper_url=self.addresses.to("/voice/human", out=1, why=why),
        )

    def hang_up(self) -> Twiml:
        """Close the line."""
        return Twiml(self.language).hangup()
