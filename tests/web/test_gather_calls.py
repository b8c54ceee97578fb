"""A call by webhooks: what the carrier is told at each step, and what the record holds then."""

from __future__ import annotations

from callflow.call.state import CallState
from tests.exchange import ALONE, Exchange, Line
from tests.parts import SID


def test_a_call_is_answered_by_a_machine_that_says_so_and_asks(line: Line) -> None:
    answer = line.arrives()
    assert answer.names == ["Gather", "Redirect"]
    assert "automated assistant" in answer.says
    assert answer.target("Gather") == ("/voice/turn", {"n": "1"})


def test_the_language_is_that_of_the_lift(exchange: Exchange) -> None:
    answer = exchange.line(called=ALONE).arrives()
    assert "asistente automático" in answer.says
    (gather, _) = answer.verbs
    assert gather.get("language") == "es-ES"


def test_a_caller_who_speaks_another_language_is_answered_and_heard_in_it(
    exchange: Exchange, line: Line
) -> None:
    line.arrives()
    with exchange.worker("Quédese dentro."):
        answer = line.says(1, "no hablo inglés estamos encerrados en el ascensor por favor")
        (gather, _) = answer.verbs
        assert gather.get("language") == "es-ES"
        assert {say.get("language") for say in gather.iter("Say")} == {"es-ES"}
        assert exchange.parts.record().language == "es"
        # Too few words to change it back.
        (again, _) = line.says(2, "yes").verbs
        assert again.get("language") == "es-ES"


def test_what_the_caller_heard_first_stands_in_the_record(exchange: Exchange, line: Line) -> None:
    answer = line.arrives()
    record = exchange.parts.record()
    assert record.site == "tower"
    assert record.said(0, "agent") == answer.says


def test_the_reply_is_said_and_the_next_turn_listened_for(exchange: Exchange, line: Line) -> None:
    line.arrives()
    with exchange.worker("Stay inside. ", "How many are you?"):
        answer = line.says(1, "we are stuck")
    assert answer.says == "Stay inside. How many are you?"
    assert answer.target("Gather") == ("/voice/turn", {"n": "2"})
    assert exchange.parts.record().said(1, "caller") == "we are stuck"


def test_a_caller_who_waits_hears_a_phrase_and_then_the_reply(
    exchange: Exchange, line: Line
) -> None:
    line.arrives()
    holding = line.says(1, "we are stuck")
    assert holding.names == ["Say", "Redirect"]
    assert holding.target("Redirect") == ("/voice/wait", {"n": "1", "k": "1"})

    with exchange.worker("Stay inside."):
        assert line.follow(holding, "Redirect").says == "Stay inside."


def test_a_repeated_webhook_changes_nothing_and_gets_the_same_answer(
    exchange: Exchange, line: Line
) -> None:
    line.arrives()
    with exchange.worker("Stay inside."):
        first = line.says(1, "we are stuck")
        again = line.says(1, "something else")
    assert again.text == first.text
    assert exchange.parts.record().said(1, "caller") == "we are stuck"
    assert exchange.parts.events().count("committed") == 1


def test_a_late_copy_of_an_old_turn_says_the_old_reply_and_nothing_changes(
    exchange: Exchange, line: Line
) -> None:
    line.arrives()
    with exchange.worker("Reply."):
        for turn in (1, 2, 3):
            line.says(turn, f"utterance {turn}")
        before = exchange.parts.record()
        assert line.says(1, "utterance 1").target("Gather") == ("/voice/turn", {"n": "2"})
    assert exchange.parts.record() == before


def test_silence_is_a_turn_too(exchange: Exchange, line: Line) -> None:
    line.arrives()
    with exchange.worker("Can you hear me?"):
        assert line.says(1, "").says == "Can you hear me?"
    assert exchange.parts.record().unclear == 1


def test_a_key_reaches_the_record(exchange: Exchange, line: Line) -> None:
    line.arrives()
    with exchange.worker("Yes."):
        line.post("/voice/turn", {"n": 1}, Digits="5")
    entry = exchange.parts.record().conversation_thread[1]
    assert (entry.text, entry.digits) == ("", "5")


ASKING = (
    ({"Digits": "0"}, "pressed_0"),
    ({"SpeechResult": "can I talk to a real person please"}, "asked"),
    ({"SpeechResult": "quiero hablar con una persona"}, "asked"),
    ({"SpeechResult": "我要转人工"}, "asked"),
)


def test_whoever_asks_for_a_person_has_one_rung(exchange: Exchange) -> None:
    with exchange.worker("Yes."):
        for number, (fields, reason) in enumerate(ASKING):
            line = exchange.arrived(call_sid=f"CA{number}", called=ALONE)
            line.post("/voice/turn", {"n": 1}, **fields)
            record = exchange.parts.record(line.call_sid)
            assert record.needs_human == reason, fields
            assert record.alert is not None, fields


def test_two_turns_that_were_hardly_understood_fetch_a_person(exchange: Exchange) -> None:
    line = exchange.arrived(called=ALONE)
    with exchange.worker("Can you hear me?"):
        line.says(1, "brr", Confidence="0.05")
        assert exchange.parts.record().needs_human is None
        line.says(2, "brr", Confidence="0.1")
        assert exchange.parts.record().needs_human == "not_understood"


def test_what_has_no_confidence_counts_as_understood(exchange: Exchange, line: Line) -> None:
    line.arrives()
    with exchange.worker("Stay inside."):
        for turn, confidence in enumerate(("", "", "0.9", "0.9", "nonsense", "nonsense"), 1):
            line.says(turn, "stuck", Confidence=confidence)
    assert exchange.parts.record().unclear == 0


def test_the_recognition_is_told_which_words_matter(exchange: Exchange, line: Line) -> None:
    del exchange
    expected = line.arrives().verbs[0].get("hints", "").split(",")
    assert {"smoke", "not breathing"} & set(expected)
    assert len(expected) <= 500
    assert all(0 < len(each) <= 100 for each in expected)


def test_how_sure_the_recogniser_was_is_kept(exchange: Exchange, line: Line) -> None:
    line.arrives()
    given = {"0.87": 0.87, "0.4": 0.4, "": None, "0.0": None, "nonsense": None, "7": None}
    with exchange.worker("Stay inside."):
        for turn, confidence in enumerate(given, 1):
            line.says(turn, "stuck", Confidence=confidence)
    thread = exchange.parts.record().conversation_thread
    kept = [entry.confidence for entry in thread if entry.role == "caller"]
    assert kept == list(given.values())


def test_after_two_phrases_a_human_is_wanted(exchange: Exchange) -> None:
    line = exchange.arrived(called=ALONE)
    answer = line.says(1, "estamos atrapados")
    for _ in range(3):
        answer = line.follow(answer, "Redirect")
    record = exchange.parts.record()
    assert record.needs_human == "no_reply"
    assert answer.target("Redirect")[0] == "/voice/wait"
    assert answer.says


ENDS = {
    "completed": "hung_up",
    "failed": "failed",
    "busy": "busy",
    "no-answer": "no_answer",
    "canceled": "canceled",
}


def test_the_end_of_the_line_ends_the_call(exchange: Exchange) -> None:
    for status, outcome in ENDS.items():
        line = exchange.arrived(call_sid=f"CA-{status}")
        for _ in range(2):
            assert line.post("/voice/status", CallStatus=status).status == 200
        record = exchange.parts.record(line.call_sid)
        assert (record.call_state, record.outcome) == (CallState.COMPLETE, outcome)
        assert exchange.parts.events(line.call_sid).count("ended") == 1


def test_no_other_status_changes_anything(exchange: Exchange, line: Line) -> None:
    line.arrives()
    before = exchange.parts.record()
    for status in ("queued", "ringing", "in-progress", "", "from-the-future"):
        line.post("/voice/status", CallStatus=status)
        assert exchange.parts.record() == before, status


def test_a_status_from_before_does_not_open_an_ended_call(exchange: Exchange, line: Line) -> None:
    line.arrives()
    line.post("/voice/status", CallStatus="completed", SequenceNumber="2")
    line.post("/voice/status", CallStatus="in-progress", SequenceNumber="1")
    line.post("/voice/status", CallStatus="ringing", SequenceNumber="0")
    assert exchange.parts.record().call_state is CallState.COMPLETE
    assert line.says(1, "too late").names == ["Hangup"]


def test_a_hang_up_stops_the_turn_that_is_being_worked_on(exchange: Exchange, line: Line) -> None:
    line.arrives()
    exchange.parts.intake.hear(SID, 1, "stuck")
    claimed = exchange.parts.store.claim(SID, "w", "claim")
    line.post("/voice/status", CallStatus="completed")
    assert not isinstance(claimed, str)
    assert exchange.parts.store.beat(claimed.lease) == ["ended"]


def test_a_record_behind_the_address_has_lost_turns_and_goes_on(
    exchange: Exchange, line: Line
) -> None:
    line.arrives()
    with exchange.worker("I am here."):
        line.says(1, "stuck")
        assert line.says(4, "are you there").says == "I am here."
    record = exchange.parts.record()
    assert record.lost == 2
    assert [e.turn for e in exchange.parts.journal() if e.event == "lost"] == [3]


def test_a_record_that_is_gone_is_opened_anew_and_the_loss_is_journaled(
    exchange: Exchange, line: Line
) -> None:
    with exchange.worker("I am here."):
        assert line.says(3, "are you there").says == "I am here."
    record = exchange.parts.record()
    assert (record.heard, record.lost, record.site) == (3, 2, "tower")


def test_a_wait_for_a_turn_that_was_lost_asks_for_it_again(exchange: Exchange, line: Line) -> None:
    line.arrives()
    answer = line.post("/voice/wait", {"n": 2, "k": 1})
    assert answer.target("Gather") == ("/voice/turn", {"n": "3"})
    assert answer.says


def test_a_fallback_request_goes_on_with_the_call(exchange: Exchange, line: Line) -> None:
    line.arrives()
    with exchange.worker("Stay inside."):
        line.says(1, "stuck")
    answer = line.post("/voice/fallback", ErrorCode="11200", ErrorUrl="https://x.example")
    assert answer.target("Gather") == ("/voice/turn", {"n": "2"})


def test_a_call_whose_first_request_failed_is_greeted_by_the_fallback(
    exchange: Exchange, line: Line
) -> None:
    answer = line.post("/voice/fallback", ErrorCode="11200", ErrorUrl="https://x.example")
    assert "automated assistant" in answer.says
    assert answer.target("Gather") == ("/voice/turn", {"n": "1"})
    assert exchange.parts.record().site == "tower"


def test_an_address_that_is_not_ours_is_refused_with_its_reason(line: Line) -> None:
    line.arrives()
    numbers = ("0", "-1", "one", "９", "99999999999999999999")
    answers = [line.post("/voice/turn"), *(line.post("/voice/turn", {"n": n}) for n in numbers)]
    answers.append(line.post("/voice/wait", {"n": "1", "k": "x"}))
    for answer in answers:
        assert answer.status == 400
        assert "address" in answer.text


def test_a_call_without_a_valid_sid_is_refused(exchange: Exchange) -> None:
    for sid in ("", "x" * 100, "CA{1}", "CA\n"):
        assert exchange.line(call_sid=sid).arrives().status == 400
