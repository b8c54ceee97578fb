"""What the search finds where the network keeps a copy of a request, and hands it over when the
client has long gone on: the data of a closed connection is sent again for seconds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from callflow.store.result import Claimed, Result
from tests.parts import SID, Parts
from tests.protocol.explorer import explore
from tests.protocol.moves import SAID_AGAIN, Size
from tests.protocol.report import story
from tests.protocol.sizes import RULES
from tests.protocol.steps import Protocol

THREE_PIECES = Size(utterances=1, pieces=3, faults=1, poison=True)


def test_a_late_copy_of_a_shorter_draft_makes_the_successor_say_a_piece_again() -> None:
    found = explore(Protocol(replace(RULES, drafts_only_grow=False), THREE_PIECES))
    example = found.counterexample
    assert example is not None
    print(story(example))
    assert example.promise == SAID_AGAIN
    drafts = [step.after.record.draft for step in example.steps if step.after.record.draft]
    assert ("1a", "2a") in drafts
    assert drafts[-2:] == [("1a",), ("1a", "2b")], "the second piece is worded anew"


@pytest.mark.night
@pytest.mark.timeout(600)
def test_where_drafts_only_grow_no_late_copy_does_harm() -> None:
    found = explore(Protocol(RULES, THREE_PIECES))
    assert found.counterexample is None, story(found.counterexample)


def test_a_late_copy_of_a_draft_takes_nothing_back(parts: Parts) -> None:
    parts.store.open(SID)
    parts.store.record_utterance(SID, 1, "Stuck between floors.")
    claimed = parts.store.claim(SID, "w1@test/1-00", "claim-1")
    assert isinstance(claimed, Claimed)
    for text in ("Help", "Help is on", "Help"):
        assert parts.store.save_draft(claimed.lease, 1, text) is Result.OK
    draft = parts.record().draft
    assert draft is not None
    assert draft.text == "Help is on"
