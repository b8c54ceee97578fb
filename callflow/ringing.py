"""Rings humans for a call, rung by rung of its site's ladder, until one of them takes it.

Any process may take the next step: what is to be done stands in the record with its time, each step
is a compare-and-set, and a step that was begun and not ended is taken again. The worst that the
death of a process does is that a telephone rings five seconds later, or twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import urlencode

from callflow.call import ladder
from callflow.call.record import Alert
from callflow.call.state import CallState
from callflow.errors import UnknownCall
from callflow.sites.directory import Sites
from callflow.sites.site import Human, Site
from callflow.store.handovers import Handovers, Step, Wanted
from callflow.store.outcome import Ladder, Pass, Resume
from callflow.twilio.rest import CallIsOver, Telephone, TelephoneError

OWN_RING_S = 25
"""For so long a person is rung who has asked for the call: they have their telephone at hand."""


class Rung(StrEnum):
    """What became of a step."""

    RINGING = "ringing"
    FAILED = "failed"
    """The carrier would not ring the number: the ladder goes on in a moment."""
    NOTHING = "nothing"
    """Nobody is to be rung now: it is too early, somebody else did it, or the call is over."""
    NOBODY = "nobody"
    """There is no number to ring, or no telephone to ring it with."""


@dataclass(frozen=True, slots=True)
class Ringing:
    """What a process needs to ring humans; built once per process by `bootstrap`.

    `telephone` is None where no carrier is configured, `public_url` where the carrier cannot reach
    us: nobody is rung then, and the journal says so.
    """

    handovers: Handovers
    sites: Sites
    telephone: Telephone | None
    public_url: str | None

    def ring(self, call_sid: str) -> Rung:
        """Take the step that is due, if any. Asked twice at once, one number is rung once."""
        try:
            wanted, now_ms = self.handovers.read(call_sid)
        except UnknownCall:
            return Rung.NOTHING
        alert = wanted.alert
        due = wanted.alert_due
        if alert is None or due is None or now_ms < due or _over(wanted):
            return Rung.NOTHING
        site = self._site(wanted)
        if site is None or self.telephone is None or self.public_url is None:
            reason = "the call has no site" if site is None else "no telephone is configured"
            step = Step(ladder.nobody(alert), None, "nobody_to_ring", reason)
            self.handovers.move(call_sid, alert, step)
            return Rung.NOBODY
        if alert.state == "ringing":
            alert = self._after_silence(call_sid, alert, site)
        return Rung.NOTHING if alert is None else self._call(call_sid, alert, site)

    def _after_silence(self, call_sid: str, alert: Alert, site: Site) -> Alert | None:
        """The alert after a ring of which nothing more was heard; None: another made that step."""
        rungs = len(_humans(alert, site))
        then = ladder.missed(alert, rungs) if alert.leg else ladder.again(alert)
        word = self.handovers.move(call_sid, alert, Step(then, 0, "not_answered", "no word"))
        return then if word is Ladder.MOVED else None

    def _call(self, call_sid: str, alert: Alert, site: Site) -> Rung:
        humans = _humans(alert, site)
        human = humans[min(alert.rung, len(humans) - 1)]
        ring = secrets.token_hex(6)
        begun = ladder.ringing(alert, ring, human.name)
        step = Step(begun, ladder.CONFIRM_MS, "ringing", alert.reason)
        if self.handovers.move(call_sid, alert, step) is not Ladder.MOVED:
            return Rung.NOTHING
        try:
            leg = self._dial(call_sid, ring, human, site)
        except TelephoneError as error:
            then = ladder.missed(begun, len(humans))
            self.handovers.move(
                call_sid, begun, Step(then, ladder.FAILED_PAUSE_MS, "ring_failed", error.reason)
            )
            return Rung.FAILED
        due_ms = human.ring_s * 1000 + ladder.GRACE_MS
        self.handovers.move(
            call_sid, begun, Step(ladder.confirmed(begun, leg), due_ms, "ring_confirmed")
        )
        return Rung.RINGING

    def _dial(self, call_sid: str, ring: str, human: Human, site: Site) -> str:
        assert self.telephone is not None
        return self.telephone.ring(
            human.number,
            site.number_to_show,
            self._url("/voice/human", {"call": call_sid, "ring": ring}),
            self._url("/voice/leg-status", {"call": call_sid, "ring": ring}),
            human.ring_s,
        )

    def not_answered(self, call_sid: str, ring: str, why: str) -> Rung:
        """The carrier says that nobody took this ring. Late or repeated word changes nothing."""
        try:
            wanted, _ = self.handovers.read(call_sid)
        except UnknownCall:
            return Rung.NOTHING
        alert, site = wanted.alert, self._site(wanted)
        if alert is None or site is None or alert.state != "ringing" or alert.ring != ring:
            return Rung.NOTHING
        then = ladder.missed(alert, len(_humans(alert, site)))
        pause_ms = ladder.ROUND_PAUSE_MS if then.round > alert.round else 0
        word = self.handovers.move(call_sid, alert, Step(then, pause_ms, "not_answered", why))
        if word is not Ladder.MOVED or pause_ms:
            return Rung.NOTHING
        return self.ring(call_sid)

    def accept(self, call_sid: str, ring: str, leg: str) -> Pass:
        """The human on `leg` has pressed the key: the call is theirs, and the caller is fetched.

        Whoever comes second joins the same conference. Pressed twice, nothing changes.
        """
        try:
            wanted, _ = self.handovers.read(call_sid)
        except UnknownCall:
            return Pass.UNKNOWN
        alert = wanted.alert or ladder.fresh("asked")
        if alert.state == "accepted" and wanted.handling == "human":
            return Pass.AGAIN
        if alert.ring != ring:
            # Somebody has asked for the call since this one was rung, or another is being rung.
            alert = alert.model_copy(update={"ring": ring, "who": None})
        taken = ladder.accepted(alert, leg)
        word = self.handovers.accept(call_sid, taken)
        if word in (Pass.PASSED, Pass.AGAIN):
            self.fetch(call_sid)
        return word

    def fetch(self, call_sid: str, *, told: int | None = None) -> None:
        """Bring the caller into the conference at once, or to a phrase that a person has for them.

        Lost or refused, the caller comes with their next word or their next silence: every answer
        to their line looks into the record first. `told`: the last turn whose reply they have heard
        for sure.
        """
        if self.telephone is None or self.public_url is None:
            return
        query = {} if told is None else {"told": str(told)}
        try:
            self.telephone.redirect(call_sid, self._url("/voice/join", query))
        except CallIsOver:
            return
        except TelephoneError as error:
            self.handovers.note(call_sid, "fetch_failed", error.reason)

    def left(self, call_sid: str) -> Resume:
        """The human has left the conference: the agent has the call again."""
        return self.handovers.resume(call_sid, "the human has left", over=True)

    def call_off(self, call_sid: str) -> None:
        """The caller is gone: stop ringing for them. A human who picks up is told anyway."""
        try:
            wanted, _ = self.handovers.read(call_sid)
        except UnknownCall:
            return
        alert = wanted.alert
        if alert is None or alert.leg is None or self.telephone is None:
            return
        if alert.state == "ringing":
            try:
                self.telephone.hang_up(alert.leg)
            except TelephoneError:
                """Its ring time ends it, and whoever picks up hears that the caller is gone."""

    def give_up(self, before: Alert | None) -> None:
        """Somebody else is rung instead of whom `before` tells: let their telephone be quiet."""
        if before is None or before.state != "ringing" or before.leg is None:
            return
        if self.telephone is not None:
            with suppress(TelephoneError):  # Who picks up all the same joins the others.
                self.telephone.hang_up(before.leg)

    def hang_up(self, call_sid: str) -> bool:
        """Close the caller's line, whose call is over. False where the carrier could not be asked:
        the next answer to their line closes it."""
        if self.telephone is None:
            return False
        try:
            self.telephone.hang_up(call_sid)
        except CallIsOver:
            """It is closed."""
        except TelephoneError:
            return False
        return True

    def _site(self, wanted: Wanted) -> Site | None:
        return None if wanted.site is None else self.sites.get(wanted.site)

    def _url(self, path: str, query: Mapping[str, str]) -> str:
        asked = f"?{urlencode(query)}" if query else ""
        return f"{self.public_url}{path}{asked}"


def _humans(alert: Alert, site: Site) -> tuple[Human, ...]:
    """Who is rung, in order: a person who has asked for the call first."""
    if alert.to is None:
        return site.humans
    # Not checked here: the telephone refuses what may not be dialled, and the next one is rung.
    name = alert.asked_by or alert.to
    return Human.model_construct(number=alert.to, name=name, ring_s=OWN_RING_S), *site.humans


def _over(wanted: Wanted) -> bool:
    return wanted.call_state is CallState.COMPLETE
