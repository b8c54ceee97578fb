"""A call by a ConversationRelay socket: the frames, what is heard of them, and how it ends."""

from __future__ import annotations

import asyncio
import json

import pytest
from starlette.websockets import WebSocket, WebSocketDisconnect

from tests.phone.liftline import (
    ACCOUNT,
    Asked,
    LiftLine,
    carrier_of,
    in_event_loop,
    person,
    prompt,
    receive,
    relay,
    response,
    say,
    speak,
)


async def inbound(asked: Asked) -> str:
    return response(relay(welcomeGreeting="Are you inside?", language="en-GB"))


async def again(asked: Asked) -> str:
    return response(relay(language="en-GB"))


@in_event_loop
async def test_a_conversation_is_a_row_of_frames() -> None:
    frames: list[dict[str, object]] = []

    async def talk(websocket: WebSocket) -> None:
        while True:
            frame = await receive(websocket)
            frames.append(frame)
            if frame["type"] == "dtmf" or (frame["type"] == "prompt" and frame["last"]):
                await speak(websocket, "Stay ", "inside, ", "please.")

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("we are stuck", "0"))
    assert line.socket_signatures == [True]
    setup, half, whole = frames[:3]
    assert setup["type"] == "setup"
    assert (setup["callSid"], setup["accountSid"]) == (report.call_sid, ACCOUNT)
    assert setup["customParameters"] == {"lift": "L1"}
    assert half == {"type": "prompt", "voicePrompt": "we are", "lang": "en-GB", "last": False}
    assert whole == {**half, "voicePrompt": "we are stuck", "last": True}
    assert frames[3] == {"type": "dtmf", "digit": "0"}
    assert [one.text for one in report.turns[0].heard] == ["Stay inside, please."]
    assert all(turn.accepted for turn in report.turns)
    assert report.turns[0].first_token_s is not None
    assert report.turns[0].first_token_s < 1
    assert (report.lost, report.failed, report.sessions) == ([], False, 1)
    (ended,) = line.to("/voice/relay-ended")
    assert ended.fields["SessionStatus"] == "completed"
    assert ended.fields["CallStatus"] == "completed"


@in_event_loop
async def test_an_interruption_tells_exactly_what_was_spoken() -> None:
    interrupts: list[dict[str, object]] = []
    said = "Please stay inside and keep away from the doors until somebody comes."

    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await speak(websocket, *(f"{word} " for word in said.split()))
        while True:
            frame = await receive(websocket)
            if frame["type"] == "interrupt":
                interrupts.append(frame)
            elif frame["type"] == "prompt" and frame["last"]:
                await speak(websocket, "All right.")

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line, speed=8) as carrier:
        report = await carrier.call(person("help", "wait", interrupts=((2, 0.5),)))
    (interrupt,) = interrupts
    heard = report.turns[0].heard[0]
    assert heard.cut
    assert heard.text == interrupt["utteranceUntilInterrupt"]
    assert said.startswith(heard.text.rstrip())
    assert 0.4 * len(said) < len(heard.text) < 0.75 * len(said)
    lasted_ms = interrupt["durationUntilInterruptMs"]
    assert isinstance(lasted_ms, int)
    # At the pace of a telephone, however fast this test speaks.
    assert abs(lasted_ms - len(heard.text) / 15 * 1000) < 150
    assert report.turns[1].interrupted


@in_event_loop
async def test_what_may_not_be_interrupted_is_heard_to_its_end() -> None:
    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        frame = {"type": "text", "token": "Listen to me.", "last": True, "interruptible": False}
        await websocket.send_text(json.dumps(frame))
        await prompt(websocket)
        await speak(websocket, "Good.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", "wait", interrupts=((2, 0.3),)))
    assert not report.turns[0].heard[0].cut
    assert not report.turns[1].interrupted


@in_event_loop
async def test_a_pause_in_the_middle_of_a_reply_is_a_silence_too() -> None:
    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await websocket.send_text(json.dumps({"type": "text", "token": "Stay", "last": False}))
        await asyncio.sleep(0.3)
        await speak(websocket, " inside.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help"))
    (pause,) = [one for one in report.silences if one.cause == "mid_reply"]
    assert 0.2 < pause.length_s < 0.8
    assert [one.text for one in report.turns[0].heard] == ["Stay inside."]


@in_event_loop
async def test_a_holding_phrase_is_no_reply() -> None:
    async def talk(websocket: WebSocket) -> None:
        for turn in (1, 2):
            await prompt(websocket)
            await speak(websocket, "One moment.")
            await asyncio.sleep(0.1)
            await websocket.send_text(json.dumps({"type": "text", "token": "So: ", "last": False}))
            await speak(websocket, "One moment.")
            await speak(websocket, f"reply {turn}.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", "us", fillers=["One moment."]))
    heard = [(one.text, one.filler) for one in report.turns[0].heard]
    assert heard == [
        ("One moment.", True),
        ("So: ", False),
        ("One moment.", True),
        ("reply 1.", False),
    ]
    assert report.turns[1].answered


@in_event_loop
async def test_an_end_frame_leads_to_the_action_with_its_handoff() -> None:
    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await websocket.send_text(json.dumps({"type": "end", "handoffData": '{"reason": "human"}'}))
        with pytest.raises(WebSocketDisconnect):
            await receive(websocket)

    async def ended(asked: Asked) -> str:
        return response(say("Goodbye."))

    line = LiftLine({"/voice/inbound": inbound, "/voice/relay-ended": ended}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("a human please"))
    (asked,) = line.to("/voice/relay-ended")
    assert asked.fields["SessionStatus"] == "ended"
    assert asked.fields["HandoffData"] == '{"reason": "human"}'
    assert asked.fields["CallStatus"] == "in-progress"
    assert report.turns[0].accepted
    assert report.heard[-1].text == "Goodbye."


@in_event_loop
async def test_a_lost_socket_leads_to_the_action_and_the_call_goes_on() -> None:
    sessions = 0

    async def talk(websocket: WebSocket) -> None:
        nonlocal sessions
        sessions += 1
        if sessions == 1:
            await prompt(websocket)
            await websocket.send_text(json.dumps({"type": "text", "token": "Stay ", "last": False}))
            await websocket.close(1011)
            return
        frame = await receive(websocket)
        assert frame["type"] == "setup"
        await speak(websocket, "inside.")
        await prompt(websocket)
        await speak(websocket, "Good.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound, "/voice/relay-ended": again}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", "okay"))
    failed = line.to("/voice/relay-ended")[0].fields
    assert failed["SessionStatus"] == "failed"
    assert failed["ErrorCode"] == "39001"
    assert "".join(one.text for one in report.turns[0].heard).endswith("inside.")
    assert report.turns[1].answered
    assert report.sessions == 2
    assert len(report.failures) == 1


@in_event_loop
async def test_a_socket_that_cannot_be_opened_leads_to_the_action() -> None:
    async def talk(websocket: WebSocket) -> None:
        raise AssertionError("nobody gets here")

    async def ended(asked: Asked) -> str:
        return response(say("Without a socket."))

    async def elsewhere(asked: Asked) -> str:
        return response(relay().replace('org/voice/relay"', 'org/voice/nothing"'))

    line = LiftLine({"/voice/inbound": elsewhere, "/voice/relay-ended": ended}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help"))
    assert line.to("/voice/relay-ended")[0].fields["SessionStatus"] == "failed"
    assert report.heard[-1].text == "Without a socket."


@in_event_loop
async def test_ten_malformed_frames_in_a_row_close_the_socket() -> None:
    seen: list[dict[str, object]] = []
    closed: list[int] = []

    async def talk(websocket: WebSocket) -> None:
        await receive(websocket)
        for frame in ['{"type": "foo"}', "not json", '{"type": "text"}', "[]"] * 3:
            await websocket.send_text(frame)
        try:
            while True:
                seen.append(await receive(websocket))
        except WebSocketDisconnect as gone:
            closed.append(gone.code)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", think_s=(1.0, 1.0)))
    assert [one["type"] for one in seen] == ["error"] * 10
    assert seen[0]["description"] == 'Invalid message received: {"type": "foo"}'
    assert closed == [1007]
    assert line.to("/voice/relay-ended")[0].fields["SessionStatus"] == "failed"
    assert report.ended_by == "application"


@in_event_loop
async def test_words_that_nobody_reacts_to_are_said_again() -> None:
    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await prompt(websocket)
        await speak(websocket, "Sorry, now I hear you.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help", repeats_after_s=0.3))
    first, second = report.turns
    assert (first.said, second.said) == ("help", "help")
    assert (first.answered, second.repeated, second.answered) == (False, True, True)
    assert [turn.number for turn in report.lost] == [1]


@in_event_loop
async def test_who_is_asked_for_what_they_said_says_it_again_at_once() -> None:
    """Although the phrase is no answer, and they go on waiting after other phrases."""
    once_more = "Could you say that once more, please?"

    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await speak(websocket, once_more)
        await prompt(websocket)
        await speak(websocket, "Now I have it.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        asked = person("help", fillers=(once_more,), say_again=(once_more,))
        report = await carrier.call(asked)
    first, second = report.turns
    assert (first.said, second.said, second.repeated) == ("help", "help", True)
    assert (first.answered, second.answered) == (False, True)
    assert not [one for one in report.silences if one.cause == "next"]


@in_event_loop
async def test_a_caller_whom_nobody_greets_speaks_first() -> None:
    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await speak(websocket, "Hello.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": again}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("hello?", repeats_after_s=0.2))
    assert report.turns[0].answered
    assert report.silences[0].cause == "greeting"


@in_event_loop
async def test_who_has_asked_nothing_does_not_wait_after_a_holding_phrase() -> None:
    async def greeted(asked: Asked) -> str:
        return response(relay(welcomeGreeting="One moment."))

    async def talk(websocket: WebSocket) -> None:
        await prompt(websocket)
        await speak(websocket, "Hello.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": greeted}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("hello", fillers=("One moment.",)))
    assert report.turns[0].answered
    assert report.longest_silence_s < 0.5


@in_event_loop
async def test_digits_that_the_application_sends_are_kept() -> None:
    async def talk(websocket: WebSocket) -> None:
        await websocket.send_text(json.dumps({"type": "sendDigits", "digits": "1"}))
        await prompt(websocket)
        await speak(websocket, "Good.")
        await receive(websocket)

    line = LiftLine({"/voice/inbound": inbound}, talk)
    async with carrier_of(line) as carrier:
        report = await carrier.call(person("help"))
    assert report.digits_sent == ["1"]
