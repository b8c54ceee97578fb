"""What requests of people have in common: their names, their words, and what the store says."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence

from callflow.call.acts import Overtaken, WithHuman
from callflow.call.state import Event
from callflow.call.utterance import clean
from callflow.errors import CallEnded, CallError, CallflowError, StoreUnreplicated, UnknownCall
from callflow.redis.scripts import Scripts

MOST_NAME_CHARS = 100

_REQUEST = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


class BadRequestName(CallflowError):
    """A request whose name could stand for nothing; nothing was changed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name[:64]!a} cannot name a request: write 1 to 64 letters, digits, hyphens or "
            "underscores"
        )


class BadWords(CallError):
    """Words of a person that are missing, or too long; nothing was changed."""

    def __init__(self, call_sid: str, what: str, most: int) -> None:
        self.most = most
        super().__init__(call_sid, f"was given no {what} of 1 to {most} characters")


def new_request() -> str:
    """A name for a request of somebody who has none."""
    return secrets.token_hex(8)


def run(scripts: Scripts, script: str, keys: Sequence[str], *arguments: str | int) -> list[str]:
    """What a script says. What a person was told is done must outlive a failover, where replicas
    are waited for: raises StoreUnreplicated, and asked again it is not done twice."""
    said, assured = scripts.run_assured(script, keys, arguments)
    answer: list[str] = said
    if not assured and answer[0] in ("done", "again"):
        raise StoreUnreplicated(scripts.where, scripts.replicas.least)
    return answer


def done(call_sid: str, event: Event, thing: str, word: str, rest: Sequence[str]) -> bool:
    """True where it is done now, False where this request was done before; else raises."""
    match word:
        case "unknown":
            raise UnknownCall(call_sid)
        case "ended":
            raise CallEnded(call_sid, str(event))
        case "told":
            raise Overtaken(call_sid, thing, rest[0], int(rest[1]))
        case "with_human":
            raise WithHuman(call_sid, rest[0] or None)
        case _:
            return word == "done"


def shown(seen: int | None) -> str:
    """A count that somebody was shown, as scripts take it."""
    return "" if seen is None else str(seen)


def named(request: str) -> str:
    """The name of a request. Raises BadRequestName."""
    if not _REQUEST.fullmatch(request):
        raise BadRequestName(request)
    return request


def name_of(call_sid: str, by: str) -> str:
    """Somebody's name as it is stored."""
    return clean(call_sid, by[:MOST_NAME_CHARS])


def words(call_sid: str, text: str, what: str, most: int) -> str:
    """Words of a person as they are stored. Raises BadWords."""
    if len(text) > most:
        raise BadWords(call_sid, what, most)
    cleaned = clean(call_sid, text)
    if not cleaned:
        raise BadWords(call_sid, what, most)
    return cleaned
