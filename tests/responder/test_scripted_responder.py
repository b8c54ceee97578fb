"""The script walks the procedure one question at a time and says only what is true and allowed."""

from __future__ import annotations

from threading import Event
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import CallRecord, Draft, Sentence, SopChunk, ThreadEntry
from callflow.call.state import CallState
from callflow.lab.chaos.audio_checks import HOLDING_PHRASES
from callflow.procedures.library import SopLibrary
from callflow.responder import Piece, Responder
from callflow.responder.phrases import generic
from callflow.responder.scripted import CLOSINGS, SOME_TURNS, ScriptedResponder
from callflow.responder.sentences import joined, remaining

LIBRARY = SopLibrary.load()
SCENARIOS = sorted(LIBRARY.documents)
SCRIPT: Responder = ScriptedResponder()
FACTS = sorted(
    {
        line.only_after
        for document in LIBRARY.documents.values()
        for sentences in document.sections.values()
        for line in sentences
        if line.only_after
    }
)


def record(scenario: str | None = None, language: str = "en", **fields: Any) -> CallRecord:
    chunks = LIBRARY.chunks(scenario, language) if scenario else ()
    values: dict[str, Any] = {
        "call_sid": "CA1",
        "call_state": CallState.IN_PROGRESS,
        "created_at": 1,
        "updated_at": 1,
        "heard": fields.get("answered", 0) + 1,
        "language": language,
        "scenario_type": scenario,
        "retrieved_sop_chunks": chunks,
    }
    return CallRecord.model_validate(values | fields)


def reply(call: CallRecord) -> list[Piece]:
    return list(SCRIPT.respond(call, Event()))


def text_of(call: CallRecord) -> str:
    return "".join(piece.text for piece in reply(call))


def after(call: CallRecord, **facts: Any) -> CallRecord:
    """The record once the reply has been heard and the caller has spoken again."""
    pieces = reply(call)
    turn = call.answered + 1
    said = ThreadEntry(role="agent", turn=turn, text="".join(p.text for p in pieces), at=turn)
    return call.model_copy(
        update={
            "conversation_thread": (*call.conversation_thread, said),
            "answered": turn,
            "heard": turn + 1,
            "sop_step": pieces[-1].sop_step,
            "facts": call.facts | facts,
        }
    )


def test_the_first_reply_tells_that_a_machine_speaks_then_instructs_then_asks() -> None:
    assert text_of(record("entrapment_standard")) == (
        "You've reached the lift emergency line. I'm an automated assistant. "
        "Please stay inside and keep away from the doors. Are you inside the lift now?"
    )


def test_a_person_is_mentioned_only_once_one_is_being_alerted() -> None:
    alone = text_of(record("entrapment_standard"))
    alerted = text_of(record("entrapment_standard", facts={"human.alert_started": True}))
    assert "alerting a person" not in alone
    assert "I'm an automated assistant and I'm alerting a person now." in alerted


def test_a_call_that_we_opened_with_a_greeting_is_not_greeted_again() -> None:
    greeting = ThreadEntry(role="agent", turn=0, text="You've reached us. I'm a machine.", at=1)
    assert "automated" not in text_of(record("fire_smoke", conversation_thread=(greeting,)))


def test_chinese_sentences_touch_and_spanish_ones_do_not() -> None:
    assert text_of(record("fire_smoke", "zh-CN")).startswith(
        "您已接通电梯紧急呼叫。我是自动语音助手。如果有烟，请蹲低，用布捂住口鼻。您看到"
    )
    assert ". Soy un asistente automático. Si hay humo" in text_of(record("fire_smoke", "es-MX"))


def test_each_turn_asks_the_next_question_and_says_another_sentence() -> None:
    place = {"lift": "Lift 4", "address": "1 Mill Lane"}
    call = record("entrapment_standard", facts=place)
    asked: list[str] = []
    said: list[str] = []
    for _ in range(13):
        pieces = reply(call)
        said.append("".join(piece.text for piece in pieces[:-1]).strip())
        asked.append(pieces[-1].text.strip())
        call = after(call)
    chunk = next(c for c in call.retrieved_sop_chunks if c.section == "ask")
    assert asked == [
        line.text.replace("{lift}", "Lift 4").replace("{address}", "1 Mill Lane")
        for line in chunk.sentences
    ]
    for turn, text in enumerate(said):
        assert not text or text not in said[max(0, turn - SOME_TURNS) : turn]
    assert call.sop_step == 13


def test_a_question_whose_answer_is_known_is_not_asked() -> None:
    facts = {"inside": True, "injured": False, "danger": [], "location_confirmed": True}
    call = record("entrapment_standard", facts=facts, answered=1)
    assert text_of(call).endswith("How many people are in the lift, counting you?")
    told = record("entrapment_standard", facts={**facts, "people": 3}, answered=1)
    assert text_of(told).endswith("What floor does the display show?")


def test_when_all_is_asked_it_calms_and_promises_nothing() -> None:
    call = record("entrapment_standard", answered=14, sop_step=13)
    assert text_of(call).endswith("I'm staying on the line with you.")
    assert "I don't have an arrival time yet." in text_of(after(call))
    assert reply(call)[-1].sop_step == 13


def test_an_arrival_time_is_told_when_it_is_known_and_never_denied_then() -> None:
    facts = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True, "eta_minutes": 25}
    call = record("entrapment_standard", answered=12, sop_step=12)
    heard = []
    for _ in range(4):
        call = after(call, **facts)
        heard.append(text_of(call))
    assert any("The engineer's latest estimate is 25 minutes." in text for text in heard)
    assert not any("I don't have an arrival time" in text for text in heard)


def test_news_is_told_before_anything_that_can_wait() -> None:
    call = after(after(record("entrapment_standard")), **{"dispatch.requested": True})
    assert text_of(call).startswith("I've asked for an engineer.")


def test_a_sentence_with_a_gap_that_nothing_fills_is_left_out() -> None:
    facts = {"dispatch.confirmed_with_eta": True, "eta_minutes": ""}
    call = record("entrapment_standard", answered=3, facts=facts)
    for _ in range(12):
        assert "{" not in text_of(call)
        assert "estimate" not in text_of(call)
        call = after(call)


def test_a_question_of_an_earlier_procedure_is_not_asked_again() -> None:
    call = after(after(record("entrapment_standard")))
    chunks = LIBRARY.chunks("power_failure", "en")
    moved = call.model_copy(update={"retrieved_sop_chunks": chunks, "sop_step": 0})
    last = reply(moved)[-1]
    assert last.text.strip() == "Is there any smoke, fire or water?"
    assert last.sop_step == 3


def test_the_procedures_that_need_a_person_say_why() -> None:
    assert reply(record("fire_smoke"))[-1].needs_human == "fire_smoke is P1"
    assert reply(record("eta_callback"))[-1].needs_human == "eta_callback needs a person"
    assert reply(record("entrapment_standard"))[-1].needs_human is None


def test_nothing_is_spoken_to_a_machine() -> None:
    for scenario in ("test_call_automatic", "equipment_fault"):
        assert reply(record(scenario)) == [Piece("", True, 0, None)]


def test_without_any_procedure_it_says_what_is_right_in_every_lift() -> None:
    for language in ("en", "zh", "es", "pl", ""):
        pieces = reply(record(None, language, answered=2, sop_step=4))
        words = generic(language)
        assert [piece.text.strip() for piece in pieces] == [words["stay_inside"], words["staying"]]
        assert pieces[-1].sop_step == 4


def test_it_ends_at_once_when_the_lease_is_lost() -> None:
    stop = Event()
    pieces = SCRIPT.respond(record("fire_smoke"), stop)
    assert not next(pieces).last
    stop.set()
    assert list(pieces) == []


def test_even_a_procedure_that_forbids_everything_gets_a_word() -> None:
    rule = Sentence(id="n", text="Speak.", forbids=(*CLOSINGS[:-1], "hello"))
    line = Sentence(id="hello", text="Hello.")
    never = SopChunk(
        id="n", sop="x", version="1", section="never", language="en", sentences=(rule,)
    )
    say = never.model_copy(update={"section": "say", "sentences": (line,)})
    chunks = (never, say)
    call = record(answered=3, retrieved_sop_chunks=chunks)
    assert text_of(call) == "I'm listening."


@given(
    scenario=st.sampled_from(sorted(LIBRARY.documents)),
    language=st.sampled_from(["en", "zh", "es", "pl"]),
    facts=st.dictionaries(
        st.sampled_from([*FACTS, "eta_minutes", "site", "lift", "reference", "callback_time"]),
        st.sampled_from([True, False, None, 0, 12, "soon", ""]),
    ),
    turn=st.integers(0, 60),
    step=st.integers(0, 30),
)
def test_it_never_says_what_is_forbidden_or_not_yet_true(
    scenario: str, language: str, facts: dict[str, Any], turn: int, step: int
) -> None:
    call = record(scenario, language, facts=facts, answered=turn, sop_step=step)
    text = text_of(call)
    assert text == text_of(call)
    lines = [line for chunk in call.retrieved_sop_chunks for line in chunk.sentences]
    forbidden = {name for line in lines for name in line.forbids}
    own = {line.text for line in lines if line.id not in forbidden}
    for document in LIBRARY.documents.values():
        for line in document.sections.get((language, "say"), ()):
            if line.only_after and not facts.get(line.only_after):
                assert line.text not in text
            if line.id in forbidden and line.text not in own:
                assert line.text not in text
    assert "{" not in text
    silent = LIBRARY.documents[scenario].front.silent
    assert bool(text) is not silent
    last = reply(call)[-1]
    assert last.last
    assert last.sop_step is not None
    assert last.sop_step >= step


@given(st.sampled_from(sorted(LIBRARY.documents)), st.integers(0, 20), st.integers(0, 12))
def test_a_draft_of_another_turn_changes_nothing(scenario: str, turn: int, step: int) -> None:
    call = record(scenario, answered=turn, sop_step=step)
    old = call.model_copy(update={"draft": Draft(turn=turn, text="You've reached")})
    assert reply(old) == reply(call)


def test_who_waits_for_a_time_is_told_it_and_not_that_nobody_knows_it() -> None:
    asked = {"dispatch.requested": True}
    waiting = record("eta_callback", answered=1, recorded=asked)
    assert "I'm waiting for a time." in text_of(waiting)
    told = asked | {"dispatch.confirmed_with_eta": True, "eta_minutes": 12}
    call = record("eta_callback", answered=1, recorded=told)
    assert "estimate is 12 minutes" in text_of(call)
    for _ in range(6):
        assert "waiting for a time" not in text_of(call)
        assert "don't have an arrival time" not in text_of(call)
        call = after(call)


def walked(
    scenario: str, language: str = "en", answered: int = 0, draft: str | None = None
) -> CallRecord:
    """A call that has been asked one question in each turn; `draft`: what was sent of the reply."""
    sent = None if draft is None else Draft(turn=answered + 1, text=draft)
    return record(scenario, language, answered=answered, sop_step=answered, draft=sent)


@given(
    st.sampled_from(SCENARIOS),
    st.sampled_from(["en", "zh", "es"]),
    st.integers(0, 16),
    st.integers(0, 6),
)
def test_what_was_heard_and_what_follows_is_the_whole_reply(
    scenario: str, language: str, answered: int, heard_pieces: int
) -> None:
    whole = reply(walked(scenario, language, answered))
    heard = "".join(piece.text for piece in whole[:heard_pieces])
    rest = reply(walked(scenario, language, answered, heard))
    assert heard + "".join(p.text for p in rest) == "".join(p.text for p in whole)
    assert rest[-1].last
    assert (rest[-1].sop_step, rest[-1].needs_human) == (whole[-1].sop_step, whole[-1].needs_human)


@given(st.sampled_from(SCENARIOS), st.sampled_from(["en", "zh", "es"]), st.data())
def test_a_reply_cut_in_mid_sentence_goes_on_with_whole_sentences(
    scenario: str, language: str, data: st.DataObject
) -> None:
    whole = reply(walked(scenario, language))
    text = "".join(piece.text for piece in whole)
    heard = text[: data.draw(st.integers(0, len(text)))]
    rest = [p.text.strip() for p in reply(walked(scenario, language, 0, heard))]
    sentences = [piece.text.strip() for piece in whole]
    assert [each for each in rest if each] == [each for each in sentences if each in rest and each]
    for sentence in sentences:
        assert sentence in heard or sentence in rest or "assist" in heard or "助手" in heard


def test_the_sentence_that_broke_off_is_said_again_as_a_whole() -> None:
    heard = "You've reached the lift emergency line. I'm an automated assistant. Please stay ins"
    assert text_of(walked("entrapment_standard", draft=heard)) == (
        " Please stay inside and keep away from the doors. Are you inside the lift now?"
    )


def test_after_another_voice_the_caller_is_not_greeted_again() -> None:
    heard = "Hello! I'm an automated assistant. I heard that you are stuck."
    assert text_of(walked("entrapment_standard", draft=heard)) == (
        " Please stay inside and keep away from the doors. Are you inside the lift now?"
    )


def test_a_voice_that_did_not_say_what_it_is_is_followed_by_the_greeting() -> None:
    assert "I'm an automated assistant." in text_of(walked("entrapment_standard", draft="Hel"))


def test_a_reply_that_was_heard_in_full_ends_without_a_word() -> None:
    call = walked("fire_smoke", "zh")
    rest = reply(walked("fire_smoke", "zh", draft=text_of(call)))
    assert rest == [Piece("", True, 1, "fire_smoke is P1")]


SENTENCES = st.lists(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=12), min_size=1, max_size=6
)


@given(SENTENCES, st.integers(0, 6))
def test_any_sentences_split_at_any_border_join_to_the_same_speech(
    sentences: list[str], count: int
) -> None:
    whole = joined(sentences)
    heard = "".join(whole[:count])
    assert heard + "".join(joined(remaining(sentences, heard), heard)) == "".join(whole)


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), st.text(max_size=9), max_size=3))
def test_a_procedure_of_any_words_is_answered(words: dict[str, str]) -> None:
    lines = tuple(Sentence(id=name, text=text) for name, text in words.items())
    chunk = SopChunk(id="x", sop="x", version="1", section="say", language="en", sentences=lines)
    call = walked("fire_smoke").model_copy(update={"retrieved_sop_chunks": (chunk,)})
    assert reply(call)[-1].last
    assert text_of(call)


def test_no_closing_sounds_like_a_phrase_that_is_said_while_a_reply_does_not_come() -> None:
    for language in ("en", "zh", "es"):
        phrases = generic(language)
        holding = {phrases[name] for name in HOLDING_PHRASES}
        assert not holding & {phrases[name] for name in CLOSINGS}
