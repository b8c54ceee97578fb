"""The lexical search tells what is likely from words alone, and learns from what callers say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Scored
from callflow.procedures.triage import DANGER, LIKELY
from callflow.retrieval.bayes import NaiveBayes, features
from callflow.retrieval.corpus import Corpus, Example, Passage
from callflow.retrieval.lexical import LexicalSearch
from callflow.retrieval.retriever import LexicalRetriever
from tests.word_encoder import small_corpus

SMALL = LexicalSearch(small_corpus())
LIBRARY = SopLibrary.load()
SEARCH = LexicalSearch.of_library(LIBRARY)
RETRIEVER = LexicalRetriever(LIBRARY, SEARCH)


@pytest.mark.parametrize(
    ("said", "language", "scenario"),
    [
        ("I can see SMOKE under the door!!", "en", "fire_smoke"),
        ("grandpa has collapsed and he isn't breathing", "en", "medical"),
        ("电梯里冒烟了", "zh-CN", "fire_smoke"),
        ("hay mucho humo", "es-MX", "fire_smoke"),
        ("oops pressed it by mistake", "en", "accidental_press"),
    ],
)
def test_plain_words_make_a_scenario_likely(said: str, language: str, scenario: str) -> None:
    assert SEARCH.score(said, language).likely[0][0] == scenario
    assert scenario in {hit.scenario for hit in RETRIEVER.search(said, language, 3, {})}


def test_danger_is_the_sum_of_what_puts_life_at_risk() -> None:
    assert SEARCH.score("there is smoke and she is not breathing", "en").danger > 0.7
    assert SEARCH.score("no smoke and nobody is bleeding", "en").danger < 0.5
    assert SEARCH.score("sorry wrong button by accident", "en").danger < 0.1


@pytest.mark.parametrize("said", ["", "  ", "...", "\U0001f642"])
def test_silence_makes_nothing_likely(said: str) -> None:
    assert SEARCH.score(said, "en") == Scored()


@pytest.mark.parametrize(
    "answer", ["the third one", "yes", "two of us", "三个人", "somos dos", "谢谢"]
)
def test_a_plain_answer_makes_nothing_likely(answer: str) -> None:
    scored = SEARCH.score(answer, "en")
    assert not scored.likely or scored.likely[0][1] < LIKELY
    assert scored.danger < DANGER


def test_examples_teach_words_that_no_cue_has() -> None:
    corpus = small_corpus()
    taught = LexicalSearch(
        replace(
            corpus,
            examples=(
                *corpus.examples,
                Example("fire", "en", "my eyes are stinging"),
                Example("fire", "en", "why do my eyes sting"),
            ),
        )
    )
    assert taught.score("stinging eyes", "en").likely[0][0] == "fire"


def test_a_prior_draws_the_order_and_rules_nothing_out() -> None:
    def score(topic: str, prior: dict[str, float]) -> float:
        hits = SMALL.search("bonjour monsieur", "en", 4, prior)
        found = {hit.scenario: hit.score for hit in hits}
        return found[topic] - sum(found.values()) / 4

    for topic in ("fire", "water", "stuck", "test"):
        assert score(topic, {topic: 0.9}) > score(topic, {}) + 1.0
    # A group counts for every topic in it.
    assert all(score(each, {"lift": 0.9}) > score(each, {}) for each in ("stuck", "test"))
    assert SMALL.search("smoke and flames", "en", 1, {"test": 0.6})[0].scenario == "fire"


def test_hits_come_once_each_and_in_the_callers_language() -> None:
    found = SMALL.search("smoke", "es", 9, {})
    assert sorted(hit.scenario for hit in found) == ["fire", "stuck", "test", "water"]
    assert found[0].chunk_id == "fire.say.es"


def test_more_topics_than_can_be_counted_are_told_apart_by_shared_words() -> None:
    passages = tuple(
        Passage(f"p{n}", f"t{n}", "g", "en", "s", f"procedure number x{n}x") for n in range(600)
    )
    search = LexicalSearch(Corpus(passages, (Example("t1", "en", "other words"),)))
    assert search.search("what about x417x", "en", 1, {})[0].chunk_id == "p417"


def test_features_outlive_a_misheard_ending() -> None:
    assert set(features("evacuating")) & set(features("evacuated"))
    assert len(features("a a a a")) == len(set(features("a a a a")))


def test_without_examples_bayes_prefers_no_topic() -> None:
    assert NaiveBayes([], 3).score("anything at all") == ([0.0] * 3, [0.0] * 3)


@given(st.text(max_size=200), st.text(max_size=6), st.integers(0, 4))
def test_any_words_give_the_same_probabilities_twice(said: str, language: str, k: int) -> None:
    scored = SEARCH.score(said, language)
    assert scored == SEARCH.score(said, language)
    assert 0.0 <= scored.danger <= 1.0
    assert sum(share for _, share in scored.likely) <= 1.001
    assert all(name in LIBRARY.documents for name, _ in scored.likely)
    assert len(RETRIEVER.search(said, language, k, {})) == k


def test_all_sections_of_a_procedure_come_with_it(tmp_path: Path) -> None:
    chunks = RETRIEVER.chunks("power_failure", "es_MX")
    assert [chunk.section for chunk in chunks] == ["ask", "say", "never", "escalate"]
    assert {chunk.sop for chunk in RETRIEVER.chunks("gone", "en")} == {"entrapment_standard"}
