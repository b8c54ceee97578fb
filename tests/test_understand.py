"""What kind of call it is, by the words alone: danger is heard, and not let go of."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.call.record import CallRecord, Role, ThreadEntry
from callflow.call.state import CallState
from callflow.procedures.library import SopLibrary
from callflow.procedures.triage import Triage, procedures, triage
from callflow.understand import Understanding, asked, signs
from tests.engines import lexical

LIBRARY = SopLibrary.load()
SCENARIOS = sorted(LIBRARY.documents)
URGENCY = {name: found.front.urgency for name, found in LIBRARY.documents.items()}


def triaged(utterance: str, language: str, current: str | None) -> Triage:
    """What a call is about that was about `current`, once this was heard."""
    known = () if current is None else (current,)
    before = Triage(current, known, URGENCY.get(current or ""))
    return triage(signs(lexical(), utterance, language), before, URGENCY)


def heard(utterance: str, language: str, current: str | None) -> str | None:
    """The scenario that is worked on then."""
    return triaged(utterance, language, current).scenario


OPENINGS = [
    ("um the lift has stopped and we can't get out", "en", "entrapment_standard"),
    ("I can see SMOKE under the door!!", "en", "fire_smoke"),
    ("grandpa has collapsed and he isn't breathing", "en", "medical"),
    ("the lights went out it is pitch black", "en", "power_failure"),
    ("water is coming in and my feet are wet", "en", "water_flood"),
    ("oops pressed it by mistake", "en", "accidental_press"),
    ("电梯里冒烟了", "zh-CN", "fire_smoke"),
    ("停电了什么都看不见", "zh", "power_failure"),
    ("我们被困在电梯里", "zh", "entrapment_standard"),
    ("hay mucho humo", "es-MX", "fire_smoke"),
    ("nos hemos quedado encerrados", "es", "entrapment_standard"),
    ("se ha desmayado mi madre", "es", "medical"),
]


def test_an_opening_names_the_scenario() -> None:
    found = [(said, language, heard(said, language, None)) for said, language, _ in OPENINGS]
    assert found == OPENINGS


def test_nothing_known_is_answered_as_a_trapped_person_is() -> None:
    found = triaged("good evening to you", "en", None)
    assert found == Triage()
    assert procedures(found) == ("entrapment_standard",)


def test_silence_is_an_open_line_only_while_nothing_is_known() -> None:
    for utterance in ("", "   ", "...", "\U0001f642", "\x00"):
        assert heard(utterance, "en", None) == "silent_open_line"
        assert heard(utterance, "en", "power_failure") == "power_failure"


def test_a_voice_ends_the_silence() -> None:
    found = triaged("hello is somebody there", "en", "silent_open_line")
    assert "silent_open_line" not in found.open
    assert procedures(found)[0] == "entrapment_standard"


def test_a_plain_answer_changes_nothing() -> None:
    for answer in ("the third one", "yes", "two of us", "三个人", "somos dos"):
        for current in ("power_failure", "fire_smoke", "accidental_press"):
            assert heard(answer, "en", current) == current, answer


DENIALS = [
    "no smoke no fire nothing",
    "no there isn't any smoke or fire or water",
    "nobody is bleeding",
    "no hay humo ni fuego",
    "没有烟 也没有火",
    "没有人受伤",
]


def test_the_denial_of_a_danger_is_no_danger() -> None:
    current = "entrapment_standard"
    assert [said for said in DENIALS if heard(said, "en", current) != current] == []


RAISED = [
    ("no there is smoke now", "fire_smoke"),
    ("No, hay humo", "fire_smoke"),
    ("we can't stop the bleeding", "medical"),
    ("no my wife is on the floor and she is bleeding", "medical"),
    ("nobody is hurt and smoke is coming in", "fire_smoke"),
    ("no hay heridos y hay humo", "fire_smoke"),
    ("刚才没有烟现在有烟了", "fire_smoke"),
    ("还有烟", "fire_smoke"),
]


def test_a_cue_of_danger_raises_the_call() -> None:
    assert [(said, heard(said, "en", "entrapment_standard")) for said, _ in RAISED] == RAISED


DANGERS = [
    ("i am stuck and my baby is not breathing", "medical"),
    ("my grandmother in the wheelchair has collapsed and we are stuck", "medical"),
    ("我和宝宝被困在电梯里他没有呼吸了", "medical"),
    ("我们被困在电梯里停电了还有烟", "fire_smoke"),
    ("estoy encerrada en el ascensor con mi bebé y no respira", "medical"),
    ("estamos encerrados se ha ido la luz y huele a quemado", "fire_smoke"),
]


@pytest.mark.parametrize("current", [None, "entrapment_standard", "vulnerable_person"])
def test_a_danger_to_life_wins_over_all_that_is_said_around_it(current: str | None) -> None:
    assert [(said, heard(said, "en", current)) for said, _ in DANGERS] == DANGERS


@pytest.mark.parametrize(
    "utterance",
    [
        "we are stuck there is no smoke and nobody is bleeding",
        "我们被困在电梯里没有烟",
        "estamos encerrados no hay humo",
    ],
)
def test_a_denied_danger_wins_over_nothing(utterance: str) -> None:
    assert heard(utterance, "en", None) == "entrapment_standard"


@pytest.mark.parametrize(
    "utterance",
    ["how much longer will it take", "sorry wrong button by accident", "the doors just opened"],
)
def test_life_at_risk_is_never_talked_down(utterance: str) -> None:
    assert heard(utterance, "en", "medical") == "medical"


def test_clear_words_of_release_end_an_entrapment() -> None:
    utterance = "it's okay we got out the doors opened and we're out"
    assert heard(utterance, "en", "entrapment_standard") == "self_released"
    assert heard(utterance, "en", "overspeed_freefall") == "self_released"


WORDS = st.sampled_from(
    [
        cue
        for found in LIBRARY.documents.values()
        for cues in found.front.cues.values()
        for cue in cues
    ]
    + ["no", "not", "and", "or", "没有", "the", "hay"]
)


@given(
    st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=6).map(" ".join)),
    st.sampled_from(["en", "zh", "es", "de", ""]),
    st.sampled_from([None, *SCENARIOS, "gone_since_2019"]),
)
def test_any_words_give_the_same_known_scenario_twice(
    utterance: str, language: str, current: str | None
) -> None:
    found = heard(utterance, language, current)
    assert found == heard(utterance, language, current)
    unknown_before = current in (None, "silent_open_line")
    assert found in URGENCY or found == current or (found is None and unknown_before)
    # Who says the same once more stays in the same procedure.
    assert heard(utterance, language, found) == found
    if current in URGENCY and URGENCY[current] == "P1":
        assert URGENCY[found or ""] == "P1"


def test_the_openings_of_the_demo_are_understood() -> None:
    text = files("callflow.lab.chaos").joinpath("conversations.jsonl").read_text(encoding="utf-8")
    calls = [json.loads(line) for line in text.splitlines()]
    assert len(calls) >= 40
    assert all(len(call["lines"]) >= 10 and all(call["lines"]) for call in calls)
    right = [heard(call["lines"][0], call["language"], None) == call["scenario"] for call in calls]
    assert sum(right) / len(right) > 0.9


# What a call keeps of what it has understood.


def call(*turns: tuple[str, str], **known: Any) -> CallRecord:
    """A call in which these were said: (role, text), the caller last."""
    thread = []
    turn = 0
    for role, text in turns:
        turn += role == "caller"
        said_by: Role = "caller" if role == "caller" else "agent"
        thread.append(ThreadEntry(role=said_by, turn=turn, text=text, at=0))
    fields = {"heard": turn, "answered": turn - 1, "language": "en-GB", **known}
    return CallRecord(
        call_sid="CA1",
        call_state=CallState.IN_PROGRESS,
        created_at=0,
        updated_at=0,
        conversation_thread=tuple(thread),
        **fields,
    )


UNDERSTANDING = Understanding(lexical)


def test_facts_of_an_answer_go_with_the_question_that_was_asked() -> None:
    first = UNDERSTANDING.analyse(call(("caller", "we are stuck in the lift"))).applied_to(
        call(("caller", "we are stuck in the lift"))
    )
    question = "How many people are in the lift, counting you?"
    record = call(
        ("caller", "we are stuck in the lift"),
        ("agent", question),
        ("caller", "three"),
        retrieved_sop_chunks=first.retrieved_sop_chunks,
        open_scenarios=first.open_scenarios,
        scenario_type=first.scenario_type,
        urgency=first.urgency,
    )
    assert asked(record) == "ask_count"
    understood = UNDERSTANDING.analyse(record)
    assert understood.facts["people"] == 3
    assert understood.triage.open == first.open_scenarios


def test_the_whole_procedure_comes_first_and_what_is_near_only_beside_it() -> None:
    understood = UNDERSTANDING.analyse(call(("caller", "smoke is coming in under the door")))
    chunks = understood.chunks
    own = [chunk for chunk in chunks if not chunk.aside]
    assert {chunk.sop for chunk in own} == set(understood.triage.open)
    assert chunks[0].sop == "fire_smoke"
    assert {chunk.section for chunk in own} >= {"ask", "say", "never", "escalate"}
    beside = [chunk for chunk in chunks if chunk.aside]
    assert beside
    assert {chunk.section for chunk in beside} <= {"say", "never"}
    assert all(chunk.version for chunk in chunks)


def test_a_procedure_that_has_begun_is_kept_sentence_for_sentence() -> None:
    record = call(("caller", "smoke is coming in under the door"))
    begun = UNDERSTANDING.analyse(record).applied_to(record)
    old = tuple(
        chunk.model_copy(update={"version": "the year before"})
        for chunk in begun.retrieved_sop_chunks
    )
    again = call(
        ("caller", "smoke is coming in under the door"),
        ("agent", "Get low."),
        ("caller", "and my son is bleeding badly"),
        open_scenarios=begun.open_scenarios,
        scenario_type=begun.scenario_type,
        urgency=begun.urgency,
        retrieved_sop_chunks=old,
    )
    chunks = UNDERSTANDING.analyse(again).chunks
    versions = {chunk.sop: chunk.version for chunk in chunks if not chunk.aside}
    assert versions["fire_smoke"] == "the year before"
    assert versions["medical"] != "the year before"


def test_who_speaks_another_language_gets_the_procedure_in_it() -> None:
    record = call(("caller", "no hablo inglés estamos encerrados en el ascensor por favor"))
    understood = UNDERSTANDING.analyse(record)
    assert understood.language == "es"
    assert {chunk.language for chunk in understood.chunks if chunk.section == "ask"} == {"es"}


def test_reading_twice_says_the_same() -> None:
    record = call(("caller", "hay humo y somos tres, un niño"))
    assert UNDERSTANDING.analyse(record) == UNDERSTANDING.analyse(record)


def hurt(answer: str, language: str = "en") -> CallRecord:
    """The call after this was said to the question whether anybody is hurt."""
    first = call(("caller", "we are stuck in the lift"), language=language)
    begun = UNDERSTANDING.analyse(first).applied_to(first)
    question = next(
        line.text
        for chunk in begun.retrieved_sop_chunks
        for line in chunk.sentences
        if line.id == "ask_injury"
    )
    then = call(
        ("caller", "we are stuck in the lift"),
        ("agent", question),
        ("caller", answer),
        language=language,
        open_scenarios=begun.open_scenarios,
        scenario_type=begun.scenario_type,
        urgency=begun.urgency,
        retrieved_sop_chunks=begun.retrieved_sop_chunks,
    )
    return UNDERSTANDING.analyse(then).applied_to(then)


@pytest.mark.parametrize(
    ("answer", "language"), [("yes", "en"), ("sí", "es"), ("是的", "zh"), ("yes one person", "en")]
)
def test_a_yes_to_whether_anybody_is_hurt_fetches_help(answer: str, language: str) -> None:
    after = hurt(answer, language)
    assert after.facts["injured"] is True
    assert after.scenario_type == "medical"
    assert after.urgency == "P1"
    assert after.fetches_human


@pytest.mark.parametrize(("answer", "language"), [("no", "en"), ("nadie", "es"), ("没有", "zh")])
def test_a_no_to_whether_anybody_is_hurt_changes_nothing_else(answer: str, language: str) -> None:
    after = hurt(answer, language)
    assert after.facts["injured"] is False
    assert after.open_scenarios == ("entrapment_standard",)


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("没反应", "zh"),
        ("ring me on zero two zero seven nine four six triple oh one", "en"),
        ("sáquenme de aquí", "es"),
        ("stranded in the elevator, me and a friend", "en"),
    ],
)
def test_few_words_that_name_no_danger_are_none(said: str, language: str) -> None:
    begun = call(("caller", said), language=language)
    record = UNDERSTANDING.analyse(begun).applied_to(begun)
    assert {*record.open_scenarios} <= {"entrapment_standard"}


def test_a_language_that_we_speak_is_no_barrier() -> None:
    record = call(("caller", "sorry can you speak spanish please"))
    understood = UNDERSTANDING.analyse(record)
    assert understood.language == "es"
    assert "language_barrier" not in understood.triage.open
