"""What callers ask, by name."""

from __future__ import annotations

from pathlib import Path

from callflow.language.questions import MOST, QUESTIONS, questions

TABLE = Path(__file__).with_name("questions_cases.txt")


def cases() -> list[tuple[str, str]]:
    lines = TABLE.read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" | ", 1) for line in lines if line and not line.startswith("#")]
    return [(name, words) for name, words in pairs]


def test_each_question_is_known_by_its_words() -> None:
    missed = [
        f"{words!r} asks {name}, and was taken for {questions(words)}"
        for name, words in cases()
        if (name != "-" and name not in questions(words)) or (name == "-" and questions(words))
    ]
    assert not missed, "\n".join(missed)


def test_every_name_but_those_of_whole_situations_has_a_case() -> None:
    told = {name for name, _ in cases()} - {"-"}
    assert told <= set(QUESTIONS)
    assert set(QUESTIONS) - told <= {"how_unconscious", "how_panic"}


def test_a_narrower_question_stands_for_the_wider_one() -> None:
    assert questions("are the fire brigade coming") == ("fire_sent",)
    assert questions("can i press the open button") == ("door_button",)


def test_of_many_questions_the_first_are_answered() -> None:
    asked = questions("how long will it take. can i sit down. is there enough air. who are you")
    assert asked == ("how_long", "may_sit")
    assert len(asked) == MOST
