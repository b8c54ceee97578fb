"""What dispatchers do in a call from the board: one address for each act, a form in, JSON out.

Every form may name itself (`request`): sent again, as when its answer was lost, it is done once.
`seen` is what the page showed (`call.acts.seen`): who is second is told who was first, with 409.
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
from callflow.access.sessions import Person
from callflow.board.told import refused, unreachable
from callflow.call import acts
from callflow.call.disposition import disposition
from callflow.call.facts import HUMAN_FACTS, parsed
from callflow.call.record import CallRecord
from callflow.call.role import Permission
from callflow.call.urgency import Urgency
from callflow.celery import wake
from callflow.errors import CallEnded, CallflowError, StoreError
from callflow.responder.approved import approved
from callflow.ringing import Ringing
from callflow.store.asked import new_request
from callflow.store.calls import CallStore
from callflow.store.reader import CallReader

log = logging.getLogger(__name__)

URGENCIES: Final[tuple[Urgency, ...]] = get_args(Urgency)


class BadForm(CallflowError):
    """A field that is missing, or that has a value which it cannot have; nothing was changed."""

    def __init__(self, field: str, rule: str) -> None:
        self.field = field
        super().__init__(f"the field {field} {rule}")


@dataclass(frozen=True, slots=True)
class Asked:
    """One form: about which call, by whom, as which request, and what the person had seen."""

    call_sid: str
    person: Person
    form: Mapping[str, str]
    request: str

    def seen(self, thing: str) -> int | None:
        """How often `thing` had been acted on when the person looked; None for a form that does not
        say. Raises BadSeen."""
        shown = self.form.get("seen")
        return None if shown is None else acts.count(shown, thing)

    def field(self, name: str) -> str:
        """A field that must be there. Raises BadForm."""
        given = self.form.get(name, "").strip()
        if not given:
            raise BadForm(name, "is missing: fill it in")
        return given


@dataclass(frozen=True, slots=True)
class Actions:
    """What a web process acts with; in the state of each request as `actions`. All methods block.

    `bring` has a phrase that waits reach its caller soon; what it does is only faster than what
    happens by itself. `errand` runs what blocks, the carrier's API too, where nobody else waits.
    """

    store: CallStore
    snapshots: CallReader
    ringing: Ringing
    bring: Callable[[str], None]
    errand: Callable[..., Awaitable[Any]]

    def take_over(self, asked: Asked) -> dict[str, object]:
        """Ring the person for this call, then the site's humans. They have it when they pick up."""
        done, before = self.store.desk_work.take_over(
            asked.call_sid,
            asked.person.name,
            asked.person.telephone,
            request=asked.request,
            seen=asked.seen(acts.CALL),
        )
        if done:
            self.ringing.give_up(before)
        # Asked again, too: the process that was asked first may have died before it rang.
        rung = self.ringing.ring(asked.call_sid)
        return {"rung": str(rung)}

    def say(self, asked: Asked) -> dict[str, object]:
        """Have a phrase said: typed (`text`), or one of the procedures' (`phrase`, its id)."""
        text = self._approved(asked) if asked.form.get("phrase") else asked.field("text")
        self.store.sayings.say(
            asked.call_sid,
            text,
            asked.person.name,
            request=asked.request,
            seen=asked.seen(acts.SAY),
        )
        self.bring(asked.call_sid)
        return {}

    def _approved(self, asked: Asked) -> str:
        name = asked.field("phrase")
        found = approved(self.snapshots.read(asked.call_sid)).get(name)
        if found is None:
            raise BadForm("phrase", "names no sentence of this call's procedures")
        if found.waits_for is not None:
            raise BadForm(
                "phrase", f"names a sentence that may be said once {found.waits_for} is known"
            )
        return found.text

    def note(self, asked: Asked) -> dict[str, object]:
        """Keep a note; nobody speaks it."""
        self.store.desk_work.remark(
            asked.call_sid, asked.field("text"), asked.person.name, request=asked.request
        )
        return {}

    def fact(self, asked: Asked) -> dict[str, object]:
        """Record a fact (`name`, `value`); an empty value takes it back."""
        name, value = asked.field("name"), asked.form.get("value", "").strip()
        if name not in HUMAN_FACTS:
            parsed(name, value)
        self.store.recorded.note(
            asked.call_sid,
            name,
            parsed(name, value) if value else None,
            asked.person.name,
            seen=asked.seen(acts.fact(name)),
            request=asked.request,
        )
        return {}

    def urgency(self, asked: Asked) -> dict[str, object]:
        """Say how urgent the call is (`urgency`, and `reason` where it is less than was heard)."""
        given = asked.field("urgency").upper()
        level = next((one for one in URGENCIES if one == given), None)
        if level is None:
            raise BadForm("urgency", f"is one of {', '.join(URGENCIES)}")
        _, waits = self.store.desk_work.urge(
            asked.call_sid,
            level,
            asked.person.name,
            request=asked.request,
            reason=asked.form.get("reason", ""),
            seen=asked.seen(acts.URGENCY),
        )
        if waits:
            wake(asked.call_sid, urgency=level)
        return {}

    def end(self, asked: Asked) -> dict[str, object]:
        """End the call (`disposition`), and close its line; `confirm` where somebody may still be
        trapped. `closed` is False where the carrier could not be asked: the next answer to the
        caller's line closes it."""
        self.store.desk_work.end(
            self.snapshots.read,
            asked.call_sid,
            disposition(asked.field("disposition")),
            asked.person.name,
            request=asked.request,
            confirmed=asked.form.get("confirm", "") in ("yes", "true", "1", "on"),
            seen=asked.seen(acts.CALL),
        )
        self.ringing.call_off(asked.call_sid)
        return {"closed": self.ringing.hang_up(asked.call_sid)}


Act = Callable[[Actions, Asked], dict[str, object]]

ACTS: Final[Mapping[str, Act]] = {
    "take-over": Actions.take_over,
    "say": Actions.say,
    "note": Actions.note,
    "fact": Actions.fact,
    "urgency": Actions.urgency,
    "end": Actions.end,
}
"""Under which address each is asked for: /board/calls/CALLSID/…"""


def routes(auth: BoardAuth) -> list[BaseRoute]:
    """The addresses, for those who may act."""
    return [
        auth.route(
            f"/board/calls/{{sid}}/{name}",
            _handler(act),
            permission=Permission.ACT,
            methods=["POST"],
        )
        for name, act in ACTS.items()
    ]


def _end_of(actions: Actions, error: CallflowError, call_sid: str) -> CallRecord | None:
    """The record of a call that was over, which tells who has ended it; None where that is not the
    matter, or cannot be read."""
    if not isinstance(error, CallEnded):
        return None
    try:
        return actions.snapshots.find(call_sid)
    except StoreError:
        return None


def _handler(act: Act) -> Callable[[Request, Person], Awaitable[Response]]:
    async def handler(request: Request, person: Person) -> Response:
        actions: Actions = request.state.actions
        form: Mapping[str, str] = request.state.form
        name = form.get("request") or new_request()
        asked = Asked(request.path_params["sid"], person, form, name)
        try:
            more = await actions.errand(act, actions, asked)
        except StoreError as error:
            log.warning("the board: %s", error)
            return unreachable()
        except CallflowError as error:
            return refused(error, await actions.errand(_end_of, actions, error, asked.call_sid))
        return JSONResponse({"done": True, **more})

    return handler
