"""The procedures that come with callflow: complete, speakable, and honest about what is known."""

from __future__ import annotations

import re

from callflow.language.questions import QUESTIONS
from callflow.procedures.document import (
    DEFAULT_SCENARIO,
    PARTS,
    SILENT_SCENARIO,
    SopDocument,
)
from callflow.procedures.library import SopLibrary, notes

LIBRARY = SopLibrary.load()
DOCUMENTS = LIBRARY.documents
LANGUAGES = ("en", "zh", "es")
SPEAKING = sorted(name for name, found in DOCUMENTS.items() if not found.front.silent)

# Words that claim that something has been set going; each needs a fact.
CLAIMS = re.compile(
    r"(engineer|fire service|ambulance|police|help)\b[^.?]*\b(has been|have been|was|were|is on|"
    r"is coming|sent)|I've asked for|I'm connecting|estimate is|call back at|is logged|alerting"
    r"|已经(联系|叫|通知|报警)|正在为您转接|预计|回拨。|已在"
    r"|Se ha avisado|He pedido|Le paso|estimación|Le llamaremos|se ha pedido|queda registrada",
    re.IGNORECASE,
)
# What no lift procedure may tell anybody, but as a warning.
DANGEROUS = re.compile(
    r"cannot fall|can't fall|calm down|you're fine|climb out|pry|force the|false alarm"
    r"|不会掉|冷静|no puede caer|cálmese|falsa alarma",
    re.IGNORECASE,
)
NOTES = re.compile(r"only when true|monitoring-centre|\bSTT\b|\bSOP\b|https?:|P[1-5]\b|[/<>|]")


def spoken(document: SopDocument) -> list[tuple[str, str, str | None]]:
    return [
        (line.id, line.text, line.only_after)
        for (_, section), sentences in document.sections.items()
        if section in ("ask", "say")
        for line in sentences
    ]


def test_all_scenarios_are_there() -> None:
    assert len(DOCUMENTS) == 41
    assert {DEFAULT_SCENARIO, SILENT_SCENARIO} <= set(DOCUMENTS)
    assert {name for name, found in DOCUMENTS.items() if found.front.silent} == {
        "test_call_automatic",
        "equipment_fault",
    }


def test_each_file_bears_the_name_of_its_scenario() -> None:
    assert all(found.path.stem == name for name, found in DOCUMENTS.items())


def test_a_procedure_has_questions_and_sentences_in_all_three_languages() -> None:
    for name in SPEAKING:
        for language in LANGUAGES:
            for section in PARTS:
                chunk = DOCUMENTS[name].chunk(section, language)
                assert chunk is not None, f"{name} has no {section}"
                assert chunk.language == (language if section in ("ask", "say") else "en"), name


def test_translations_have_the_same_sentences_in_the_same_order() -> None:
    for name in SPEAKING:
        for section in ("ask", "say"):
            english, chinese, spanish = (
                [line.id for line in DOCUMENTS[name].sections[(language, section)]]
                for language in LANGUAGES
            )
            assert english == chinese == spanish, name


def test_a_claim_waits_for_its_fact() -> None:
    lines = [(name, *line) for name in SPEAKING for line in spoken(DOCUMENTS[name])]
    assert not [line for line in lines if CLAIMS.search(line[2]) and not line[3]]


def test_nothing_spoken_is_dangerous_or_a_note_to_an_author() -> None:
    lines = [(name, *line) for name in SPEAKING for line in spoken(DOCUMENTS[name])]
    dangerous = [line for line in lines if DANGEROUS.search(line[2])]
    assert {line[1] for line in dangerous} <= {"no_forcing"}
    assert not [line for line in lines if NOTES.search(line[2])]


def test_a_procedure_does_not_write_what_its_own_rules_forbid() -> None:
    for name in SPEAKING:
        never = DOCUMENTS[name].chunk("never", "en")
        assert never is not None
        forbidden = {each for rule in never.sentences for each in rule.forbids}
        assert forbidden.isdisjoint(line[0] for line in spoken(DOCUMENTS[name])), name


def test_the_rules_that_always_hold_are_in_every_procedure() -> None:
    for name, document in DOCUMENTS.items():
        never = document.chunk("never", "es")
        assert never is not None
        assert {"never_force", "never_climb", "never_promise", "never_hang_up"} <= {
            rule.id for rule in never.sentences
        }, name


def test_life_at_risk_always_fetches_a_person_and_asks_little() -> None:
    for name, found in DOCUMENTS.items():
        if found.front.urgency in ("P1", "P2"):
            assert found.needs_human == f"{name} is {found.front.urgency}"
        if found.front.urgency == "P1":
            assert len(found.sections[("en", "ask")]) <= 4


def test_cues_exist_in_every_language_but_for_silence() -> None:
    for name, found in DOCUMENTS.items():
        expected = set() if name == SILENT_SCENARIO else set(LANGUAGES)
        assert set(found.front.cues) == expected


def test_every_question_of_callers_has_an_answer_that_needs_no_fact() -> None:
    library = SopLibrary.load()
    unanswered = [
        f"{language}: {question}"
        for language in LANGUAGES
        for question in QUESTIONS
        if question != "say_again"  # Answered by what was said before.
        and not any(
            line.only_after is None
            for line in library.answers([question], ["entrapment_standard"], language)
        )
    ]
    assert not unanswered


def test_a_procedure_answers_before_what_all_procedures_share() -> None:
    first = SopLibrary.load().answers(["may_open"], ["fire_smoke", "entrapment_standard"], "en")[0]
    assert "smoke" in first.text


def test_an_answer_speaks_the_language_of_the_call() -> None:
    for language in LANGUAGES:
        answers = SopLibrary.load().answers(["may_climb"], ["entrapment_partial_opening"], language)
        assert answers[0].text in {
            line.text
            for line in DOCUMENTS["entrapment_partial_opening"].sections[(language, "answers")]
        }


def test_no_sentence_waits_for_what_nobody_can_record() -> None:
    assert not [note for note in notes(LIBRARY) if "nobody can record" in note]


def test_what_wants_a_signature_says_so() -> None:
    unsigned = {note.split(" wants ")[0] for note in notes(LIBRARY) if " wants " in note}
    assert {"medical", "fire_smoke", "entrapment_partial_opening"} <= unsigned


def test_every_question_asks_one_thing() -> None:
    twice = [
        f"{name} {language}: {line.text}"
        for name in SPEAKING
        for language in LANGUAGES
        for line in DOCUMENTS[name].sections[(language, "ask")]
        # "Smoke or fire? Yes or no?" is one thing, and so is a choice of languages.
        if len(re.findall(r"[?？]", line.text)) > 1
        and name not in ("language_barrier", "line_noise_unintelligible")
    ]
    assert not twice
