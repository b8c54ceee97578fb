"""What a person is told whose act was not done: a sentence, and who did what when."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response

from callflow.call.acts import Overtaken, ReasonMissing, TooMuch, WithHuman
from callflow.call.disposition import MaybeTrapped
from callflow.call.record import CallRecord
from callflow.errors import CallEnded, CallflowError, InvalidCallSid, UnknownCall


def unreachable() -> Response:
    """The store cannot be reached: nothing is known to be done, and asking again is safe."""
    told = (
        "The store cannot be reached: it is not known whether this was done. Send it once more "
        "in a moment: it is not done twice."
    )
    return JSONResponse({"told": told}, 503, {"Retry-After": "1"})


def refused(error: CallflowError, ended: CallRecord | None = None) -> Response:
    """Why an act was not done: 409 where the call is no longer as it was seen, or a word more is
    wanted; 404 where there is none; 400 for a form that cannot be meant. `ended`: the record of a
    call that is over."""
    told: dict[str, Any] = {"told": f"Not done: {error}."}
    match error:
        case UnknownCall() | InvalidCallSid():
            return JSONResponse(told, 404)
        case CallEnded():
            return JSONResponse(_ended(ended), 409)
        case Overtaken():
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


def _ended(record: CallRecord | None) -> dict[str, Any]:
    """Who has ended the call meanwhile, or that its line was closed."""
    if record is None or record.disposition is None:
        outcome = "" if record is None else f" ({record.outcome})"
        return {"told": f"Not done: the call is over, its line was closed{outcome}."}
    end = record.disposition
    told = f"Not done: {end.by} has ended the call ({end.what})."
    return {"told": told, "by": end.by, "what": "end", "at": end.at}
