"""The caller's line by webhooks: it speaks, waits, is put through, ends.

Every request is answered from its address, the record and nothing else, within the time in which a
caller can bear silence. What the record says comes first: a human on the line, the end of the call.
"""

from __future__ import annotations

import asyncio

from callflow import tracing
from callflow.errors import CallEnded, StoreError, StoreUnavailable, UnknownCall
from callflow.store.replies import CallStatus, ExpectedReply, ReplyProgress
from callflow.store.result import Result, UtteranceStored
from callflow.twilio.twiml import Twiml
from callflow.web import by_webhook
from callflow.web.addresses import Flight, Saying
from callflow.web.answers import Answers
from callflow.web.ending import ended
from callflow.web.hook import MAX_TURN, Hook, Said
from callflow.web.party import ASKED_WITHIN_S, DUE_S, PHRASES, Party, is_lost, now_ms

REPEATED_WAIT_S = 0.3
"""For the reply, where the carrier asks again: the caller has waited for the first answer."""

WAITING_MOST = 3
"""Requests of one call that wait here for its reply: the carrier sends one, and another where it
takes the first for lost. More of them are a storm, and each is answered soon."""

OUTAGE_RETRY_S = 0.25


async def go_on(party: Party, hook: Hook, *, fresh: str | None = None) -> Twiml:
    """Go on with a call wherever its record stands.

    `fresh`: what to say where nobody has spoken yet.
    """
    try:
        standing = await party.look(hook.call_sid)
    except StoreError:
        # Which turn is the next nobody can tell: words taken for another turn would be lost.
        return party.answers(hook).again("still_here")
    answers = party.answers(hook, standing)
    if standing is None:
        return answers.listen(1, fresh or answers.phrase("still_here"))
    if (settled := settle(party, hook, standing)) is not None:
        return settled
    told = hook.number("told", MAX_TURN)
    if (phrase := await by_webhook.fetched(party, hook, standing)) is not None:
        return phrase
    if standing.heard > standing.answered:
        return answers.hold(standing.heard, 0, "still_here")
    if standing.answered > told:
        # Answered while the carrier was fetching the caller: what it was told then came to nothing.
        return Twiml(answers.language).redirect(party.addresses.wait(standing.answered, 0))
    if "p" in hook.query:
        return answers.listen(standing.heard + 1, answers.phrase("listening"))
    if standing.heard == 0 and fresh is not None:
        return answers.listen(1, fresh)
    return answers.listen(standing.heard + 1, answers.phrases("still_here", "go_on"))


def settle(party: Party, hook: Hook, standing: CallStatus) -> Twiml | None:
    """The answer where the conversation with us is over: the line is closed, a human is on it."""
    answers = party.answers(hook, standing)
    if standing.outcome is not None:
        return answers.hang_up()
    if standing.with_human:
        return answers.conference(hook.call_sid, standing.heard + 1)
    return None


async def turn(party: Party, hook: Hook) -> Twiml:
    """The caller has spoken: store it, wake a worker, wait for the reply."""
    number = hook.turn()
    # The address of a turn is given with the reply to the one before, or where nothing is owed.
    return await _answer(party, hook, number, hook.said(), since_ms=None, told=number - 1)


async def wait(party: Party, hook: Hook) -> Twiml:
    """The caller has heard a holding phrase: store what is in flight, and go on waiting."""
    number, phrases = hook.turn(), hook.number("k", 0)
    flight = Flight.of(hook)
    if flight is not None:
        return await _answer(party, hook, number, flight.said, flight.since_ms, phrases)
    sid = hook.call_sid
    came_at = asyncio.get_running_loop().time()
    with party.replies.expect(sid, number) as expected:
        try:
            known = await party.read(sid, number)
        except UnknownCall:
            return await _lost(party, hook, number)
        except StoreError:
            # Stored it was; only its reply cannot be read.
            return await _holding(party, hook, number, phrases, None)
        if is_lost(known, number):
            return await _lost(party, hook, number)
        phrase = await by_webhook.waiting(party, hook, known.status, number, phrases)
        if phrase is not None:
            return phrase
        spent_s = asyncio.get_running_loop().time() - came_at
        reply = known if known.done or known.over else await _wait(party, hook, expected, spent_s)
    return await _told(party, hook, number, phrases, reply)


async def in_flight(party: Party, hook: Hook, number: int, flight: Flight | None) -> Twiml:
    """A relay socket could not store what was said: from here on it rides in the address."""
    if flight is None or not (flight.said.text or flight.said.digits):
        return await go_on(party, hook)
    return await _answer(party, hook, number, flight.said, flight.since_ms)


async def _lost(party: Party, hook: Hook, number: int) -> Twiml:
    """A failover took a turn that we had acknowledged, and its address does not carry it: ask for
    it again."""
    try:
        async with asyncio.timeout(ASKED_WITHIN_S):
            await party.lost(hook.call_sid, number, hook)
    except CallEnded:
        return party.answers(hook).hang_up()
    except (StoreError, TimeoutError):
        return await _holding(party, hook, number, 0, None)
    standing = await party.standing(hook.call_sid)
    answers = party.answers(hook, standing)
    return answers.listen(number + 1, answers.phrase("say_again"))


async def _answer(
    party: Party,
    hook: Hook,
    number: int,
    said: Said,
    since_ms: int | None,
    phrases: int = 0,
    told: int = 0,
) -> Twiml:
    """Store what was said in turn `number` and wait for its reply.

    `told`: the last turn whose reply the caller has been given for sure.
    """
    sid = hook.call_sid
    came_at = asyncio.get_running_loop().time()
    if since_ms is not None and phrases == 0:
        # Spoken into a socket that could not store it: nothing was heard since then.
        came_at -= min(max(0, now_ms() - since_ms) / 1000, party.settings.reply_wait_s)
    with party.replies.expect(sid, number) as expected:
        try:
            patiently = since_ms is not None
            heard = await _stored(party, hook, number, said, told, came_at, patiently=patiently)
        except CallEnded:
            return party.answers(hook).hang_up()
        except StoreError:
            flight = Flight(said, since_ms or now_ms())
            return await _holding(party, hook, number, phrases, flight)
        if hook.line_closed:
            return await ended(party, hook)
        if heard.phrases:
            standing = await party.standing(sid, DUE_S)
            phrase = await by_webhook.waiting(party, hook, standing, number, phrases)
            if phrase is not None:
                return phrase
        # A turn that was stored before may have been answered before we listened.
        spent_s = asyncio.get_running_loop().time() - came_at
        reply = await _wait(party, hook, expected, spent_s, look_first=heard.result is Result.AGAIN)
    return await _told(party, hook, number, phrases, reply, said)


async def _stored(
    party: Party, hook: Hook, number: int, said: Said, told: int, came_at: float, *, patiently: bool
) -> UtteranceStored:
    """Store it; `patiently`: try for as long as the caller can wait, the server may come back."""
    now = asyncio.get_running_loop().time
    give_up = came_at + party.settings.reply_wait_s
    try:
        async with asyncio.timeout_at(max(give_up, came_at + ASKED_WITHIN_S, now() + DUE_S)):
            while True:
                try:
                    heard, _ = await party.hear(hook.call_sid, number, said, hook, told=told)
                    if patiently and heard.result is Result.AGAIN:
                        await party.desk.ask(party.intake.wake_again, hook.call_sid)
                    return heard
                except StoreError:
                    if not patiently or now() > give_up:
                        raise
                await asyncio.sleep(OUTAGE_RETRY_S)
    except TimeoutError as error:
        # It may be stored yet: whoever asks again is told that it was.
        raise StoreUnavailable(party.desk.where, "it did not answer in time") from error


async def _wait(
    party: Party,
    hook: Hook,
    expected: ExpectedReply,
    spent_s: float = 0.0,
    *,
    look_first: bool = True,
) -> ReplyProgress | None:
    """The reply, or what ended the call; None when the caller must hear something first."""
    again = hook.repeated or party.replies.waiting(hook.call_sid) > WAITING_MOST
    within_s = REPEATED_WAIT_S if again else party.settings.reply_wait_s
    try:
        return await expected.wait(max(0.05, within_s - spent_s), look_first=look_first)
    except (StoreError, UnknownCall):
        return None


async def _told(
    party: Party,
    hook: Hook,
    number: int,
    phrases: int,
    reply: ReplyProgress | None,
    said: Said | None = None,
) -> Twiml:
    if reply is None:
        return await _holding(party, hook, number, phrases, None)
    standing = reply.status
    answers = party.answers(hook, standing)
    if standing is not None and (settled := settle(party, hook, standing)) is not None:
        return settled
    if reply.done:
        if not await _sure(party, hook, number, reply):
            return await _holding(party, hook, number, phrases, None)
        answers = party.answers_in(answers, reply.lang)
        # Whoever asked for a person hears at once that one is being rung.
        asked = said is not None and said.wants_human is not None and party.can_ring
        first = f"{answers.phrase('getting_person')} " if asked else ""
        with tracing.span("speak"):
            return await _said(party, hook, answers, number, reply.text, first)
    return await _until_a_human_comes(party, hook, number, phrases, standing)


async def _sure(party: Party, hook: Hook, number: int, reply: ReplyProgress) -> bool:
    """False where a failover may take the reply, or has: it is not spoken then, and comes again."""
    try:
        async with asyncio.timeout(max(DUE_S, party.settings.replica_wait_s)):
            return await party.may_say(hook.call_sid, number, reply.text)
    except (StoreError, UnknownCall, TimeoutError):
        return False


async def _said(
    party: Party, hook: Hook, answers: Answers, number: int, text: str, first: str
) -> Twiml:
    """Say the reply to `number`: what a relay socket that has gone could not say of it."""
    if answers.voice != "relay":
        return answers.listen(number + 1, first + text)
    try:
        record = await party.soon(party.snapshots.read, hook.call_sid)
        since = len(await party.heard_of(record)) if record.answered == number else 0
        sent_at = 0 if record.sent is None else record.sent.at
    except (StoreError, UnknownCall):
        since = sent_at = 0
    saying = Saying(number, since, sent_at)
    return answers.listen(number + 1, first + text[since:], saying=saying)


async def _until_a_human_comes(
    party: Party, hook: Hook, number: int, phrases: int, standing: CallStatus | None
) -> Twiml:
    """The agent is silent for good, and humans are being rung: the caller hears that they are. When
    a whole round of the ladder has passed, the agent listens again, and it goes on ringing."""
    sid = hook.call_sid
    answers = party.answers(hook, standing)
    alert = None if standing is None else standing.alert
    if alert is None or alert.state == "nobody" or alert.round > 1:
        try:
            resume = party.intake.store.handovers.resume
            await party.soon(resume, sid, "nobody has picked up", over=False)
        except StoreError:
            return answers.hold(number, phrases, "still_here")
        return answers.listen(number + 1, answers.phrase("nobody_yet"))
    with party.replies.watch(sid) as watched:
        try:
            await party.desk.begin(party.ringing.ring, sid)
            changed = await watched.change(party.settings.reply_wait_s if phrases else 0.0)
        except (StoreError, UnknownCall):
            return answers.hold(number, phrases, "still_here")
    if (settled := settle(party, hook, changed)) is not None:
        return settled
    return answers.hold(number, phrases, "getting_person" if phrases % 2 == 0 else "still_here")


async def _holding(
    party: Party, hook: Hook, number: int, phrases: int, flight: Flight | None
) -> Twiml:
    """No reply yet: the caller must hear something. After the second phrase a human is rung."""
    standing = None if flight is not None else await party.standing(hook.call_sid, DUE_S)
    answers = party.answers(hook, standing)
    if flight is not None and now_ms() - flight.since_ms >= _outage_ms(party):
        site = party.site_of(hook)
        if site is not None:
            return answers.dial(site, 0, number, flight)
    if phrases < PHRASES:
        return answers.hold(number, phrases, f"hold_{phrases + 1}", flight)
    ringing = flight is None and await party.fetch_soon(hook.call_sid)
    name = "getting_person" if ringing and phrases % 2 == 0 else f"hold_{phrases % 2 + 1}"
    return answers.hold(number, phrases, name, flight)


def _outage_ms(party: Party) -> float:
    return party.settings.outage_transfer_s * 1000
