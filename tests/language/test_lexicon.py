"""Word lists are read as people write them, and a line that cannot be read says so."""

from __future__ import annotations

import pytest

from callflow.language.lexicon import BadLexicon, Lexicon
from callflow.language.text import tokenize


def found(line: str, text: str) -> bool:
    return bool(Lexicon("cues", ["[x]", line]).find(tokenize(text)))


def test_words_may_be_missing_chosen_open_and_apart() -> None:
    assert found(r"door|doors (is)? open\w*", "the door opened")
    assert found("hand ~3 stuck", "my hand is really stuck")
    assert not found("hand ~3 stuck", "my hand is really very badly stuck")
    assert not found("hand ~3 stuck", "my hand. i am stuck")
    assert found("门 ~3 夹", "门把我夹住了")
    assert not found("fire", "fireplace")


def test_a_class_of_words_stands_for_any_of_them() -> None:
    lexicon = Lexicon("cues", ["{limb} = arm, left hand", "[x]", "{limb}|foot hurts"])
    assert lexicon.sections(tokenize("my left hand hurts")) == {"x"}
    assert lexicon.sections(tokenize("my foot hurts")) == {"x"}


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        (["fire"], 1),
        (["[x]", "(a)?"], 2),
        (["[x]", "", r"ab\w*"], 3),
        (["[x]", "the {limb}"], 2),
        (["[x]", "(arm|leg"], 2),
    ],
)
def test_a_line_that_cannot_be_read_is_named(lines: list[str], line: int) -> None:
    with pytest.raises(BadLexicon, match=rf"cues:{line}: ") as raised:
        Lexicon("cues", lines)
    assert (raised.value.file, raised.value.line) == ("cues", line)
