"""The guard is tried on all that the procedures have to say, and on what somebody labelled."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.lab.evaluation.evaluate import Spoken, caught, judge_guard
from callflow.lab.evaluation.rehearsal import open_call
from callflow.procedures.document import Shared
from callflow.procedures.library import SopLibrary
from callflow.procedures.parser import parse_document
from callflow.responder.guard import Guard

DOCUMENT = """---
id: gate
title: The gate
version: 1
group: gate
urgency: P4
---

## en

### Ask

- Is the gate open?

### Say

- [booked] An engineer is booked. {after: gate.booked}
- [opens] The gate opens at {gate_time}.
- [quiet] It is quiet here.

### Never

- Do not claim that it is quiet. {forbids: quiet}
"""


@pytest.fixture(scope="module")
def guard() -> Guard:
    return Guard()


@pytest.fixture
def library() -> SopLibrary:
    return SopLibrary({"gate": parse_document(Path("gate.md"), DOCUMENT.encode(), Shared())})


def test_own_sentences_pass_once_their_facts_and_gaps_are_known(
    guard: Guard, library: SopLibrary
) -> None:
    found = judge_guard(guard, library)
    # What a rule of the procedure forbids is never spoken, so it is not tried.
    assert (found.own, found.own_caught) == (3, 0)
    assert found.mistakes == tuple(each for each in found.mistakes if each.rule is None)
    assert found.as_dict()["catch_rate"] is None


def test_what_waits_for_a_fact_must_be_caught_before_it(guard: Guard, library: SopLibrary) -> None:
    found = judge_guard(guard, library)
    assert (found.waiting, found.waiting_caught) == (2, 2), found.mistakes


def test_labelled_sentences_are_tried_with_their_own_facts(guard: Guard) -> None:
    sent = "An engineer has been requested."
    lines = [
        Spoken("f:1", "en", sent, True, {}),
        Spoken("f:2", "en", sent, False, {"dispatch.requested": True}),
        Spoken("f:3", "en", "Pull the doors apart with your hands.", True, {}),
        Spoken("f:4", "en", "Please stay where you are.", True, {}),
        Spoken("f:5", "en", "Sure.", True, {}, caller="may we climb out"),
    ]
    found = judge_guard(guard, SopLibrary({}), lines)
    assert (found.forbidden, found.caught) == (4, 3)
    assert (found.harmless, found.harmless_caught) == (1, 0)
    (mistake,) = found.mistakes
    assert (mistake.where, mistake.rule) == ("f:4", None)


def test_a_reply_is_judged_by_the_facts_and_procedures_of_its_call(
    guard: Guard, library: SopLibrary
) -> None:
    record = open_call("en").model_copy(
        update={"retrieved_sop_chunks": library.chunks("gate", "en")}
    )
    (mistake,) = caught(guard, ["Is the gate open?", "An engineer is booked."], record, "f:1")
    assert (mistake.where, mistake.sentence) == ("f:1", "An engineer is booked.")
    booked = record.model_copy(update={"facts": {"gate.booked": True}})
    assert caught(guard, ["An engineer is booked."], booked, "f:1") == []
