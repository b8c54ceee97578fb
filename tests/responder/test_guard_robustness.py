"""The guard never raises, answers the same twice, and is fast enough to stand in a stream."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.language.lexicon import compile_pattern
from callflow.responder.guard import Guard, LexiconError
from callflow.responder.guard.rules import LANGUAGES, rulebook

GUARD = Guard()
RULES = {
    *("doors", "climb", "eta", "dispatch", "promise", "digits", "buttons", "medical", "diagnosis"),
    *("blame", "hangup", "persona", "leak", "cannot_fall", "language"),
}
LANGUAGE = st.sampled_from((*LANGUAGES, "de", ""))
SOME_WORDS = (
    "don't not never open the doors , . ? ! in ten minutes 一 不要 门 分钟 no abra las puertas "
    "ni o or and but ¤ ¬ { } ~ 's n't 10 3.15 半 十百 veinte y cinco half an hour"
)
WORDS = st.sampled_from(SOME_WORDS.split())
FACTS = st.dictionaries(
    st.sampled_from(("eta_minutes", "dispatch.confirmed_with_eta", "dispatch.requested")),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
)


@given(st.text(), LANGUAGE, FACTS)
def test_any_text_at_all_is_answered(text: str, language: str, facts: dict[str, object]) -> None:
    found = GUARD.check(text, language=language, facts=facts, approved={})
    assert found is None or found in RULES
    assert GUARD.check(text, language=language, facts=facts, approved={}) == found


@given(st.lists(WORDS, max_size=60).map(" ".join), LANGUAGE, FACTS)
def test_any_order_of_known_words_is_answered(
    text: str, language: str, facts: dict[str, object]
) -> None:
    found = GUARD.check(text, language=language, facts=facts, approved={text: "never.true"})
    assert found is None or found in RULES


@given(st.sampled_from("\x00\x1b\u200b\u202e\ufeff\u2028<>{}[]|`*_#@\\^~="))
def test_what_nobody_can_say_is_a_leak(char: str) -> None:
    sentence = f"Please stay{char} inside."
    assert GUARD.check(sentence, language="en", facts={}, approved={}) == "leak"


@pytest.mark.parametrize("sentence", ["", "  ", ".", "?!", "123", "a" * 401, "你" * 401])
def test_what_is_no_sentence_is_a_leak(sentence: str) -> None:
    for language in LANGUAGES:
        assert GUARD.check(sentence, language=language, facts={}, approved={}) == "leak"


@pytest.mark.parametrize("disguise", ["F o r c e the doors.", "Оpen the doors.", "0pen the d00rs."])
def test_a_disguise_is_not_spoken(disguise: str) -> None:
    assert GUARD.check(disguise, language="en", facts={}, approved={}) is not None


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_lexicon_knows_every_rule_that_needs_words(language: str) -> None:
    assert {rule.name for rule in rulebook(language).rules} == RULES - {"language"}


def test_a_lexicon_is_read_once() -> None:
    assert rulebook("en") is rulebook("en")


def test_a_language_without_a_lexicon_is_refused() -> None:
    with pytest.raises(LexiconError, match="there are en, es, zh"):
        rulebook("de")


@pytest.mark.parametrize("source", ["{nothing}", "(a|b", "a) b", "a ** b"])
def test_a_pattern_that_means_nothing_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|field"):
        compile_pattern(source, {})


LONG = {
    "en": "do not open the doors or the gate and then push it or pull it , " * 6,
    "es": "no abra las puertas ni empuje la puerta y luego tire de ella , " * 6,
    "zh": "不要把门打开也不要推门然后再拉门或者爬出去，" * 17,
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_sentence_takes_long(language: str) -> None:
    sentence = LONG[language][:400]
    GUARD.check(sentence, language=language, facts={}, approved={})
    started = time.perf_counter()
    GUARD.check(sentence, language=language, facts={}, approved={})
    assert time.perf_counter() - started < 0.1
