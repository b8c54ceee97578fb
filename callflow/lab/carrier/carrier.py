"""Simulates a carrier with one account: people call in, and the application calls out.

Everything that happens on the wire is Twilio's: signed webhooks, TwiML, relay sockets, REST. The
carrier looks into nothing of the application, and keeps what each call was like from outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Self

from callflow.lab.carrier.app_network import Network
from callflow.lab.carrier.background_tasks import Background
from callflow.lab.carrier.call_report import CallReport
from callflow.lab.carrier.carrier_call import Call, OutboundCall, SimulatedPerson
from callflow.lab.carrier.network_faults import FaultDice, NetworkFaults
from callflow.lab.carrier.phone_account import PhoneAccount
from callflow.lab.carrier.phone_line import EventCallback, Listener
from callflow.lab.carrier.rest_server import ApiServer, RestApi
from callflow.lab.carrier.simulated_people import Behaviour, Caller, HumanBehaviour
from callflow.lab.carrier.switchboard import CallStep, OutboundRequest, Switchboard
from callflow.lab.carrier.twiml_parser import parse
from callflow.lab.carrier.webhook_client import (
    ALL,
    CallIdentity,
    HttpClient,
    Webhooks,
)
from callflow.twilio.rest import wanted_settings

NUMBER: Final = "+441632960010"
LIFT: Final = "+441632960999"

INTERRUPTED_S: Final = 0.5
"""For the last repeats, when the program is told to end: time to hang up."""

SETTLE_S: Final = 20.0
"""At the end: a webhook takes 15 s at most."""


class Carrier:
    """Use it as an async context: the REST API listens while it lasts, and no call outlives it.

    `targets`: base URLs of the web processes behind `public_url`; the list may be changed at any
    time. `api_port` 0: a free one. `speed`: how many times faster than life everybody speaks;
    silence, thinking and ringing are real time. `humans`: what each number does when it is rung,
    and `human` all others. Addresses of the number are under the public URL unless given;
    `fallback` may be a TwiML document, as one hosted at the carrier. `endpoint_s`: how long the
    carrier needs to notice that somebody has finished speaking (speechTimeout="auto", and on relay
    lines); the caller is silent meanwhile, and the application cannot help it.
    """

    def __init__(
        self,
        targets: Sequence[str],
        public_url: str,
        account_sid: str,
        auth_token: str,
        *,
        api_port: int = 0,
        speed: float = 1.0,
        seed: int = 0,
        network_faults: NetworkFaults | None = None,
        human: HumanBehaviour | None = None,
        humans: Mapping[str, HumanBehaviour] | None = None,
        voice_url: str | None = None,
        status_url: str | None = None,
        fallback: str | None = None,
        endpoint_s: float = 0.0,
    ) -> None:
        self.human = human or HumanBehaviour()
        self.humans = dict(humans or {})
        self.reports: list[CallReport] = []
        """Of the people who called in, in the order in which they did."""
        self.human_calls: list[OutboundCall] = []
        """Of the humans who were rung, in the order in which they were."""
        self._network = Network(public_url, targets)
        base = self._network.public_url
        self._voice_url = voice_url or f"{base}/voice/inbound"
        self._status_url = status_url or f"{base}/voice/status"
        self._fallback = fallback or f"{base}/voice/fallback"
        if self._fallback.lstrip().startswith("<"):
            parse(self._fallback, None)
        self._client = HttpClient()
        self._background = Background()
        self._switchboard = Switchboard(
            account_sid=account_sid,
            network=self._network,
            webhooks=Webhooks(self._network, self._client, auth_token, self._background),
            background=self._background,
            fault_dice=FaultDice(seed, network_faults or NetworkFaults()),
            speed=speed,
            endpoint_s=endpoint_s,
            dial=self._ring,
        )
        self._api = ApiServer(RestApi(self._switchboard, auth_token).app, api_port)

    @classmethod
    def for_account(cls, account: PhoneAccount, **options: Any) -> Self:
        """One whose number is set up as `callflow twilio setup` sets up a real one."""
        number = wanted_settings(account.public_url)
        return cls(
            account.targets,
            account.public_url,
            account.account_sid,
            account.auth_token,
            api_port=account.api_port,
            voice_url=number.voice_url,
            status_url=number.status_callback,
            fallback=number.voice_fallback_url,
            **options,
        )

    @property
    def targets(self) -> list[str]:
        """The web processes; change the list in place."""
        return self._network.targets

    @property
    def api_url(self) -> str:
        """Where the REST API answers, in place of https://api.twilio.com."""
        return f"http://127.0.0.1:{self._api.port}"

    async def __aenter__(self) -> Self:
        await self._api.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for call in list(self._switchboard.calls.values()):
            call.hang_up()
            if isinstance(call, OutboundCall):
                call.stop()
        try:
            # Whoever was interrupted does not wait for the last repeats.
            await self.settle(SETTLE_S if kind is None else INTERRUPTED_S)
        finally:
            await self._client.__aexit__()
            await self._api.stop()

    async def settle(self, within_s: float = SETTLE_S) -> None:
        """Return when all calls are over and the last repeat has arrived; end what takes longer."""
        await self._background.settle(within_s)

    def place(
        self,
        person: Behaviour | SimulatedPerson,
        *,
        to: str = NUMBER,
        from_: str = LIFT,
        call_sid: str | None = None,
        language: str = "en",
        fillers: Collection[str] = (),
        on_event: EventCallback | None = None,
    ) -> Call:
        """Let somebody call. `language` and `fillers` are those of a Behaviour, if it is one."""
        sid = call_sid or self._switchboard.new_sid("CA")
        faults = self._switchboard.faults("caller")
        say_again: Collection[str] = ()
        if isinstance(person, Behaviour):
            say_again = person.say_again
            language, fillers = person.language, person.fillers
            own_faults = faults.of_caller(person.number_of_turns)
            person = Caller(person, own_faults, faults.dice("thinks"))
        identity = CallIdentity(self._switchboard.account_sid, sid, from_, to)
        listener = Listener(identity.new_report(language), fillers, on_event, say_again)
        self.reports.append(listener.report)
        call = Call(self._switchboard, identity, listener, person, faults, self._fallback)
        call.send_callbacks_to(self._status_url, ALL)
        call.become("ringing")
        call.start(call.run(CallStep(self._voice_url)))
        return call

    async def call(
        self,
        person: Behaviour | SimulatedPerson,
        *,
        to: str = NUMBER,
        from_: str = LIFT,
        call_sid: str | None = None,
        on_event: EventCallback | None = None,
    ) -> CallReport:
        placed = self.place(person, to=to, from_=from_, call_sid=call_sid, on_event=on_event)
        return await placed.ended()

    def _ring(self, asked: OutboundRequest) -> OutboundCall:
        faults = self._switchboard.faults("human")
        identity = CallIdentity(
            self._switchboard.account_sid,
            self._switchboard.new_sid("CA"),
            asked.caller,
            asked.to,
            asked.direction,
            asked.parent_sid,
        )
        behaviour = self.humans.get(asked.to, self.human)
        listener = Listener(identity.new_report(""))
        call = OutboundCall(self._switchboard, identity, listener, behaviour, faults, asked)
        call.send_callbacks_to(asked.status_url, asked.events)
        self.human_calls.append(call)
        call.start(call.ring())
        return call


async def load(
    carrier: Carrier,
    person: Callable[[int], Behaviour],
    *,
    calls: int,
    rate_per_s: float,
    to: str = NUMBER,
    from_: str = LIFT,
    placed: Callable[[Call], None] = lambda _: None,
) -> list[CallReport]:
    """Place `calls` calls at an even rate and wait for the end of all.

    `person` gives the behaviour of each by its number from 0; `placed` is told of each call as it
    begins.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    ongoing: list[Call] = []
    for number in range(calls):
        await asyncio.sleep(max(0.0, began + number / rate_per_s - loop.time()))
        call = carrier.place(person(number), to=to, from_=from_)
        ongoing.append(call)
        placed(call)
    return list(await asyncio.gather(*(call.ended() for call in ongoing)))
