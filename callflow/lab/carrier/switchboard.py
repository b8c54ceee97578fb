"""Holds what all calls of one carrier share: the switchboard, conferences, and what a call is to
its verbs."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from callflow.lab.carrier.app_network import AppAddress, ApplicationFailed, Network
from callflow.lab.carrier.background_tasks import Background
from callflow.lab.carrier.call_report import CallReport, EndedBy, HeardSound, Kind, SpokenTurn
from callflow.lab.carrier.network_faults import CallFaults, FaultDice
from callflow.lab.carrier.phone_line import CallerLine, Listener, speech_seconds, spoken_part
from callflow.lab.carrier.twiml_parser import Conference, Document
from callflow.lab.carrier.webhook_client import (
    CallIdentity,
    Response,
    StatusCallbacks,
    Webhooks,
)


@dataclass(frozen=True, slots=True)
class OutboundRequest:
    """A call to be made to `to`, which then does what the document at `url` (or `document`) says.

    `bridged`: what is left when that document has ended is the other line.
    """

    to: str
    caller: str
    url: str | None
    document: str | None = None
    base: str | None = None
    timeout_s: float = 60.0
    direction: str = "outbound-api"
    parent_sid: str | None = None
    status_url: str | None = None
    events: Collection[str] = ("completed",)
    bridged: bool = False


@dataclass(slots=True)
class Switchboard:
    """One per carrier. `endpoint_s`: how long the carrier takes to notice by itself that a person
    has finished speaking (speechTimeout="auto")."""

    account_sid: str
    network: Network
    webhooks: Webhooks
    background: Background
    fault_dice: FaultDice
    speed: float
    endpoint_s: float
    dial: Callable[[OutboundRequest], CallBase]
    calls: dict[str, CallBase] = field(default_factory=dict)
    conferences: ConferenceRooms = field(default_factory=lambda: ConferenceRooms())
    _lines: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def new_sid(prefix: str) -> str:
        """A SID that nobody else has; no seed gives the same one again."""
        return f"{prefix}{secrets.token_hex(16)}"

    def faults(self, kind: str) -> CallFaults:
        """The faults of the next line of a `kind`, in the order in which they come."""
        self._lines[kind] += 1
        return CallFaults(self.fault_dice, f"{kind} {self._lines[kind]}")

    def address(self, url: str | None, base: str | None = None) -> AppAddress | None:
        """Where `url` leads; None for None. Raises AddressRefused."""
        return None if url is None else self.network.address(url, base)


@dataclass(frozen=True, slots=True)
class CallStep:
    """Where a call goes on: the document at `url`, asked with these fields beside the usual ones,
    or a document that is here already. `turn`: what the caller said, if that is what is asked
    about; `fallback`: this is the last attempt to go on."""

    url: str = ""
    base: str | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    turn: SpokenTurn | None = None
    document: Document | None = None
    fallback: bool = False


class CallBase:
    """What a call is to the verbs that it carries out, and to whoever gives it orders."""

    def __init__(
        self,
        switchboard: Switchboard,
        identity: CallIdentity,
        listener: Listener,
        faults: CallFaults,
    ) -> None:
        self.switchboard = switchboard
        self.identity = identity
        self.listener = listener
        self.report = listener.report
        self.faults = faults
        self.line = CallerLine(listener, switchboard.speed, self.hang_up)
        self.status = "queued"
        self._orders: asyncio.Queue[CallStep | None] = asyncio.Queue()
        self._asked: set[asyncio.Task[Response | ApplicationFailed]] = set()
        self._running: asyncio.Future[None] | None = None
        self.send_callbacks_to(None)
        switchboard.calls[identity.call_sid] = self

    @property
    def call_sid(self) -> str:
        return self.identity.call_sid

    def send_callbacks_to(self, url: str | None, events: Collection[str] = ()) -> None:
        """Tell of these events there, from the first one on."""
        self._callbacks = StatusCallbacks(
            self.switchboard.webhooks,
            self.switchboard.background,
            self.identity,
            self.report,
            self.faults,
            self.switchboard.address(url),
            events,
        )

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let the call go on by itself."""
        self._running = self.switchboard.background.start(work)

    async def ended(self) -> CallReport:
        """The report, once the call is over and every webhook about it is answered."""
        if self._running is not None:
            await asyncio.shield(self._running)
        return self.report

    def become(self, status: str) -> None:
        """Change the status and tell the application. A status that stands is not told again."""
        if status != self.status:
            self.status = status
            self.listener.emit("status", status=status)
            self._callbacks.send(status)

    def order(self, step: CallStep | None, by: EndedBy = "application") -> None:
        """Stop what is being carried out and go on with `step`; None: hang up."""
        if step is None and self.report.ended_by == "nobody":
            self.report.ended_by = by
        self._orders.put_nowait(step)

    def stop(self) -> None:
        """Hang up for the application. Twice is once."""
        self.order(None)

    def send(
        self, address: AppAddress, fields: Mapping[str, str], turn: SpokenTurn | None = None
    ) -> asyncio.Task[Response | ApplicationFailed]:
        """Send a webhook whose answer need not be waited for; the report waits for it."""
        form = self.identity.form(self.status) | dict(fields)
        task = self.switchboard.background.start(self._ask(address, form, turn))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return task

    async def speak(self, text: str, kind: Kind) -> None:
        """Say `text` to the person, who hears the part that is said before this is cancelled."""
        began = time.monotonic()
        heard = self.listener.begin(text, kind)
        try:
            await asyncio.sleep(speech_seconds(text, self.switchboard.speed))
        except asyncio.CancelledError:
            said = spoken_part(text, time.monotonic() - began, self.switchboard.speed)
            self.listener.finish(heard, said)
            raise
        self.listener.finish(heard)
        self.listener.expect_sound("next")

    async def _ask(
        self, address: AppAddress, form: Mapping[str, str], turn: SpokenTurn | None
    ) -> Response | ApplicationFailed:
        fault = self.faults.next(address.path, form["CallStatus"])
        try:
            response = await self.switchboard.webhooks.ask(address, form, fault, self.report)
        except ApplicationFailed as failure:
            return failure
        if turn is not None:
            turn.accepted = True
        return response

    def hang_up(self) -> None:
        """The person hangs up. Twice is once."""
        if not self.line.over:
            self.line.closed()
            self.order(None, "caller")


class VoiceLink:
    """What one line hears of another person: begins and ends with their being there."""

    def __init__(self, line: CallerLine, kind: Kind) -> None:
        self._line = line
        self._kind = kind
        self._heard: HeardSound | None = None

    def begin(self) -> None:
        """They hear each other. Twice is once."""
        if self._heard is None:
            self._heard = self._line.listener.begin("", self._kind)
            self._line.listener.report.with_human |= self._kind == "human"
            self._line.listener.settle_turn()
            self._line.joined()

    def end(self) -> None:
        """The other one is gone; somebody has to say something."""
        if self._heard is not None:
            self._line.listener.finish(self._heard)
            self._heard = None
            self._line.listener.expect_sound("human_left")
            self._line.parted()


def voice_of(call: CallBase) -> Kind:
    """What the other side of `call` is to the person on it."""
    return "human" if call.identity.direction == "inbound" else "caller"


@contextmanager
def play_tone(listener: Listener, kind: Kind) -> Iterator[None]:
    """A tone or music, for as long as it takes."""
    heard = listener.begin("", kind)
    try:
        yield
    finally:
        if heard.until_s is None:
            listener.finish(heard)
            listener.expect_sound("next")


@dataclass(slots=True)
class _ConferenceMember:
    call: CallBase
    noun: Conference
    talk: VoiceLink
    alone: HeardSound | None = None
    gone: asyncio.Event = field(default_factory=asyncio.Event)


class ConferenceRooms:
    """All rooms of the account, by name."""

    def __init__(self) -> None:
        self._rooms: dict[str, list[_ConferenceMember]] = {}

    async def stay(self, call: CallBase, noun: Conference) -> dict[str, str]:
        """Be in the room until it ends, or until this line is told to go elsewhere.

        Returns the fields for the action of the <Dial>.
        """
        member = _ConferenceMember(call, noun, VoiceLink(call.line, voice_of(call)))
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

    def _listen(self, room: list[_ConferenceMember]) -> None:
        """Let everybody hear what there is to be heard now."""
        begun = len(room) > 1 and any(member.noun.starts for member in room)
        for member in room:
            if member.gone.is_set():
                continue
            listener = member.call.listener
            if begun:
                if member.alone is not None:
                    listener.finish(member.alone)
                    member.alone = None
                member.talk.begin()
                continue
            member.talk.end()
            if member.alone is None and member.noun.music:
                member.alone = listener.begin("", "music")
            elif not member.noun.music:
                listener.expect_sound("next")


def _leave(member: _ConferenceMember) -> None:
    if member.alone is not None:
        member.call.listener.finish(member.alone)
        member.call.listener.expect_sound("next")
    member.talk.end()
