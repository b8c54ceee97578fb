"""Humans: rung by REST or by <Dial>, whispered to, put together with the caller, and gone again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from twilio.base.exceptions import TwilioRestException
from twilio.http.http_client import TwilioHttpClient
from twilio.rest import Client

from callflow.lab.carrier.carrier import ApiPortTaken, Carrier
from callflow.lab.carrier.network_faults import NetworkFaults
from callflow.lab.carrier.simulated_people import HumanBehaviour
from tests.phone.liftline import (
    ACCOUNT,
    PUBLIC,
    TOKEN,
    Asked,
    LiftLine,
    carrier_of,
    gather,
    person,
    response,
    say,
    url,
)

HUMAN = "+441632960500"
CALLS = f"/2010-04-01/Accounts/{ACCOUNT}/Calls"


def key(text: str, call: str) -> str:
    action = url("/voice/human", call=call, asked=1)
    return (
        f'<Gather input="dtmf" action="{action}" timeout="1" numDigits="1" '
        f'actionOnEmptyResult="true">{say(text)}</Gather>'
    )


def conference(name: str, **attributes: str) -> str:
    shown = " ".join(f'{one}="{value}"' for one, value in attributes.items())
    room = f'<Conference endConferenceOnExit="true" waitUrl="" {shown}>{name}</Conference>'
    return f'<Dial action="{url("/voice/transfer-ended")}">{room}</Dial>'


class WithHumans:
    """The application with a ladder of one: it rings at the first turn, and joins who accepts."""

    def __init__(self) -> None:
        self.line = LiftLine(
            {
                "/voice/turn": self.turn,
                "/voice/human": self.human,
                "/voice/join": self.join,
                "/voice/transfer-ended": self.transfer_ended,
                "/voice/human-left": self.human_left,
            }
        )
        self.rest: Rest | None = None
        self.rung = ""

    async def turn(self, asked: Asked) -> str:
        assert self.rest is not None
        if asked.query["n"] == "1":
            self.rung = await self.rest.ring(asked.sid)
        return response(gather("Somebody is coming.", int(asked.query["n"]) + 1, timeout=9))

    async def human(self, asked: Asked) -> str:
        call = asked.query["call"]
        if "asked" not in asked.query:
            return response(key("A lift calls. Press a key.", call))
        if "Digits" not in asked.fields:
            return response("<Hangup/>")
        assert self.rest is not None
        await self.rest.redirect(call)
        return response(conference(call).replace("transfer-ended", "human-left"))

    async def join(self, asked: Asked) -> str:
        return response(say("Here is a person."), conference(asked.sid))

    async def transfer_ended(self, asked: Asked) -> str:
        return response(gather("I am with you again.", 3))

    async def human_left(self, asked: Asked) -> str:
        return response("<Hangup/>")


class Rest:
    """REST as an application uses it."""

    def __init__(self, carrier: Carrier, client: httpx.AsyncClient) -> None:
        self.carrier = carrier
        self.client = client

    async def post(self, path: str, **fields: Any) -> httpx.Response:
        return await self.client.post(f"{self.carrier.api_url}{CALLS}{path}.json", data=fields)

    async def ring(self, call_sid: str) -> str:
        answer = await self.post(
            "",
            To=HUMAN,
            From="+441632960010",
            Url=f"{PUBLIC}/voice/human?call={call_sid}",
            StatusCallback=f"{PUBLIC}/voice/leg-status?call={call_sid}",
            StatusCallbackEvent=["initiated", "ringing", "answered", "completed"],
            Timeout=1,
        )
        assert answer.status_code == 201, answer.text
        return str(answer.json()["sid"])

    async def redirect(self, call_sid: str) -> httpx.Response:
        return await self.post(f"/{call_sid}", Url=f"{PUBLIC}/voice/join")


@asynccontextmanager
async def with_humans(
    app: WithHumans, behaviour: HumanBehaviour
) -> AsyncIterator[tuple[Carrier, Rest]]:
    async with carrier_of(app.line, humans={HUMAN: behaviour}) as carrier:
        async with httpx.AsyncClient(auth=(ACCOUNT, TOKEN), trust_env=False) as client:
            app.rest = Rest(carrier, client)
            yield carrier, app.rest


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await asyncio.wait_for(story(), 20)

    asyncio.run(whole())


def test_a_human_who_presses_the_key_is_put_together_with_the_caller() -> None:
    async def story() -> None:
        app = WithHumans()
        behaviour = HumanBehaviour(after_s=0.1, thinks_s=0.05, talks_s=0.3)
        async with with_humans(app, behaviour) as (carrier, _):
            report = await carrier.call(person("we are stuck", "", "thank you"))
        assert report.with_human
        kinds = [(one.kind, one.text) for one in report.heard if one.kind in ("say", "human")]
        assert kinds == [("say", "Here is a person."), ("human", "")]
        talk = next(one for one in report.heard if one.kind == "human")
        assert talk.until_s is not None
        assert 0.25 < talk.until_s - talk.at_s < 1.5
        (left,) = app.line.to("/voice/transfer-ended")
        assert left.fields["DialCallStatus"] == "answered"
        assert report.turns[-1].answered
        (leg,) = carrier.human_calls
        assert [one.kind for one in leg.report.heard] == ["gather", "caller"]
        assert leg.report.ended_by == "caller"
        statuses = [asked.fields["CallStatus"] for asked in app.line.to("/voice/leg-status")]
        assert statuses == ["initiated", "ringing", "in-progress", "completed"]
        assert all(asked.signed for asked in app.line.asked)
        assert {asked.fields["Direction"] for asked in app.line.to("/voice/human")} == {
            "outbound-api"
        }
        # A redirect asks no action of the Gather that it interrupts.
        said = [asked.fields["SpeechResult"] for asked in app.line.to("/voice/turn")]
        assert said == ["we are stuck", "thank you"]
        assert report.longest_silence_s < 1

    run(story)


def test_who_does_not_accept_is_told_by_the_status() -> None:
    cases = [
        (HumanBehaviour("never"), ["initiated", "ringing", "no-answer"]),
        (HumanBehaviour("busy"), ["initiated", "busy"]),
        (HumanBehaviour("refuses", after_s=0.1), ["initiated", "ringing", "busy"]),
        (HumanBehaviour("fails"), ["initiated", "failed"]),
        (
            HumanBehaviour(after_s=0.1, presses=None),
            ["initiated", "ringing", "in-progress", "completed"],
        ),
        (
            HumanBehaviour(after_s=0.1, presses=None, hangs_up_after_s=0.2),
            ["initiated", "ringing", "in-progress", "completed"],
        ),
    ]

    async def one(behaviour: HumanBehaviour, statuses: list[str]) -> None:
        app = WithHumans()
        async with with_humans(app, behaviour) as (carrier, _):
            report = await carrier.call(person("we are stuck", "", hang_up_after_s=2.5))
        assert not report.with_human
        told = [asked.fields["CallStatus"] for asked in app.line.to("/voice/leg-status")]
        assert told == statuses

    async def story() -> None:
        await asyncio.gather(*(one(*case) for case in cases))

    run(story)


def test_a_caller_who_hangs_up_leaves_the_conference() -> None:
    async def story() -> None:
        app = WithHumans()
        behaviour = HumanBehaviour(after_s=0.05, thinks_s=0.0, talks_s=None)
        async with with_humans(app, behaviour) as (carrier, _):
            report = await carrier.call(person("we are stuck", "", with_human_s=0.1))
            await carrier.settle()
        assert report.ended_by == "caller"
        assert len(app.line.to("/voice/human-left")) == 1
        assert carrier.human_calls[0].status == "completed"

    run(story)


def test_a_dialled_number_rings_hears_a_whisper_and_is_connected() -> None:
    async def turn(asked: Asked) -> str:
        whisper, action = url("/voice/human", out=1), url("/voice/transfer-ended", rung=1)
        number = f'<Number url="{whisper}">{HUMAN}</Number>'
        return response(f'<Dial timeout="1" action="{action}">{number}</Dial>')

    async def human(asked: Asked) -> str:
        if "asked" in asked.query:
            return response() if "Digits" in asked.fields else response("<Hangup/>")
        return response(key("A lift calls.", "none"))

    async def story(behaviour: HumanBehaviour) -> tuple[LiftLine, Any, Carrier]:
        line = LiftLine({"/voice/turn": turn, "/voice/human": human})
        async with carrier_of(line, humans={HUMAN: behaviour}) as carrier:
            report = await carrier.call(person("we are stuck"))
        return line, report, carrier

    async def accepted() -> None:
        behaviour = HumanBehaviour(after_s=0.7, thinks_s=0.0, talks_s=0.2)
        line, report, carrier = await story(behaviour)
        assert [one.kind for one in report.turns[0].heard] == ["ring", "human"]
        (ended,) = line.to("/voice/transfer-ended")
        assert ended.fields["DialCallStatus"] == "completed"
        assert ended.fields["DialBridged"] == "true"
        assert ended.fields["DialCallSid"] == carrier.human_calls[0].identity.call_sid
        asked = line.to("/voice/human")[0]
        assert asked.fields["ParentCallSid"] == report.call_sid
        assert asked.fields["Direction"] == "outbound-dial"
        # While it rings nobody is silent.
        assert report.longest_silence_s < 0.5

    async def unheard() -> None:
        line, report, _ = await story(HumanBehaviour("never"))
        (ended,) = line.to("/voice/transfer-ended")
        assert ended.fields["DialCallStatus"] == "no-answer"
        assert not report.with_human

    async def not_accepted() -> None:
        line, report, _ = await story(HumanBehaviour(after_s=0.05, presses=None))
        (ended,) = line.to("/voice/transfer-ended")
        assert ended.fields["DialBridged"] == "false"
        assert not report.with_human

    async def stories() -> None:
        await asyncio.gather(accepted(), unheard(), not_accepted())

    run(stories)


def test_rest_answers_as_twilio_does() -> None:
    async def story() -> None:
        app = WithHumans()
        async with with_humans(app, HumanBehaviour("never")) as (carrier, rest):
            ended = await carrier.call(person("help"))
            answers = [
                await rest.post(f"/{ended.call_sid}", Url=f"{PUBLIC}/voice/join"),
                await rest.post("/CAunknown", Url=f"{PUBLIC}/voice/join"),
                await rest.post("", From=HUMAN, Url=PUBLIC),
                await rest.post("", To="999", From=HUMAN, Url=PUBLIC),
                await rest.post("", To=HUMAN, From=HUMAN),
                await rest.post("", To=HUMAN, From=HUMAN, Twiml="x" * 4001),
            ]
            found = [(one.status_code, one.json()["code"]) for one in answers]
            assert found == [
                (400, 21220),
                (404, 20404),
                (400, 21201),
                (400, 21211),
                (400, 21205),
                (400, 32018),
            ]
            stranger = await httpx.AsyncClient(auth=(ACCOUNT, "wrong"), trust_env=False).post(
                f"{carrier.api_url}{CALLS}.json", data={}
            )
            assert (stranger.status_code, stranger.json()["code"]) == (401, 20003)

    run(story)


def test_rest_refuses_what_is_too_much() -> None:
    async def story() -> None:
        async with carrier_of(LiftLine(), network_faults=NetworkFaults(throttle=1)) as carrier:
            async with httpx.AsyncClient(auth=(ACCOUNT, TOKEN), trust_env=False) as client:
                answer = await client.get(f"{carrier.api_url}{CALLS}/CAany.json")
        assert (answer.status_code, answer.json()["code"]) == (429, 20429)

    run(story)


def test_a_running_call_can_be_given_a_document_and_be_ended() -> None:
    async def story() -> None:
        app = WithHumans()
        async with with_humans(app, HumanBehaviour("never")) as (carrier, rest):
            call = carrier.place(person(""))
            await call.line.until(
                lambda: call.line.receiver is not None and call.line.receiver.ready
            )
            spoken = response(say("The engineer is here."), "<Pause length='9'/>")
            answer = await rest.post(f"/{call.call_sid}", Twiml=spoken)
            assert (answer.status_code, answer.json()["status"]) == (200, "in-progress")
            await call.line.until(lambda: len(call.report.heard) == 2, 0.2)
            assert call.report.heard[-1].text == "The engineer is here."
            answer = await rest.post(f"/{call.call_sid}", Status="completed")
            assert answer.status_code == 200
            report = await call.ended()
        assert report.ended_by == "application"

    run(story)


def test_an_address_in_a_document_given_by_rest_must_be_absolute() -> None:
    async def fallback(asked: Asked) -> str:
        assert asked.fields["ErrorCode"] == "15004"
        return response(say("Still here."))

    async def story() -> None:
        app = WithHumans()
        app.line.handlers["/voice/fallback"] = fallback
        async with with_humans(app, HumanBehaviour("never")) as (carrier, rest):
            call = carrier.place(person(""))
            await call.line.until(lambda: call.line.receiver is not None)
            await rest.post(f"/{call.call_sid}", Twiml=response("<Redirect>/voice/join</Redirect>"))
            report = await call.ended()
        assert report.heard[-1].text == "Still here."

    run(story)


class _Local:
    """Twilio's own client, sent to another host."""

    def __init__(self, api_url: str) -> None:
        self._api_url = api_url
        self._client = TwilioHttpClient(timeout=3)

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        there = url.replace("https://api.twilio.com", self._api_url)
        return self._client.request(method, there, *args, **kwargs)


def test_twilios_own_client_understands_the_answers() -> None:
    async def story() -> None:
        line = LiftLine()
        async with carrier_of(line, human=HumanBehaviour("never")) as carrier:
            client = Client(ACCOUNT, TOKEN, http_client=_Local(carrier.api_url))

            def talk() -> tuple[str, str, str, int]:
                made = client.calls.create(
                    to=HUMAN, from_="+441632960010", url=f"{PUBLIC}/voice/human", timeout=20
                )
                ended = client.calls(made.sid).update(status="completed")
                with pytest.raises(TwilioRestException) as refused:
                    client.calls("CAnobody").fetch()
                return made.sid, made.status, ended.sid, refused.value.code

            sid, status, ended, code = await asyncio.to_thread(talk)
            assert (status, ended, code) == ("queued", sid, 20404)
            await carrier.settle()
        assert carrier.human_calls[0].status == "canceled"

    run(story)


def test_a_port_that_is_taken_is_said_so() -> None:
    async def story() -> None:
        async with carrier_of(LiftLine()) as carrier:
            port = int(carrier.api_url.rpartition(":")[2])
            with pytest.raises(ApiPortTaken, match="another phone"):
                async with Carrier([], PUBLIC, ACCOUNT, TOKEN, api_port=port):
                    raise AssertionError("it must not begin")

    run(story)
