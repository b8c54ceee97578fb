"""The addresses that we give to the carrier: everything that a later request must know is in them.

Nothing of a call is kept here, so the next request may reach any web process. The carrier signs the
whole address, so nobody else can have written what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from callflow.call.utterance import MAX_UTTERANCE_CHARS
from callflow.twilio.urls import callback_url, socket_url
from callflow.web.hook import Hook, Said, counted


@dataclass(frozen=True, slots=True)
class Addresses:
    """`base`: where the carrier reaches us, without a slash at its end. `heard`: phrases of people
    that the caller has heard once one of these addresses is asked, by their ids."""

    base: str
    heard: tuple[str, ...] = ()

    def to(self, path: str, **query: str | int | None) -> str:
        """An address of ours; values that are None are left out.

        How long the carrier waits and how often it asks again is in the part behind the `#`, which
        it takes off before it signs.
        """
        given = {name: str(value) for name, value in query.items() if value is not None}
        if self.heard:
            given["p"] = ".".join(self.heard)
        return callback_url(self.base, path, given)

    def turn(self, turn: int) -> str:
        """Where what the caller says in `turn` goes."""
        return self.to("/voice/turn", n=turn)

    def wait(self, turn: int, phrases: int, flight: Flight | None = None) -> str:
        """Where the caller goes on waiting for the reply to `turn` after so many phrases."""
        return self.to("/voice/wait", n=turn, k=phrases, **_query(flight))

    def transfer_ended(
        self,
        turn: int,
        rung: int | None = None,
        flight: Flight | None = None,
        why: str | None = None,
    ) -> str:
        """Where the caller comes when the human is gone; `rung`: of a ladder without the store,
        `why`: the reason for it."""
        return self.to("/voice/transfer-ended", n=turn, rung=rung, why=why, **_query(flight))

    def relay_ended(self, failures: int, saying: Saying | None) -> str:
        """Where the caller comes when the socket is gone, which has failed so often in a row.

        `saying`: what it was to begin with, in case that it never did.
        """
        begun = {} if saying is None else saying.query
        return self.to("/voice/relay-ended", k=failures, **begun)

    @property
    def relay(self) -> str:
        """The socket."""
        return socket_url(self.base, "/voice/relay")


@dataclass(frozen=True, slots=True)
class Saying:
    """The reply to `turn`, from the letter `since` on, is said as the first thing on a socket.

    `after`: when a socket was last sent anything, ms; one that has begun since is another one.
    """

    turn: int
    since: int = 0
    after: int = 0

    @classmethod
    def of(cls, hook: Hook) -> Saying | None:
        """What the socket of this request was to begin with."""
        if "g" not in hook.query:
            return None
        after = counted(hook.query.get("a", "")) or 0
        return cls(hook.number("g"), hook.number("h", 0), after)

    @property
    def parameters(self) -> dict[str, str]:
        """The same for the socket itself: they come back in its first frame."""
        return {"saying": str(self.turn), "since": str(self.since)}

    @property
    def query(self) -> dict[str, str | int | None]:
        """The same as a part of an address."""
        return {"g": self.turn, "h": self.since, "a": self.after}


@dataclass(frozen=True, slots=True)
class Flight:
    """What the caller said while the server could not be reached: it rides in the address, so that
    no process holds it. `since_ms`: when the outage was met, ms since 1970."""

    said: Said
    since_ms: int

    @property
    def handoff(self) -> dict[str, str]:
        """The same for a relay session that ends: the carrier gives it back to its action."""
        given = {"since": str(self.since_ms), "u": self.said.text, "d": self.said.digits or ""}
        return given | {"c": "1" if self.said.understood else "0"}

    @classmethod
    def of(cls, hook: Hook) -> Flight | None:
        """What rides in the address of this request, if anything does."""
        if "since" not in hook.query:
            return None
        since = hook.query["since"]
        said = Said(
            hook.query.get("u", "")[:MAX_UTTERANCE_CHARS],
            hook.query.get("d") or None,
            hook.query.get("c") != "0",
        )
        return cls(said, counted(since) or 0)


def _query(flight: Flight | None) -> dict[str, str | int | None]:
    if flight is None:
        return {}
    return {
        "since": flight.since_ms,
        "u": flight.said.text or None,
        "d": flight.said.digits,
        "c": None if flight.said.understood else 0,
    }
