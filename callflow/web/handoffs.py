"""Rings humans for callers, puts them together, and takes callers back when the human has left.

A human's line that is only picked up is nobody yet: an answering machine picks up too. What tells a
human is the key.
"""

from __future__ import annotations

import asyncio

from callflow.call.limits import OVERLOAD
from callflow.call.record import CallStatus
from callflow.call.state import CallState
from callflow.errors import StoreError, UnknownCall
from callflow.responder.phrases import generic, whisper
from callflow.sites.site import Site
from callflow.store.handovers import AlertStatus
from callflow.store.result import Result
from callflow.twilio.twiml import Twiml
from callflow.web.answers import UnstoredInput
from callflow.web.call_access import CallAccess
from callflow.web.line_webhooks import end_closed
from callflow.web.web_context import DUE_S, now_ms
from callflow.web.webhook import TERMINAL, CallerInput, VoiceRequest, parse_number

KEY_TIMEOUT_S = 10

LEFT = "left"
"""In an address: since when, ms, a caller waits whose human has left."""

GIVEN_BACK_WITHIN_S = 2.0
"""For so long the server is waited for before the caller must hear something."""


async def fetch_human(call: CallAccess, reason: str = "no_reply") -> bool:
    """Have a human rung for a caller who got no reply; True when one is being rung."""
    executor, handovers = call.web.executor, call.web.store.handovers
    before = await call.status_if_known()
    try:
        wanted = await executor.run(handovers.want, call.call_sid, reason)
        if wanted is Result.OK and before is not None and before.unserved:
            await executor.run(handovers.add_journal_line, call.call_sid, "unserved", OVERLOAD)
        # No worker may be there to do it: then whoever speaks with the caller does.
        await executor.begin(call.web.ringing.ring, call.call_sid)
    except StoreError:
        return False
    status = await call.status_if_known()
    alert = None if status is None else status.alert
    return alert is not None and alert.state == "ringing"


async def fetch_human_soon(call: CallAccess, reason: str = "no_reply") -> bool:
    """The same for a caller who must hear something now: False, too, where it takes longer,
    and it goes on behind us."""
    fetching = asyncio.ensure_future(fetch_human(call, reason))
    call.web.executor.keep(fetching)
    done, _ = await asyncio.wait({fetching}, timeout=DUE_S)
    return bool(done) and fetching.result()


async def resume_if_nobody_came(call: CallAccess, status: CallStatus | None) -> bool:
    """True when a whole round of the ladder has passed: then the agent listens again, and it goes
    on ringing. Raises StoreError."""
    alert = None if status is None else status.alert
    if alert is not None and alert.state != "nobody" and alert.round <= 1:
        return False
    resume = call.web.store.handovers.resume
    await call.web.run_soon(resume, call.call_sid, "nobody has picked up", over=False)
    return True


async def wait_for_human(
    call: CallAccess, turn: int, phrases: int, status: CallStatus | None
) -> Twiml:
    """The agent is silent for good, and humans are being rung: the caller hears that they are."""
    web, answers = call.web, call.answers(status)
    try:
        if await resume_if_nobody_came(call, status):
            return answers.listen(turn + 1, answers.phrase("nobody_yet"))
        with web.replies.watch(call.call_sid) as watched:
            await web.executor.begin(web.ringing.ring, call.call_sid)
            changed = await watched.change(web.settings.reply_wait_s if phrases else 0.0)
    except (StoreError, UnknownCall):
        return answers.hold(turn, phrases, "still_here")
    name = "getting_person" if phrases % 2 == 0 else "still_here"
    return call.conclude(changed) or answers.hold(turn, phrases, name)


async def human_picked_up(leg: CallAccess) -> Twiml:
    """The human's leg asks what to do: whisper, then, with the key pressed, join the caller."""
    request, web = leg.request, leg.web
    if "out" in request.query:
        return _whisper_without_store(leg)
    caller, ring = _caller(request), request.query.get("ring", "")
    pressed = bool(request.fields.get("Digits"))
    if "asked" in request.query and not pressed:
        not_answered = web.ringing.not_answered
        await web.executor.background(not_answered, caller, ring, "no key was pressed")
        return Twiml("en").hangup()
    try:
        wanted, _ = await web.executor.run(web.store.handovers.read, caller)
    except (StoreError, UnknownCall):
        wanted = None
    site = None if wanted is None or wanted.site is None else web.sites.get(wanted.site)
    language = "en" if site is None else site.language
    here = wanted is not None and wanted.call_state is not CallState.COMPLETE
    if here and not pressed:
        action = leg.addresses.to("/voice/human", call=caller, ring=ring, asked=1)
        return _ask_for_key(site, _reason(wanted), action, wanted is not None and wanted.unclear)
    if here:
        word = await web.executor.background(web.ringing.accept, caller, ring, leg.call_sid)
        if word in (Result.OK, Result.AGAIN):
            action = leg.addresses.to("/voice/human-left", call=caller)
            return Twiml(language).conference(caller, action=action, human=True)
    return Twiml(language).say(generic(language)["whisper_gone"]).hangup()


async def leg_status(leg: CallAccess) -> Twiml:
    """What became of the human's leg. Late or repeated word about an earlier ring is nothing."""
    caller, ring = _caller(leg.request), leg.request.query.get("ring", "")
    status = leg.request.fields.get("CallStatus", "")
    if status in TERMINAL:
        # Completed without a key pressed is a machine, or somebody who could not come.
        why = "hung up" if status == "completed" else status
        await leg.web.executor.background(leg.web.ringing.not_answered, caller, ring, why)
    return Twiml("en")


async def human_left(leg: CallAccess) -> Twiml:
    """The conference is over for the human: the caller's own line brings them back to us."""
    return Twiml("en").hangup()


def _whisper_without_store(leg: CallAccess) -> Twiml:
    """The caller's own line rings this human, because the store is gone or we have too many calls:
    an empty answer connects."""
    fields, query = leg.request.fields, leg.request.query
    site = leg.web.sites.find(fields.get("From", ""), fields.get("ForwardedFrom", ""))
    if "asked" in query:
        connected = Twiml("en" if site is None else site.language)
        return connected if fields.get("Digits") else connected.hangup()
    action = leg.addresses.to("/voice/human", out=1, asked=1)
    return _ask_for_key(site, query.get("why", "outage"), action)


def _ask_for_key(site: Site | None, reason: str, action: str, unclear: bool = False) -> Twiml:
    """Tell the human who calls and why, and ask for the key."""
    language = "en" if site is None else site.language
    spoken = whisper(
        language,
        "" if site is None else site.lift,
        "" if site is None else site.address,
        reason,
        None if site is None else site.emergency_number,
        unclear=unclear,
    )
    return Twiml(language).key(spoken, action=action, timeout_s=KEY_TIMEOUT_S)


def _reason(wanted: AlertStatus | None) -> str:
    if wanted is not None and wanted.needs_human is not None:
        return wanted.needs_human
    return "asked" if wanted is None or wanted.alert is None else wanted.alert.reason


def _caller(request: VoiceRequest) -> str:
    """The CallSid of the caller that this human's line is for."""
    return VoiceRequest({"CallSid": request.query.get("call", "")}, {}).call_sid


async def transfer_ended(call: CallAccess) -> Twiml:
    """The human has left, or one number of the ladder without the store was rung."""
    contact = call.request.number("rung", -1)
    if contact >= 0:
        return _number_was_rung(call, contact)
    return await end_closed(call) if call.request.line_closed else await _take_back(call)


def _number_was_rung(call: CallAccess, contact: int) -> Twiml:
    request, site, answers = call.request, call.site, call.answers()
    turn, unstored = request.turn(), UnstoredInput.of(request)
    # Somebody who picked up and pressed no key was never connected, whatever the status says.
    spoke = request.fields.get("DialCallStatus") in ("completed", "answered")
    if spoke and request.fields.get("DialBridged", "true").lower() != "false":
        # They have spoken with somebody; what was in flight is stored for the record.
        return answers.hold(turn, 0, "person_left", unstored)
    if site is not None and contact + 1 < len(site.humans):
        return answers.dial(site, contact + 1, turn, unstored, why=request.query.get("why"))
    said = unstored.said if unstored is not None else CallerInput()
    return answers.hold(turn, 0, "nobody_yet", UnstoredInput(said, now_ms()))


async def _take_back(call: CallAccess) -> Twiml:
    """The human has left: the agent has the call again. Until that is kept the record has the
    caller with a human, and their next words would bring them into a room where nobody is."""
    executor = call.web.executor
    try:
        await executor.run_patiently(GIVEN_BACK_WITHIN_S, call.web.ringing.left, call.call_sid)
    except StoreError:
        return _stay(call)
    status = await call.status_if_known()
    if status is not None and (over := call.conclude(status)) is not None:
        return over
    answers = call.answers(status)
    turn = call.request.turn() if status is None else status.heard + 1
    told = ("go_on",) if LEFT in call.request.query else ("person_left", "go_on")
    return answers.listen(turn, answers.phrases(*told))


def _stay(call: CallAccess) -> Twiml:
    """The server is gone: the caller hears something and asks again, or is put through."""
    answers, site, turn = call.answers(), call.site, call.request.turn()
    left_ms = parse_number(call.request.query.get(LEFT, "")) or now_ms()
    if site is not None and now_ms() - left_ms >= call.web.settings.outage_transfer_s * 1000:
        return answers.dial(site, 0, turn, UnstoredInput(CallerInput(), left_ms))
    name = "still_here" if LEFT in call.request.query else "person_left"
    again = call.addresses.to("/voice/transfer-ended", n=turn, left=left_ms)
    return Twiml(answers.language).say(answers.phrase(name)).redirect(again)
