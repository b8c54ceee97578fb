"""Rooms in which lines hear each other: each begins with its first line and ends with its last."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from callflow.lab.carrier.ear import Ear
from callflow.lab.carrier.line import Line
from callflow.lab.carrier.report import Heard, Kind
from callflow.lab.carrier.verbs import Conference

if TYPE_CHECKING:
    from callflow.lab.carrier.leg import Leg


class Talk:
    """What one line hears of another person: begins and ends with their being there."""

    def __init__(self, line: Line, kind: Kind) -> None:
        self._line = line
        self._kind = kind
        self._heard: Heard | None = None

    def begin(self) -> None:
        """They hear each other. Twice is once."""
        if self._heard is None:
            self._heard = self._line.ear.begin("", self._kind)
            self._line.ear.report.with_human |= self._kind == "human"
            self._line.ear.settle_turn()
            self._line.joined()

    def end(self) -> None:
        """The other one is gone; somebody has to say something."""
        if self._heard is not None:
            self._line.ear.finish(self._heard)
            self._heard = None
            self._line.ear.owe("human_left")
            self._line.parted()


def kind_of(leg: Leg) -> Kind:
    """What the other side of `leg` is to the person on it."""
    return "human" if leg.identity.direction == "inbound" else "caller"


@contextmanager
def tone(ear: Ear, kind: Kind) -> Iterator[None]:
    """A tone or music, for as long as it takes."""
    heard = ear.begin("", kind)
    try:
        yield
    finally:
        if heard.until_s is None:
            ear.finish(heard)
            ear.owe("next")


@dataclass(slots=True)
class _Member:
    leg: Leg
    noun: Conference
    talk: Talk
    alone: Heard | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class Conferences:
    """All rooms of the account, by name."""

    def __init__(self) -> None:
        self._rooms: dict[str, list[_Member]] = {}

    async def stay(self, leg: Leg, noun: Conference) -> dict[str, str]:
        """Be in the room until it ends, or until this line is told to go elsewhere.

        Returns the fields for the action of the <Dial>.
        """
        member = _Member(leg, noun, Talk(leg.line, kind_of(leg)))
        room = self._rooms.setdefault(noun.name, [])
        room.append(member)
        self._listen(room)
        try:
            await member.gone.wait()
        finally:
            room.remove(member)
            _leave(member)
            if noun.ends:
                for other in room:
                    other.gone.set()
            self._listen(room)
            if not room:
                self._rooms.pop(noun.name, None)
        return {"DialCallStatus": "answered"}

    def _listen(self, room: list[_Member]) -> None:
        """Let everybody hear what there is to be heard now."""
        begun = len(room) > 1 and any(member.noun.starts for member in room)
        for member in room:
            if member.gone.is_set():
                continue
            ear = member.leg.ear
            if begun:
                if member.alone is not None:
                    ear.finish(member.alone)
                    member.alone = None
                member.talk.begin()
                continue
            member.talk.end()
            if member.alone is None and member.noun.music:
                member.alone = ear.begin("", "music")
            elif not member.noun.music:
                ear.owe("next")


def _leave(member: _Member) -> None:
    if member.alone is not None:
        member.leg.ear.finish(member.alone)
        member.leg.ear.owe("next")
    member.talk.end()
