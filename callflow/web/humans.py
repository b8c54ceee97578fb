"""The human's line: they pick up, hear who and where, press a key, and are with the caller.

A line that is only picked up is nobody yet: an answering machine picks up too. What tells a human
is the key.
"""

from __future__ import annotations

from callflow.call.state import CallState
from callflow.errors import StoreError, UnknownCall
from callflow.responder.phrases import generic, whisper
from callflow.sites.site import Site
from callflow.store.handovers import AlertStatus
from callflow.store.result import Result
from callflow.twilio.twiml import Twiml
from callflow.web.hook import TERMINAL, Hook
from callflow.web.party import Party

KEY_TIMEOUT_S = 10

UNANSWERED = TERMINAL - {"completed"}


async def picked_up(party: Party, hook: Hook) -> Twiml:
    """The human's leg asks what to do: whisper, then, with the key pressed, join the caller."""
    if "out" in hook.query:
        return _without_store(party, hook)
    caller, ring = _caller(hook), hook.query.get("ring", "")
    pressed = bool(hook.fields.get("Digits"))
    if "asked" in hook.query and not pressed:
        await party.desk.errand(party.ringing.not_answered, caller, ring, "no key was pressed")
        return Twiml("en").hangup()
    wanted = await _wanted(party, caller)
    site = None if wanted is None or wanted.site is None else party.sites.get(wanted.site)
    language = "en" if site is None else site.language
    if wanted is None or wanted.call_state is CallState.COMPLETE:
        return Twiml(language).say(generic(language)["whisper_gone"]).hangup()
    if not pressed:
        action = party.addresses.to("/voice/human", call=caller, ring=ring, asked=1)
        return Twiml(language).key(_whispered(site, wanted), action=action, timeout_s=KEY_TIMEOUT_S)
    word = await party.desk.errand(party.ringing.accept, caller, ring, hook.call_sid)
    if word in (Result.OK, Result.AGAIN):
        action = party.addresses.to("/voice/human-left", call=caller)
        return Twiml(language).conference(caller, action=action, human=True)
    return Twiml(language).say(generic(language)["whisper_gone"]).hangup()


async def leg_status(party: Party, hook: Hook) -> Twiml:
    """What became of the human's leg. Late or repeated word about an earlier ring is nothing."""
    caller, ring = _caller(hook), hook.query.get("ring", "")
    status = hook.fields.get("CallStatus", "")
    if status in TERMINAL:
        # Completed without a key pressed is a machine, or somebody who could not come.
        why = "hung up" if status == "completed" else status
        await party.desk.errand(party.ringing.not_answered, caller, ring, why)
    return Twiml("en")


async def human_left(party: Party, hook: Hook) -> Twiml:
    """The conference is over for the human: the caller's own line brings them back to us."""
    return Twiml("en").hangup()


def _without_store(party: Party, hook: Hook) -> Twiml:
    """The caller's own line rings this human, because the store is gone or we have too many calls:
    an empty answer connects."""
    site = party.sites.find(hook.fields.get("From", ""), hook.fields.get("ForwardedFrom", ""))
    language = "en" if site is None else site.language
    if "asked" in hook.query:
        connected = Twiml(language)
        return connected if hook.fields.get("Digits") else connected.hangup()
    spoken = whisper(
        language,
        "" if site is None else site.lift,
        "" if site is None else site.address,
        hook.query.get("why", "outage"),
        None if site is None else site.emergency_number,
    )
    action = party.addresses.to("/voice/human", out=1, asked=1)
    return Twiml(language).key(spoken, action=action, timeout_s=KEY_TIMEOUT_S)


def _whispered(site: Site | None, wanted: AlertStatus) -> str:
    language = "en" if site is None else site.language
    reason = wanted.alert.reason if wanted.alert is not None else "asked"
    if wanted.needs_human is not None:
        reason = wanted.needs_human
    return whisper(
        language,
        "" if site is None else site.lift,
        "" if site is None else site.address,
        reason,
        None if site is None else site.emergency_number,
    )


def _caller(hook: Hook) -> str:
    """The CallSid of the caller that this human's line is for."""
    return Hook({"CallSid": hook.query.get("call", "")}, {}).call_sid


async def _wanted(party: Party, caller: str) -> AlertStatus | None:
    try:
        wanted, _ = await party.desk.ask(party.intake.store.handovers.read, caller)
    except (StoreError, UnknownCall):
        return None
    return wanted
