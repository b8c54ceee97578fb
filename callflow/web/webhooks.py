"""Answers the webhooks of one turn: the caller has spoken, and waits for the reply.

Every request is answered from its address, the record and nothing else, within the time in which a
caller can bear silence. What the record says comes first: a human on the line, the end of the call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from callflow import tracing
from callflow.call.record import ReplyProgress
from callflow.errors import CallEnded, StoreError, UnknownCall
from callflow.store.replies import ExpectedReply
from callflow.store.result import Result, UtteranceStored
from callflow.twilio.twiml import Twiml
from callflow.web.answers import OpeningReply, UnstoredInput
from callflow.web.call_access import CallAccess
from callflow.web.handoffs import fetch_human_soon, wait_for_human
from callflow.web.line_webhooks import end_closed, go_on
from callflow.web.operator_messages import say_while_waiting
from callflow.web.web_context import ASKED_WITHIN_S, DUE_S, PHRASES, now_ms
from callflow.web.webhook import CallerInput

REPEATED_WAIT_S = 0.3
"""For the reply, where the carrier asks again: the caller has waited for the first answer."""

WAITING_MOST = 3
"""Requests of one call that wait here for its reply: the carrier sends one, and another where it
takes the first for lost. More of them are a storm, and each is answered soon."""

OUTAGE_RETRY_S = 0.25


@dataclass(frozen=True, slots=True)
class PendingTurn:
    """A turn whose reply the caller waits for.

    `phrases`: holding phrases that they have heard meanwhile. `said`: what they said, where this
    request carries it; `since_ms`: since when that could not be stored, ms since 1970. `told`: the
    last turn whose reply they have been given for sure.
    """

    number: int
    phrases: int = 0
    said: CallerInput | None = None
    since_ms: int | None = None
    told: int = 0


async def turn(call: CallAccess) -> Twiml:
    """The caller has spoken: store it, wake a worker, wait for the reply."""
    number, said = call.request.turn(), call.request.said()
    # The address of a turn is given with the reply to the one before, or where nothing is owed.
    return await _take(call, PendingTurn(number, said=said, told=number - 1))


async def wait(call: CallAccess) -> Twiml:
    """The caller has heard a holding phrase: store what is in flight, and go on waiting."""
    number, phrases = call.request.turn(), call.request.number("k", 0)
    if (unstored := UnstoredInput.of(call.request)) is not None:
        return await _take(call, PendingTurn(number, phrases, unstored.said, unstored.since_ms))
    return await _wait_on(call, PendingTurn(number, phrases))


async def take_unstored(call: CallAccess, number: int, unstored: UnstoredInput | None) -> Twiml:
    """A relay socket could not store what was said: from here on it rides in the address."""
    if unstored is None or not (unstored.said.text or unstored.said.digits):
        return await go_on(call)
    return await _take(call, PendingTurn(number, 0, unstored.said, unstored.since_ms))


async def _take(call: CallAccess, turn: PendingTurn) -> Twiml:
    """Store what was said and wait for its reply."""
    said = turn.said or CallerInput()
    came_at = asyncio.get_running_loop().time()
    if turn.since_ms is not None and turn.phrases == 0:
        # Spoken into a socket that could not store it: nothing was heard since then.
        silent_s = max(0, now_ms() - turn.since_ms) / 1000
        came_at -= min(silent_s, call.web.settings.reply_wait_s)
    with call.web.replies.expect(call.call_sid, turn.number) as expected:
        try:
            stored = await _store(call, turn, said, came_at)
        except CallEnded:
            return call.answers().hang_up()
        except StoreError:
            return await _hold(call, turn, UnstoredInput(said, turn.since_ms or now_ms()))
        if call.request.line_closed:
            return await end_closed(call)
        status = await call.status_if_known(DUE_S) if stored.phrases else None
        phrase = await say_while_waiting(call, status, turn.number, turn.phrases)
        if phrase is not None:
            return phrase
        # A turn that was stored before may have been answered before we listened.
        again = stored.result is Result.AGAIN
        reply = await _wait_for(call, expected, came_at, look_first=again)
    return await _answer(call, turn, reply)


async def _wait_on(call: CallAccess, turn: PendingTurn) -> Twiml:
    """Wait for the reply to what was stored before."""
    came_at = asyncio.get_running_loop().time()
    with call.web.replies.expect(call.call_sid, turn.number) as expected:
        try:
            known = await call.progress(turn.number)
        except UnknownCall:
            return await _ask_again(call, turn)
        except StoreError:
            # Stored it was; only its reply cannot be read.
            return await _hold(call, turn)
        if known.is_lost(turn.number):
            return await _ask_again(call, turn)
        phrase = await say_while_waiting(call, known.status, turn.number, turn.phrases)
        if phrase is not None:
            return phrase
        ready = known.done or known.over
        reply = known if ready else await _wait_for(call, expected, came_at)
    return await _answer(call, turn, reply)


async def _ask_again(call: CallAccess, turn: PendingTurn) -> Twiml:
    """A failover took a turn that we had acknowledged, and its address does not carry it: ask for
    it again."""
    try:
        async with asyncio.timeout(ASKED_WITHIN_S):
            await call.admit_loss(turn.number)
    except CallEnded:
        return call.answers().hang_up()
    except (StoreError, TimeoutError):
        return await _hold(call, PendingTurn(turn.number))
    answers = call.answers(await call.status_if_known())
    return answers.listen(turn.number + 1, answers.phrase("say_again"))


async def _store(
    call: CallAccess, turn: PendingTurn, said: CallerInput, came_at: float
) -> UtteranceStored:
    """Store it. What could not be stored before is tried for as long as the caller can wait: the
    server may come back. Raises CallEnded and StoreError."""
    patiently = turn.since_ms is not None
    now = asyncio.get_running_loop().time
    give_up = came_at + call.web.settings.reply_wait_s
    try:
        async with asyncio.timeout_at(max(give_up, came_at + ASKED_WITHIN_S, now() + DUE_S)):
            while True:
                try:
                    stored, _ = await call.record_utterance(turn.number, said, told=turn.told)
                    if patiently and stored.result is Result.AGAIN:
                        await call.web.executor.run(call.web.intake.wake_again, call.call_sid)
                    return stored
                except StoreError:
                    if not patiently or now() > give_up:
                        raise
                await asyncio.sleep(OUTAGE_RETRY_S)
    except TimeoutError as error:
        # It may be stored yet: whoever asks again is told that it was.
        raise call.web.executor.late() from error


async def _wait_for(
    call: CallAccess, expected: ExpectedReply, came_at: float, *, look_first: bool = True
) -> ReplyProgress | None:
    """The reply, or what ended the call; None when the caller must hear something first."""
    spent_s = asyncio.get_running_loop().time() - came_at
    storm = call.web.replies.waiting(call.call_sid) > WAITING_MOST
    within_s = call.web.settings.reply_wait_s
    if call.request.repeated or storm:
        within_s = REPEATED_WAIT_S
    try:
        return await expected.wait(max(0.05, within_s - spent_s), look_first=look_first)
    except (StoreError, UnknownCall):
        return None


async def _answer(call: CallAccess, turn: PendingTurn, reply: ReplyProgress | None) -> Twiml:
    """Say the reply, or what to do without one."""
    if reply is None:
        return await _hold(call, turn)
    status = reply.status
    if status is not None and (over := call.conclude(status)) is not None:
        return over
    if not reply.done:
        return await wait_for_human(call, turn.number, turn.phrases, status)
    if not await _may_say(call, turn, reply):
        return await _hold(call, turn)
    answers = call.answers(status).in_language(reply.lang)
    # Whoever asked for a person hears at once that one is being rung.
    wants = turn.said is not None and turn.said.wants_human is not None
    first = f"{answers.phrase('getting_person')} " if wants and call.web.can_ring else ""
    with tracing.span("speak"):
        if answers.voice != "relay":
            return answers.listen(turn.number + 1, first + reply.text)
        opening = await _opening_reply(call, turn.number)
        text = first + reply.text[opening.since :]
        return answers.listen(turn.number + 1, text, reply=opening)


async def _may_say(call: CallAccess, turn: PendingTurn, reply: ReplyProgress) -> bool:
    """False where a failover may take the reply, or has: it is not spoken then, and comes again."""
    try:
        async with asyncio.timeout(max(DUE_S, call.web.settings.replica_wait_s)):
            return await call.may_say(turn.number, reply.text)
    except (StoreError, UnknownCall, TimeoutError):
        return False


async def _opening_reply(call: CallAccess, number: int) -> OpeningReply:
    """What a relay socket that has gone could not say of the reply to `number`."""
    try:
        record = await call.web.run_soon(call.web.reader.read, call.call_sid)
        since = len(await call.heard_part(record)) if record.answered == number else 0
        sent_at = 0 if record.sent is None else record.sent.at
    except (StoreError, UnknownCall):
        since = sent_at = 0
    return OpeningReply(number, since, sent_at)


async def _hold(
    call: CallAccess, turn: PendingTurn, unstored: UnstoredInput | None = None
) -> Twiml:
    """No reply yet: the caller must hear something. After the second phrase a human is rung, and
    after an outage of some seconds the carrier itself rings one."""
    number, phrases = turn.number, turn.phrases
    if unstored is not None:
        answers = call.answers()
        out_ms, site = now_ms() - unstored.since_ms, call.site
        if site is not None and out_ms >= call.web.settings.outage_transfer_s * 1000:
            return answers.dial(site, 0, number, unstored)
    else:
        answers = call.answers(await call.status_if_known(DUE_S))
    if phrases < PHRASES:
        return answers.hold(number, phrases, f"hold_{phrases + 1}", unstored)
    ringing = unstored is None and await fetch_human_soon(call)
    name = "getting_person" if ringing and phrases % 2 == 0 else f"hold_{phrases % 2 + 1}"
    return answers.hold(number, phrases, name, unstored)
