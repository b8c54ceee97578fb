"""Labels and answers become numbers that mean what they are called."""

from __future__ import annotations

from callflow.lab.evaluation.dataset import Labelled
from callflow.lab.evaluation.scoring import (
    Answer,
    Confusion,
    Figures,
    Found,
    by_group,
    by_language,
    confusions,
    figures,
    rank,
    right,
)

GROUPS = {"stuck": "entrapment", "prying": "entrapment", "fire": "fire", "doors": "doors"}
STUCK = tuple(Found(f"{name}.say.en", name, group) for name, group in GROUPS.items())


def label(
    scenario: str | None = "stuck",
    group: str = "entrapment",
    also: tuple[str, ...] = (),
    gold: tuple[str, ...] = (),
    danger: bool | None = None,
    language: str = "en",
) -> Labelled:
    name = scenario or group
    return Labelled("f:1", "1", language, "words", name, scenario, group, also, gold, danger)


def answer(
    scenario: str | None = "stuck",
    danger: bool = False,
    found: tuple[Found, ...] = STUCK,
    worked_on: str | None = None,
) -> Answer:
    group, other = GROUPS.get(scenario or ""), GROUPS.get(worked_on or "")
    return Answer(scenario, group, 0.5, worked_on, other, danger, found, 1.0)


def test_a_scenario_must_be_that_scenario() -> None:
    assert right(label("stuck"), answer("stuck"))
    assert not right(label("stuck"), answer("prying"))


def test_what_is_also_right_is_right() -> None:
    assert right(label("stuck", also=("prying",)), answer("prying"))
    assert right(label("stuck", also=("fire",)), answer("fire"))
    assert not right(label("stuck", also=("fire",)), answer("doors"))


def test_any_scenario_of_a_group_is_right_where_the_label_is_the_group() -> None:
    assert right(label(None), answer("prying"))
    assert not right(label(None), answer("fire"))


def test_nothing_understood_is_never_right() -> None:
    assert not right(label("stuck"), answer(None))
    assert not right(label(None), answer(None))


def test_a_gold_chunk_that_we_have_must_be_that_chunk() -> None:
    known = {found.chunk_id for found in STUCK}
    assert rank(label(gold=("prying.say.en", "doors.say.en")), STUCK, known) == 2
    assert rank(label(gold=("doors.say.en", "ENT-01")), STUCK, known) == 4
    assert rank(label(gold=("doors.ask.en",)), STUCK, {"doors.ask.en"}) is None


def test_gold_chunks_that_we_do_not_have_are_scored_by_what_the_label_names() -> None:
    found = tuple(reversed(STUCK))
    assert rank(label(None, gold=("ENT-01",)), found, ()) == 3
    assert rank(label("stuck", gold=("ENT-01",)), found, ()) == 4
    assert rank(label(None, "fire"), found, ()) == 2
    assert rank(label(None, "medical"), found, ()) is None


def test_the_figures_are_shares_of_what_they_count() -> None:
    judged = [
        (label("stuck", danger=False), answer("stuck")),
        (label("prying", danger=False), answer("stuck", danger=True)),
        (label("fire", "fire", danger=True), answer("fire", danger=True)),
        (label("fire", "fire", danger=True), answer(None, found=())),
    ]
    assert figures(judged) == Figures(
        n=4,
        scenario_accuracy=0.5,
        call_accuracy=0.0,
        danger_recall=0.5,
        danger_false_alarms=0.5,
        recall_at_1=0.25,
        recall_at_3=0.75,
        mrr=round((1 + 1 / 2 + 1 / 3 + 0) / 4, 4),
    )


def test_what_the_call_is_worked_on_is_a_number_of_its_own() -> None:
    judged = [
        (label("stuck"), answer("stuck", worked_on="fire")),
        (label("stuck"), answer("fire", worked_on="stuck")),
        (label(None), answer("fire", worked_on="prying")),
        (label("stuck"), answer("stuck", worked_on=None)),
    ]
    found = figures(judged)
    assert (found.scenario_accuracy, found.call_accuracy) == (0.5, 0.5)


def test_danger_is_not_counted_where_the_label_does_not_tell() -> None:
    found = figures([(label(None, "doors", danger=None), answer("doors", danger=True))])
    assert (found.danger_recall, found.danger_false_alarms) == (None, None)


def test_of_nothing_there_is_no_number() -> None:
    assert figures([]) == Figures(0, None, None, None, None, None, None, None)
    assert by_language([]) == {}


def test_each_language_has_figures_of_its_own() -> None:
    judged = [
        (label("stuck", language="zh"), answer("stuck")),
        (label("stuck", language="en"), answer("fire")),
        (label("stuck", language="en"), answer("stuck")),
    ]
    found = by_language(judged)
    assert list(found) == ["en", "zh"]
    assert (found["en"].n, found["en"].scenario_accuracy) == (2, 0.5)
    assert (found["zh"].n, found["zh"].scenario_accuracy) == (1, 1.0)


def test_a_scenario_is_scored_by_its_group_as_well() -> None:
    judged = [(label("stuck"), answer("prying")), (label(None), answer("fire"))]
    assert by_group(judged) == {"entrapment": 0.5}


def test_only_what_was_confused_is_listed_most_frequent_first() -> None:
    judged = [
        *[(label("fire", "fire"), answer("fire"))] * 2,
        *[(label("prying"), answer("stuck"))] * 1,
        *[(label("stuck"), answer("stuck"))] * 5,
        *[(label("stuck"), answer("doors"))] * 1,
        *[(label("stuck"), answer(None))] * 2,
    ]
    assert confusions(judged) == [
        Confusion("stuck", 8, 5, ((None, 2), ("doors", 1))),
        Confusion("prying", 1, 0, (("stuck", 1),)),
    ]


def test_a_group_and_a_scenario_of_one_name_are_told_apart_in_the_table() -> None:
    judged = [
        (label("doors", "doors"), answer("stuck")),
        (label(None, "doors"), answer("stuck")),
    ]
    assert {each.label for each in confusions(judged)} == {"doors", "doors (group)"}
