"""A takeover goes on where the caller stopped hearing: nothing twice, nothing left out."""

from __future__ import annotations

from threading import Event

from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import CallRecord, Draft, Sentence, SopChunk
from callflow.call.state import CallState
from callflow.procedures.library import SopLibrary
from callflow.responder import Piece
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.sentences import joined, remaining
from callflow.retrieval.retriever import LexicalRetriever

RETRIEVER = LexicalRetriever(SopLibrary.load())
SCENARIOS = sorted(SopLibrary.load().documents)


def record(
    scenario: str, language: str = "en", answered: int = 0, draft: str | None = None
) -> CallRecord:
    return CallRecord(
        call_sid="CA1",
        call_state=CallState.IN_PROGRESS,
        created_at=1,
        updated_at=1,
        answered=answered,
        heard=answered + 1,
        language=language,
        sop_step=answered,
        retrieved_sop_chunks=RETRIEVER.chunks(scenario, language),
        draft=None if draft is None else Draft(turn=answered + 1, text=draft),
    )


def pieces_of(call: CallRecord) -> list[Piece]:
    return list(ScriptedResponder().respond(call, Event()))


def text_of(call: CallRecord) -> str:
    return "".join(piece.text for piece in pieces_of(call))


@given(
    st.sampled_from(SCENARIOS),
    st.sampled_from(["en", "zh", "es"]),
    st.integers(0, 16),
    st.integers(0, 6),
)
def test_what_was_heard_and_what_follows_is_the_whole_reply(
    scenario: str, language: str, answered: int, heard_pieces: int
) -> None:
    whole = pieces_of(record(scenario, language, answered))
    heard = "".join(piece.text for piece in whole[:heard_pieces])
    rest = pieces_of(record(scenario, language, answered, heard))
    assert heard + "".join(p.text for p in rest) == "".join(p.text for p in whole)
    assert rest[-1].last
    assert (rest[-1].sop_step, rest[-1].needs_human) == (whole[-1].sop_step, whole[-1].needs_human)


@given(st.sampled_from(SCENARIOS), st.sampled_from(["en", "zh", "es"]), st.data())
def test_a_reply_cut_in_mid_sentence_goes_on_with_whole_sentences(
    scenario: str, language: str, data: st.DataObject
) -> None:
    whole = pieces_of(record(scenario, language))
    text = "".join(piece.text for piece in whole)
    heard = text[: data.draw(st.integers(0, len(text)))]
    rest = [p.text.strip() for p in pieces_of(record(scenario, language, 0, heard))]
    sentences = [piece.text.strip() for piece in whole]
    assert [each for each in rest if each] == [each for each in sentences if each in rest and each]
    for sentence in sentences:
        assert sentence in heard or sentence in rest or "assist" in heard or "助手" in heard


def test_the_sentence_that_broke_off_is_said_again_as_a_whole() -> None:
    heard = "You've reached the lift emergency line. I'm an automated assistant. Please stay ins"
    assert text_of(record("entrapment_standard", draft=heard)) == (
        " Please stay inside and keep away from the doors. Are you inside the lift now?"
    )


def test_after_another_voice_the_caller_is_not_greeted_again() -> None:
    heard = "Hello! I'm an automated assistant. I heard that you are stuck."
    assert text_of(record("entrapment_standard", draft=heard)) == (
        " Please stay inside and keep away from the doors. Are you inside the lift now?"
    )


def test_a_voice_that_did_not_say_what_it_is_is_followed_by_the_greeting() -> None:
    assert "I'm an automated assistant." in text_of(record("entrapment_standard", draft="Hel"))


def test_a_reply_that_was_heard_in_full_ends_without_a_word() -> None:
    call = record("fire_smoke", "zh")
    rest = pieces_of(record("fire_smoke", "zh", draft=text_of(call)))
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
    call = record("fire_smoke").model_copy(update={"retrieved_sop_chunks": (chunk,)})
    assert pieces_of(call)[-1].last
    assert text_of(call)
