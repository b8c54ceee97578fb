"""The guard hears the question: what is short means what the caller asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from callflow.call.record import Sentence, TurnAnalysis
from callflow.language.questions import QUESTIONS
from callflow.responder.guard import Guard
from callflow.responder.guard.rules import LANGUAGES, rulebook
from tests.responder.calls import later

CASES = Path(__file__).parent / "guard" / "answers.yaml"
GUARD = Guard()


def answered(
    caller: str, sentence: str, language: str = "en", facts: Mapping[str, Any] | None = None
) -> str | None:
    return GUARD.check(sentence, language=language, facts=facts or {}, approved={}, caller=caller)


def cases(kind: str) -> Iterator[tuple[str, str, str]]:
    data = yaml.safe_load(CASES.read_text(encoding="utf-8"))[kind]
    for language in LANGUAGES:
        for caller, sentences in data[language].items():
            for sentence in sentences:
                yield language, caller, sentence


def test_nobody_assents_to_a_dangerous_question() -> None:
    spoken = [case for case in cases("forbidden") if answered(case[1], case[2], case[0]) is None]
    assert spoken == []


def test_a_short_answer_that_harms_nobody_passes() -> None:
    caught = [case for case in cases("harmless") if answered(case[1], case[2], case[0])]
    assert caught == []


def test_an_answer_is_true_once_its_fact_is_known() -> None:
    known = {"emergency.fire.requested": True}
    assert answered("are the fire brigade coming", "Yes, they are called.", facts=known) is None
    assert answered("are the fire brigade coming", "Yes.", facts=known) is None
    assert answered("is an ambulance coming", "Yes.", facts=known) == "dispatch"
    eta = {"dispatch.requested": True, "dispatch.confirmed_with_eta": True, "eta_minutes": 10}
    for language, caller, right, wrong in (
        ("en", "how long will they take", "Ten.", "Five."),
        ("es", "cuanto tardan", "Diez.", "Cinco."),
        ("zh", "还要等多久", "十分钟。", "五分钟。"),
    ):
        assert answered(caller, right, language, eta) is None
        assert answered(caller, wrong, language, eta) == "eta"
        assert answered(caller, right, language) == "eta"


def test_an_answer_may_mean_the_opposite_of_what_it_says() -> None:
    assert answered("are you a person", "Yes.") == "persona"
    assert answered("are you a person", "No.") is None
    assert answered("are you a machine", "Yes.") is None
    assert answered("are you a machine", "No.") == "persona"


def test_an_approved_answer_passes_as_it_is() -> None:
    record = later("is there air in here")
    line = Sentence(id="answer_is_air", text="Yes, plenty.", answers="is_air")
    analysis = TurnAnalysis(turn=2, questions=("is_air",), answers=(line,))
    assert GUARD.check_in_call("Yes, plenty.", record) == "promise"
    assert (
        GUARD.check_in_call("Yes, plenty.", record.model_copy(update={"analysis": analysis}))
        is None
    )


def test_the_questions_that_were_read_in_the_call_count() -> None:
    record = later("the other one as well")
    assert GUARD.check_in_call("Yes.", record) is None
    asked = record.model_copy(update={"analysis": TurnAnalysis(turn=2, questions=("may_climb",))})
    assert GUARD.check_in_call("Yes.", asked) == "climb"
    # What was asked a turn ago is not what is answered now.
    before = record.model_copy(update={"analysis": TurnAnalysis(turn=1, questions=("may_climb",))})
    assert GUARD.check_in_call("Yes.", before) is None


def test_what_answers_mean_is_given_for_known_questions_and_true_in_every_language() -> None:
    names = {language: set(rulebook(language).answers.means) for language in LANGUAGES}
    assert names["en"] == names["es"] == names["zh"] <= {*QUESTIONS, "other"}
    wrong = [
        (language, name, answer, meaning)
        for language in LANGUAGES
        for name, means in rulebook(language).answers.means.items()
        for answer, meaning in means.items()
        if not meaning.startswith("!")
        and (answered("", meaning.replace("{}", "15"), language) is None) is not (answer == "no")
    ]
    assert wrong == []
