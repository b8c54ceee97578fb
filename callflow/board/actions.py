"""Does what dispatchers ask for in a call: one address for each action, a form in, JSON out.

Every form may name itself (`request`): sent again, as when its answer was lost, it is done once.
`seen` is what the page showed (`call.edits.version_token`): who is second is told who was first,
with 409.
What is said and written is in the record and nowhere else: no log and no answer repeats it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from callflow.access.auth import BoardAuth
from callflow.access.sessions import BoardUser
from callflow.call import edits
from callflow.call.edits import (
    MaybeTrapped,
    ReasonMissing,
    StaleEdit,
    TooMuch,
    WithHuman,
    disposition,
)
from callflow.call.facts import HUMAN_FACTS, parsed
from callflow.call.record import CallRecord
from callflow.call.role import Permission
from callflow.call.urgency import Urgency
from callflow.errors import CallEnded, CallflowError, InvalidCallSid, StoreError, UnknownCall
from callflow.handover import Ringing
from callflow.messages import wake
from callflow.responder.scripted import approved
from callflow.store.calls import CallStore
from callflow.store.reader import CallReader
from callflow.store.staff_actions import new_request

log = logging.getLogger(__name__)

URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)


class BadForm(CallflowError):
    """A field that is missing, or that has a value which it cannot have; nothing was changed."""

    def __init__(self, field: str, rule: str) -> None:
        self.field = field
        super().__init__(f"the field {field} {rule}")


@dataclass(frozen=True, slots=True)
class ActionForm:
    """One form: about which call, by whom, as which request, and what the person had seen."""

    call_sid: str
    person: BoardUser
    fields: Mapping[str, str]
    request: str

    def seen(self, thing: str) -> int | None:
        """How often `thing` had been acted on when the person looked; None for a form that does not
        say. Raises BadSeen."""
        shown = self.fields.get("seen")
        return None if shown is None else edits.seen_count(shown, thing)

    def required(self, name: str) -> str:
        """A field that must be there. Raises BadForm."""
        given = self.fields.get(name, "").strip()
        if not given:
            raise BadForm(name, "is missing: fill it in")
        return given


@dataclass(frozen=True, slots=True)
class BoardActions:
    """Does the actions of one web process; in the state of each request as `actions`. All methods
    block.

    `deliver_soon` has a phrase that waits reach its caller soon; what it does is only faster than
    what happens by itself. `run` calls what blocks, the carrier's API too, where nobody else waits.
    """

    store: CallStore
    snapshots: CallReader
    ringing: Ringing
    deliver_soon: Callable[[str], None]
    run: Callable[..., Awaitable[Any]]

    def take_over(self, form: ActionForm) -> dict[str, object]:
        """Ring the person for this call, then the site's humans. They have it when they pick up."""
        done, before = self.store.staff.take_over(
            form.call_sid,
            form.person.name,
            form.person.telephone,
            request=form.request,
            seen=form.seen(edits.CALL),
        )
        if done:
            self.ringing.give_up(before)
        # Asked again, too: the process that was asked first may have died before it rang.
        rung = self.ringing.ring(form.call_sid)
        return {"rung": str(rung)}

    def say(self, form: ActionForm) -> dict[str, object]:
        """Have a phrase said: typed (`text`), or one of the procedures' (`phrase`, its id)."""
        text = self._approved_sentence(form) if form.fields.get("phrase") else form.required("text")
        self.store.staff.say(
            form.call_sid,
            text,
            form.person.name,
            request=form.request,
            seen=form.seen(edits.SAY),
        )
        self.deliver_soon(form.call_sid)
        return {}

    def _approved_sentence(self, form: ActionForm) -> str:
        name = form.required("phrase")
        found = approved(self.snapshots.read(form.call_sid)).get(name)
        if found is None:
            raise BadForm("phrase", "names no sentence of this call's procedures")
        if found.waits_for is not None:
            raise BadForm(
                "phrase", f"names a sentence that may be said once {found.waits_for} is known"
            )
        return found.text

    def note(self, form: ActionForm) -> dict[str, object]:
        """Keep a note; nobody speaks it."""
        self.store.staff.add_note(
            form.call_sid, form.required("text"), form.person.name, request=form.request
        )
        return {}

    def fact(self, form: ActionForm) -> dict[str, object]:
        """Record a fact (`name`, `value`); an empty value takes it back."""
        name, value = form.required("name"), form.fields.get("value", "").strip()
        if name not in HUMAN_FACTS:
            parsed(name, value)
        self.store.staff.record_fact(
            form.call_sid,
            name,
            parsed(name, value) if value else None,
            form.person.name,
            seen=form.seen(edits.fact(name)),
            request=form.request,
        )
        return {}

    def urgency(self, form: ActionForm) -> dict[str, object]:
        """Say how urgent the call is (`urgency`, and `reason` where it is less than was heard)."""
        given = form.required("urgency").upper()
        level = next((one for one in URGENCIES if one == given), None)
        if level is None:
            raise BadForm("urgency", f"is one of {', '.join(URGENCIES)}")
        _, waits = self.store.staff.set_urgency(
            form.call_sid,
            level,
            form.person.name,
            request=form.request,
            reason=form.fields.get("reason", ""),
            seen=form.seen(edits.URGENCY),
        )
        if waits:
            wake(form.call_sid, urgency=level)
        return {}

    def end(self, form: ActionForm) -> dict[str, object]:
        """End the call (`disposition`), and close its line; `confirm` where somebody may still be
        trapped. `closed` is False where the carrier could not be asked: the next answer to the
        caller's line closes it."""
        self.store.staff.end(
            self.snapshots.read,
            form.call_sid,
            disposition(form.required("disposition")),
            form.person.name,
            request=form.request,
            confirmed=form.fields.get("confirm", "") in ("yes", "true", "1", "on"),
            seen=form.seen(edits.CALL),
        )
        self.ringing.call_off(form.call_sid)
        return {"closed": self.ringing.hang_up(form.call_sid)}


Action = Callable[[BoardActions, ActionForm], dict[str, object]]

ACTIONS: Final[Mapping[str, Action]] = {
    "take-over": BoardActions.take_over,
    "say": BoardActions.say,
    "note": BoardActions.note,
    "fact": BoardActions.fact,
    "urgency": BoardActions.urgency,
    "end": BoardActions.end,
}
"""Under which address each is asked for: /board/calls/CALLSID/…"""


def routes(auth: BoardAuth) -> list[BaseRoute]:
    """The addresses, for those who may act."""
    return [
        auth.route(
            f"/board/calls/{{sid}}/{name}",
            _handler(action),
            permission=Permission.ACT,
            methods=["POST"],
        )
        for name, action in ACTIONS.items()
    ]


def _handler(action: Action) -> Callable[[Request, BoardUser], Awaitable[Response]]:
    async def handler(request: Request, person: BoardUser) -> Response:
        actions: BoardActions = request.state.actions
        fields: Mapping[str, str] = request.state.form
        name = fields.get("request") or new_request()
        form = ActionForm(request.path_params["sid"], person, fields, name)
        try:
            more = await actions.run(action, actions, form)
        except StoreError as error:
            log.warning("the board: %s", error)
            return store_unreachable()
        except CallflowError as error:
            ended = None
            if isinstance(error, CallEnded):
                ended = await actions.run(_find_record, actions, form.call_sid)
            return refusal(error, ended)
        return JSONResponse({"done": True, **more})

    return handler


def _find_record(actions: BoardActions, call_sid: str) -> CallRecord | None:
    try:
        return actions.snapshots.find(call_sid)
    except StoreError:
        return None  # Who has ended the call is not known then, and is not told.


def store_unreachable() -> Response:
    """The store cannot be reached: nothing is known to be done, and asking again is safe."""
    told = (
        "The store cannot be reached: it is not known whether this was done. Send it once more "
        "in a moment: it is not done twice."
    )
    return JSONResponse({"told": told}, 503, {"Retry-After": "1"})


def refusal(error: CallflowError, ended: CallRecord | None = None) -> Response:
    """Why an action was not done: 409 where the call is no longer as it was seen, or a word more is
    wanted; 404 where there is none; 400 for a form that cannot be meant. `ended`: the record of a
    call that is over."""
    told: dict[str, Any] = {"told": f"Not done: {error}."}
    match error:
        case UnknownCall() | InvalidCallSid():
            return JSONResponse(told, 404)
        case CallEnded():
            told = _who_ended(ended)
        case StaleEdit():
            told |= {"by": error.by, "what": error.thing, "at": error.at}
        case WithHuman():
            told |= {"by": error.who, "what": "with_human"}
        case MaybeTrapped():
            told["confirm"] = True
        case ReasonMissing():
            told["reason"] = True
        case TooMuch():
            pass
        case _:
            return JSONResponse(told, 400)
    return JSONResponse(told, 409)


def _who_ended(record: CallRecord | None) -> dict[str, Any]:
    if record is None or record.disposition is None:
        outcome = "" if record is None else f" ({record.outcome})"
        return {"told": f"Not done: the call is over, its line was closed{outcome}."}
    end = record.disposition
    told = f"Not done: {end.by} has ended the call ({end.what})."
    return {"told": told, "by": end.by, "what": "end", "at": end.at}
