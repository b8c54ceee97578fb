"""A call by webhooks: signed as Twilio signs, obeying what comes back, and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest
from starlette.responses import Response

from callflow.lab.carrier.carrier import Carrier
from callflow.lab.carrier.simulated_people import HumanBehaviour
from tests.phone.liftline import (
    ACCOUNT,
    FAST,
    PUBLIC,
    TOKEN,
    Asked,
    LiftLine,
    carrier_of,
    free_port,
    gather,
    in_event_loop,
    person,
    response,
    say,
    served,
    url,
)


@in_event_loop
async def test_a_conversation_is_a_row_of_signed_webhooks() -> None:
    line = LiftLine()
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("we are stuck", "two of us"))
    assert [turn.said for turn in report.turns] == ["we are stuck", "two of us"]
    assert all(turn.accepted and turn.answered for turn in report.turns)
    assert [one.text for one in report.turns[0].heard] == ["Reply 1: help is coming."]
    assert all(asked.signed for asked in line.asked)
    inbound, *turns = line.to("/voice/inbound") + line.to("/voice/turn")
    assert inbound.fields["CallStatus"] == "ringing"
    assert [asked.fields["SpeechResult"] for asked in turns] == ["we are stuck", "two of us"]
    assert {asked.sid for asked in line.asked} == {report.call_sid}
    assert (report.ended_by, report.failed, report.lost) == ("caller", False, [])


@in_event_loop
async def test_every_field_that_twilio_sends_is_there_blank_ones_too() -> None:
    line = LiftLine()
    async with carrier_of(line) as carrier:
        await carrier.call(person("help"), from_="anonymous")
    fields = line.to("/voice/inbound")[0].fields
    assert (fields["From"], fields["Caller"], fields["FromCity"]) == (
        "anonymous",
        "anonymous",
        "",
    )
    assert fields["AccountSid"] == ACCOUNT
    assert fields["ToCountry"] == "GB"
    assert len(fields) > 20


@in_event_loop
async def test_status_callbacks_are_numbered_and_tell_how_long_it_took() -> None:
    line = LiftLine()
    async with carrier_of(line) as carrier:
        await carrier.call(person("help"))
    statuses = [asked.fields for asked in line.to("/voice/status")]
    assert [fields["CallStatus"] for fields in statuses] == [
        "ringing",
        "in-progress",
        "completed",
    ]
    assert [fields["SequenceNumber"] for fields in statuses] == ["0", "1", "2"]
    assert statuses[-1]["CallDuration"] == "1"
    assert statuses[0]["Timestamp"].endswith("+0000")


@in_event_loop
async def test_the_end_of_a_document_hangs_up() -> None:
    async def inbound(asked: Asked) -> str:
        return response(say("Nobody is here."), "<Pause length='0'/>")

    async with carrier_of(LiftLine({"/voice/inbound": inbound})) as carrier:
        report = await carrier.call(person("hello"))
    assert (report.ended_by, report.turns) == ("application", [])
    assert [(one.kind, one.text) for one in report.heard] == [("say", "Nobody is here.")]


@in_event_loop
async def test_holding_phrases_and_redirects_lead_to_the_reply() -> None:
    async def turn(asked: Asked) -> str:
        return response(say("One moment."), f"<Redirect>{url('/voice/wait', n=1, k=1)}</Redirect>")

    async def wait(asked: Asked) -> str:
        assert asked.query == {"n": "1", "k": "1"}
        return response(gather("Here is the reply.", 2))

    line = LiftLine({"/voice/turn": turn, "/voice/wait": wait})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", fillers=("One moment.",)))
    heard = report.turns[0].heard
    assert [(one.kind, one.text, one.filler) for one in heard] == [
        ("say", "One moment.", True),
        ("gather", "Here is the reply.", False),
    ]
    assert report.turns[0].answered


@in_event_loop
async def test_a_turn_to_which_only_fillers_came_is_lost() -> None:
    async def turn(asked: Asked) -> str:
        return response(gather("Still here.", int(asked.query["n"]) + 1))

    async with carrier_of(LiftLine({"/voice/turn": turn})) as carrier:
        report = await carrier.call(person("help", "hello?", fillers=("still here.",)))
    assert [turn.number for turn in report.lost] == [1]


@in_event_loop
async def test_silence_falls_through_unless_the_empty_result_is_asked_for() -> None:
    async def inbound(asked: Asked) -> str:
        return response(
            gather("Hello?", 1, 0, actionOnEmptyResult="false"), say("I cannot hear you.")
        )

    line = LiftLine({"/voice/inbound": inbound})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person(""))
    assert report.heard[-1].text == "I cannot hear you."
    assert line.to("/voice/turn") == []
    line = LiftLine({"/voice/inbound": _listen_briefly})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("", "help"))
    silent, spoken = line.to("/voice/turn")
    assert "SpeechResult" not in silent.fields
    assert spoken.fields["SpeechResult"] == "help"
    assert report.turns[0].accepted


async def _listen_briefly(asked: Asked) -> str:
    return response(gather("Hello?", 1, 1))


@in_event_loop
async def test_a_line_of_one_key_is_pressed() -> None:
    line = LiftLine()
    async with carrier_of(line) as carrier:
        await carrier.call(person("0"))
    (turn,) = line.to("/voice/turn")
    assert turn.fields["Digits"] == "0"
    assert "SpeechResult" not in turn.fields


@in_event_loop
async def test_speech_cuts_the_prompt_off() -> None:
    async with carrier_of(LiftLine(), speed=5) as carrier:
        report = await carrier.call(person("stop", interrupts=((1, 0.5),)))
    greeting = report.greeting[0]
    assert greeting.cut
    assert report.turns[0].interrupted
    assert 8 <= len(greeting.text) <= 16
    assert "Are you inside the lift?".startswith(greeting.text)


@in_event_loop
async def test_silence_is_real_time_from_the_callers_words_to_the_next_sound() -> None:
    async def turn(asked: Asked) -> str:
        await asyncio.sleep(0.2)
        return response(say("One moment."), f"<Redirect>{url('/voice/wait', n=1)}</Redirect>")

    async def wait(asked: Asked) -> str:
        await asyncio.sleep(0.3)
        return response(gather("Reply.", 2))

    line = LiftLine({"/voice/turn": turn, "/voice/wait": wait})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", think_s=(0.6, 0.6)))
    # Thinking while the line listens is nobody's silence.
    reply, following = report.silences
    assert (reply.cause, following.cause) == ("reply", "next")
    assert 0.2 <= reply.length_s < 0.6
    assert 0.3 <= following.length_s < 0.7
    assert report.turns[0].reply_s is not None
    assert 0.5 <= report.turns[0].reply_s < 1.1


@in_event_loop
async def test_a_speech_timeout_is_a_silence_that_the_caller_hears() -> None:
    async def inbound(asked: Asked) -> str:
        return response(gather("Hello?", 1, speechTimeout="1"))

    async with carrier_of(LiftLine({"/voice/inbound": inbound})) as carrier:
        report = await carrier.call(person("help"))
    assert 1 <= report.longest_silence_s < 1.2


@in_event_loop
async def test_a_refused_connection_is_tried_again_elsewhere_with_the_same_body() -> None:
    line = LiftLine()
    async with served(line) as target:
        dead = f"http://127.0.0.1:{free_port()}"
        async with Carrier([dead, target], PUBLIC, ACCOUNT, TOKEN, speed=FAST) as carrier:
            report = await carrier.call(person("help", "us"))
    assert report.retries > 0
    assert all(turn.answered for turn in report.turns)
    retried = [one for one in line.asked if "i-twilio-idempotency-token" in one.headers]
    assert retried
    assert all(one.signed for one in retried)


@pytest.mark.parametrize(("policy", "tried"), [("all", 3), ("5xx", 3), ("ct", 1), ("4xx", 1)])
@in_event_loop
async def test_what_is_tried_again_is_written_in_the_address(policy: str, tried: int) -> None:
    async def broken(asked: Asked) -> Response:
        return Response(status_code=503)

    line = LiftLine({"/voice/inbound": broken})
    voice = f"{PUBLIC}/voice/inbound#rc=2&rp={policy}"
    async with carrier_of(line, voice_url=voice) as carrier:
        await carrier.call(person("help"))
    assert len(line.to("/voice/inbound")) == tried


@in_event_loop
async def test_an_answer_that_takes_too_long_is_no_answer() -> None:
    async def slow(asked: Asked) -> str:
        await asyncio.sleep(0.6)
        return response()

    async def fallback(asked: Asked) -> str:
        return response(say("Please hold."))

    line = LiftLine({"/voice/inbound": slow, "/voice/fallback": fallback})
    voice = f"{PUBLIC}/voice/inbound#rt=150&rc=1&rp=rt"
    async with carrier_of(line, voice_url=voice) as carrier:
        began = time.monotonic()
        report = await carrier.call(person("help"))
    assert time.monotonic() - began < 1.5
    assert len(line.to("/voice/inbound")) == 2
    assert report.heard[-1].text == "Please hold."


@in_event_loop
async def test_a_webhook_that_fails_for_good_goes_to_the_fallback() -> None:
    async def broken(asked: Asked) -> Response:
        return Response(status_code=500)

    async def fallback(asked: Asked) -> str:
        return response(gather("I am still here.", 2))

    async def second(asked: Asked) -> str | Response:
        return response("<Hangup/>") if asked.query["n"] == "2" else await broken(asked)

    line = LiftLine({"/voice/turn": second, "/voice/fallback": fallback})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", "hello?"))
    (asked,) = line.to("/voice/fallback")
    assert asked.fields["ErrorCode"] == "11200"
    assert asked.fields["ErrorUrl"] == f"{PUBLIC}/voice/turn?n=1"
    assert (asked.fields["CallStatus"], asked.signed) == ("in-progress", True)
    assert [turn.accepted for turn in report.turns] == [False, True]
    assert not report.failed


@pytest.mark.parametrize("answer", ["<Response><Sing/></Response>", "oops", None])
@in_event_loop
async def test_when_the_fallback_fails_too_the_caller_hears_an_error(answer: str | None) -> None:
    async def broken(asked: Asked) -> str | Response:
        return Response(status_code=404) if answer is None else answer

    line = LiftLine({"/voice/inbound": broken, "/voice/fallback": broken})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help"))
    assert (report.failed, report.ended_by) == (True, "carrier")
    assert report.heard[-1].kind == "stock"
    assert len(report.failures) == 2


@in_event_loop
async def test_a_fallback_document_may_be_hosted_at_the_carrier() -> None:
    dead = f"http://127.0.0.1:{free_port()}"
    async with Carrier(
        [dead], PUBLIC, ACCOUNT, TOKEN, speed=FAST, fallback=response(say("We ring somebody."))
    ) as carrier:
        report = await carrier.call(person("help"))
    assert (report.heard[-1].text, report.failed) == ("We ring somebody.", False)


@in_event_loop
async def test_a_hosted_fallback_can_begin_again_while_the_application_is_gone() -> None:
    again = "<Gather timeout='0' actionOnEmptyResult='true'/>"
    ladder = "<Dial timeout='1'>+441632960101</Dial><Dial>+441632960102</Dial>"
    dead = f"http://127.0.0.1:{free_port()}"
    async with Carrier(
        [dead],
        PUBLIC,
        ACCOUNT,
        TOKEN,
        speed=FAST,
        fallback=response(say("We ring somebody."), ladder, again),
        humans={"+441632960101": HumanBehaviour("busy")},
        human=HumanBehaviour(after_s=0.1, talks_s=0.1),
    ) as carrier:
        report = await carrier.call(person("help", with_human_s=0.05))
        sleepers = {"+441632960101": HumanBehaviour("busy")}
        carrier.humans |= sleepers | {"+441632960102": HumanBehaviour("fails")}
        unheard = await carrier.call(person("help", hang_up_after_s=0.3))
    assert report.with_human
    assert not report.failed
    words = [one.text for one in unheard.heard if one.kind == "say"]
    assert len(words) > 2
    assert set(words[:-1]) == {"We ring somebody."}


@in_event_loop
async def test_a_caller_who_hangs_up_in_the_middle_of_a_webhook_was_heard() -> None:
    async def turn(asked: Asked) -> str:
        await asyncio.sleep(0.2)
        return response(gather("Too late.", 2))

    line = LiftLine({"/voice/turn": turn})
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", hang_up_in=(1, 0.05)))
    assert report.turns[0].accepted
    assert (report.turns[0].heard, report.lost) == ([], [])
    assert line.to("/voice/status")[-1].fields["CallStatus"] == "completed"


@in_event_loop
async def test_a_caller_may_lose_patience() -> None:
    async def turn(asked: Asked) -> str:
        await asyncio.sleep(1)
        return response()

    async with carrier_of(LiftLine({"/voice/turn": turn})) as carrier:
        report = await carrier.call(person("help", patience_s=0.2))
    assert (report.gave_up, report.ended_by) == (True, "caller")
    assert 0.2 <= report.silences[-1].length_s < 0.9


def test_a_gather_without_an_action_asks_for_its_own_document_again() -> None:
    async def inbound(asked: Asked) -> str:
        if len(line.to("/voice/inbound")) == 3:
            return response("<Hangup/>")
        return response("<Gather timeout='0' actionOnEmptyResult='true'/>")

    line = LiftLine({"/voice/inbound": inbound})

    async def story() -> None:
        async with carrier_of(line) as carrier:
            report = await carrier.call(person("help"))
        assert report.ended_by == "application"

    asyncio.run(story())
    assert len(line.to("/voice/inbound")) == 3
