"""No label can be made to say what somebody said, and no number of them grows for ever."""

from __future__ import annotations

import re
from importlib import resources

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from callflow.metrics.catalogue import BY_NAME, METRICS, MOST_VALUES, OTHER, Kind, label_value
from callflow.metrics.counters import Counters
from callflow.responder.guard.rules import LANGUAGES
from tests.metrics.watched import Watched, numbers
from tests.parts import SID, Parts

NO_WORDS = (
    *("", None, "+441632960999", "07700900123", "I cannot breathe", "help!", "救命"),
    *("CA" + "0123456789abcdef" * 2, "a" * 41, 'x"} 1\ncallflow_fake 1'),
)


def test_what_is_no_word_of_ours_is_called_other() -> None:
    assert [said for said in NO_WORDS if label_value(said) != OTHER] == []


def test_words_of_ours_are_told() -> None:
    labels = {
        "poison": "poison",
        "medical needs a person": "medical",
        "model: distress": "model_distress",
        "hung_up": "hung_up",
    }
    assert {reason: label_value(reason) for reason in labels} == labels


@given(st.text())
def test_no_text_makes_a_label_of_two_words_or_of_a_number(text: str) -> None:
    value = label_value(text)
    assert value.isascii()
    assert not value[0].isdigit()
    assert not set(value) & set(' "\n\\{}+')


def test_reasons_without_an_end_make_no_series_without_an_end() -> None:
    registry = CollectorRegistry()
    counters = Counters(registry)
    for number in range(200):
        counters.count("transfers", 0, f"reason{number}")
    known = next(one for one in METRICS if one.name == "transfers").known
    found = [
        sample
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "callflow_transfers_total"
    ]
    assert len(found) == MOST_VALUES + 1
    other = next(one for one in found if one.labels["reason"] == OTHER)
    assert other.value == 200 - (MOST_VALUES - len(known))


def test_nothing_that_is_said_or_who_said_it_is_in_the_metrics(
    parts: Parts, watched: Watched
) -> None:
    secret = "Xylophone"
    parts.intake.open(SID, site="tower", facts={"lift": secret})
    parts.intake.hear(SID, 1, f"my name is {secret}")
    parts.store.handovers.add_journal_line(SID, "remarked", f"guard:{secret} Miller")
    parts.store.handovers.want(SID, f"call {secret} on +441632960999")
    watched.look()
    text = watched.metrics.exposition()[0].decode()
    assert secret not in text
    assert "441632960999" not in text
    assert SID not in text
    assert numbers(text)['callflow_guard_catches_total{rule="other"}'] == 1


def test_every_rule_of_the_guard_is_told_from_the_start() -> None:
    """A rate cannot be seen of what begins with 1."""
    for language in LANGUAGES:
        rules = rules_of(language)
        assert len(rules) > 10
        assert {*rules, "language"} == set(BY_NAME["guard_catches"].known), language


def rules_of(language: str) -> list[str]:
    folder = resources.files("callflow.responder.guard") / "lexicon"
    text = (folder / f"{language}.yaml").read_text(encoding="utf-8")
    return re.findall(r"^  (\w+):$", text.split("\nrules:\n")[1].split("\nshape:\n")[0], re.M)


def test_names_carry_their_units_and_all_say_what_they_are() -> None:
    assert len({one.name for one in METRICS}) == len(METRICS)
    for one in METRICS:
        assert one.help.endswith("."), one.name
        assert (one.kind is Kind.TIMES) <= one.name.endswith("_seconds"), one.name
        assert bool(one.buckets_s) == (one.kind is Kind.TIMES), one.name
        assert one.exported.endswith("_total") == (one.kind is Kind.COUNTER), one.name
