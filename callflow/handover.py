"""Hands calls over: to the next worker while there is hope, then to a human, rung by rung.

A turn that kills its workers must neither loop nor be discarded. How many workers it may cost
stands in `call/limits.py`, who is rung next in `call/ladder.py`.

Any process may take the next step of the ladder: what is to be done stands in the record with its
time, each step is a compare-and-set, and a step that was begun and not ended is taken again. The
worst that the death of a process does is that a telephone rings five seconds later, or twice.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum

from callflow.call import ladder
from callflow.call.limits import Escalation, escalation
from callflow.call.record import HumanAlert
from callflow.call.state import CallState
from callflow.errors import UnknownCall
from callflow.messages import wake, wake_ring
from callflow.sites.directory import Sites
from callflow.sites.site import Human, Site
from callflow.store.calls import CallStore
from callflow.store.handovers import AlertStatus, AlertStep, Handovers
from callflow.store.result import Lease, Result
from callflow.twilio.rest import CallIsOver, Telephone, TelephoneError
from callflow.twilio.urls import ANSWER, AT_ONCE, Patience, callback_url

POISON = "poison"
"""Why a human is rung: the turn has cost too many workers."""

OWN_RING_S = 25
"""For so long a person is rung who has asked for the call: they have their telephone at hand."""


def hand_on(store: CallStore, call_sid: str, attempts: int) -> Escalation:
    """Give a released call to the next worker, or to a human when it has cost too many; to whom."""
    whom = escalation(attempts)
    if whom is Escalation.HUMAN:
        hand_to_human(store, call_sid, POISON)
    else:
        # A lost message is made good after the owed deadline that the release has set.
        wake(call_sid, takeover=True)
    return whom


def hand_to_human(
    store: CallStore, call_sid: str, reason: str, *, lease: Lease | None = None
) -> Result:
    """Pass the call to a human and have one rung. Asked twice, the first reason stands.

    What was owed is not: whoever picks up answers it, with the conversation before them.
    """
    result = store.handovers.transfer(call_sid, reason, lease=lease)
    if result is Result.OK:
        # Lost, the next sweep finds that somebody is to be rung.
        wake_ring(call_sid)
    return result


class RingResult(StrEnum):
    """What became of a step on the ladder."""

    RINGING = "ringing"
    FAILED = "failed"
    """The carrier would not ring the number: the ladder goes on in a moment."""
    NOTHING = "nothing"
    """Nobody is to be rung now: it is too early, somebody else did it, or the call is over."""
    NOBODY = "nobody"
    """There is no number to ring, or no telephone to ring it with."""


class Fetched(StrEnum):
    """What became of asking the carrier for a caller's line."""

    OK = "ok"
    FAILED = "failed"
    OVER = "over"
    """The line is closed."""
    IMPOSSIBLE = "impossible"
    """No telephone is configured."""


def recover_line(store: CallStore, ringing: Ringing, call_sid: str) -> Fetched:
    """Bring a caller to another web process: theirs is frozen, cut off or stalled.

    What it was saying goes on where it can have been heard to. Where the carrier could not be asked
    the next sweep has it asked again.
    """
    store.handovers.add_journal_line(call_sid, "line_lost", "its web process has fallen silent")
    # By webhooks from here on: another socket might reach the same process.
    fetched = ringing.fetch(call_sid, path="/voice/relay-ended", by_webhooks=True)
    if fetched is not Fetched.FAILED:
        store.lines.release(call_sid)
    return fetched


@dataclass(frozen=True, slots=True)
class Ringing:
    """Rings humans for calls; built once per process by `bootstrap`.

    `telephone` is None where no carrier is configured, `public_url` where the carrier cannot reach
    us: nobody is rung then, and the journal says so.
    """

    handovers: Handovers
    sites: Sites
    telephone: Telephone | None
    public_url: str | None

    def ring(self, call_sid: str) -> RingResult:
        """Take the step that is due, if any. Asked twice at once, one number is rung once."""
        try:
            status, now_ms = self.handovers.read(call_sid)
        except UnknownCall:
            return RingResult.NOTHING
        alert, due = status.alert, status.alert_due
        over = status.call_state is CallState.COMPLETE
        if alert is None or due is None or now_ms < due or over:
            return RingResult.NOTHING
        site = self._site(status)
        if site is None or self.telephone is None or self.public_url is None:
            reason = "the call has no site" if site is None else "no telephone is configured"
            step = AlertStep(ladder.nobody(alert), None, "nobody_to_ring", reason)
            self.handovers.move(call_sid, alert, step)
            return RingResult.NOBODY
        if alert.state == "ringing":
            # Nothing more was heard of this ring.
            then = ladder.again(alert)
            if alert.leg is not None:
                then = ladder.missed(alert, len(_contacts(alert, site)))
            step = AlertStep(then, 0, "not_answered", "no word")
            if self.handovers.move(call_sid, alert, step) is not Result.OK:
                return RingResult.NOTHING
            alert = then
        return self._call(call_sid, alert, site, self.telephone)

    def _call(
        self, call_sid: str, alert: HumanAlert, site: Site, telephone: Telephone
    ) -> RingResult:
        contacts = _contacts(alert, site)
        human = contacts[min(alert.contact_index, len(contacts) - 1)]
        attempt_id = secrets.token_hex(6)
        begun = ladder.ringing(alert, attempt_id, human.name)
        step = AlertStep(begun, ladder.CONFIRM_MS, "ringing", alert.reason)
        if self.handovers.move(call_sid, alert, step) is not Result.OK:
            return RingResult.NOTHING
        query = {"call": call_sid, "ring": attempt_id}
        try:
            leg = telephone.ring(
                human.number,
                site.number_to_show,
                self._url("/voice/human", query),
                self._url("/voice/leg-status", query),
                human.ring_s,
            )
        except TelephoneError as error:
            then = ladder.missed(begun, len(contacts))
            step = AlertStep(then, ladder.FAILED_PAUSE_MS, "ring_failed", error.reason)
            self.handovers.move(call_sid, begun, step)
            return RingResult.FAILED
        due_ms = human.ring_s * 1000 + ladder.GRACE_MS
        step = AlertStep(ladder.confirmed(begun, leg), due_ms, "ring_confirmed")
        self.handovers.move(call_sid, begun, step)
        return RingResult.RINGING

    def not_answered(self, call_sid: str, attempt_id: str, why: str) -> RingResult:
        """The carrier says that nobody took this ring. Late or repeated word changes nothing."""
        alert, site = self._alert(call_sid)
        if alert is None or site is None:
            return RingResult.NOTHING
        if alert.state != "ringing" or alert.attempt_id != attempt_id:
            return RingResult.NOTHING
        then = ladder.missed(alert, len(_contacts(alert, site)))
        pause_ms = ladder.ROUND_PAUSE_MS if then.round > alert.round else 0
        step = AlertStep(then, pause_ms, "not_answered", why)
        if self.handovers.move(call_sid, alert, step) is not Result.OK or pause_ms:
            return RingResult.NOTHING
        return self.ring(call_sid)

    def accept(self, call_sid: str, attempt_id: str, leg: str) -> Result:
        """The human on `leg` has pressed the key: the call is theirs, and the caller is fetched.

        Whoever comes second joins the same conference. Pressed twice, nothing changes.
        """
        try:
            status, _ = self.handovers.read(call_sid)
        except UnknownCall:
            return Result.UNKNOWN
        alert = status.alert or ladder.fresh("asked")
        if alert.state == "accepted" and status.handling == "human":
            return Result.AGAIN
        if alert.attempt_id != attempt_id:
            # Somebody has asked for the call since this one was rung, or another is being rung.
            alert = alert.model_copy(update={"attempt_id": attempt_id, "who": None})
        result = self.handovers.accept(call_sid, ladder.accepted(alert, leg))
        if result in (Result.OK, Result.AGAIN):
            self.fetch(call_sid)
        return result

    def fetch(
        self,
        call_sid: str,
        *,
        told: int | None = None,
        path: str = "/voice/join",
        by_webhooks: bool = False,
    ) -> Fetched:
        """Bring the caller into the conference at once, or to a phrase that a person has for them,
        or wherever `path` leads.

        Lost or refused, the caller comes with their next word or their next silence: every answer
        to their line looks into the record first. `told`: the last turn whose reply they have heard
        for sure.
        """
        if self.telephone is None or self.public_url is None:
            return Fetched.IMPOSSIBLE
        query = {} if told is None else {"told": str(told)}
        query |= {"w": "1"} if by_webhooks else {}
        try:
            self.telephone.redirect(call_sid, self._url(path, query, AT_ONCE))
        except CallIsOver:
            return Fetched.OVER
        except TelephoneError as error:
            self.handovers.add_journal_line(call_sid, "fetch_failed", error.reason)
            return Fetched.FAILED
        return Fetched.OK

    def left(self, call_sid: str) -> Result:
        """The human has left the conference: the agent has the call again."""
        return self.handovers.resume(call_sid, "the human has left", over=True)

    def call_off(self, call_sid: str) -> None:
        """The caller is gone: stop ringing for them. A human who picks up is told anyway."""
        self.give_up(self._alert(call_sid)[0])

    def give_up(self, alert: HumanAlert | None) -> None:
        """Nobody is rung by this alert any more: let their telephone be quiet."""
        if alert is None or alert.state != "ringing" or alert.leg is None:
            return
        if self.telephone is not None:
            with suppress(TelephoneError):  # Its ring time ends it; who picks up hears the rest.
                self.telephone.hang_up(alert.leg)

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

    def _alert(self, call_sid: str) -> tuple[HumanAlert | None, Site | None]:
        try:
            status, _ = self.handovers.read(call_sid)
        except UnknownCall:
            return None, None
        return status.alert, self._site(status)

    def _site(self, status: AlertStatus) -> Site | None:
        return None if status.site is None else self.sites.get(status.site)

    def _url(self, path: str, query: Mapping[str, str], patience: Patience = ANSWER) -> str:
        return callback_url(self.public_url or "", path, query, patience)


def _contacts(alert: HumanAlert, site: Site) -> tuple[Human, ...]:
    """Who is rung, in order: a person who has asked for the call first."""
    if alert.to is None:
        return site.humans
    # Not checked here: the telephone refuses what may not be dialled, and the next one is rung.
    name = alert.asked_by or alert.to
    return Human.model_construct(number=alert.to, name=name, ring_s=OWN_RING_S), *site.humans
