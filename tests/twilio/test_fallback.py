"""The carrier's own document rings people, asks nobody of ours, and fits where it is kept."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.phone_numbers import NumberRefused
from callflow.twilio.twiml import SENTENCES as IN_OUR_LANGUAGES
from callflow.twilio.twiml import FallbackTooLong, NobodyToCall, document

LADDER = [("+441632960001", 45), ("+441632960002", 30)]


def verbs(written: str) -> list[ET.Element]:
    return list(ET.fromstring(written.encode()))


def test_each_round_tells_the_caller_to_stay_and_rings_the_whole_ladder() -> None:
    found = verbs(document(["en-GB"], LADDER, "+441632960010"))
    *rounds, last = found
    assert [verb.tag for verb in rounds] == ["Say", "Dial", "Dial", "Pause"] * 5
    assert [verb.get("language") for verb in rounds[::4]] == ["en-GB"] * 5
    assert rounds[0].text == "Please stay on the line: a person is being called."
    for dial, (number, ring_s) in zip(rounds[1:3], LADDER, strict=True):
        # Without an action the next verb runs: the next number.
        assert dial.attrib == {"timeout": str(ring_s), "callerId": "+441632960010"}
        assert [(each.tag, each.text, each.attrib) for each in dial] == [("Number", number, {})]
    # At its end Twilio fetches the document again from where it keeps it.
    assert last.tag == "Gather"
    assert "action" not in last.attrib


def test_it_speaks_the_languages_of_the_site() -> None:
    for languages, spoken in (
        (["zh"], [("zh-CN", "zh")]),
        (["es-MX"], [("es-MX", "es")]),
        (["fr-FR"], [("en-GB", "en")]),
        ([], [("en-GB", "en")]),
        (["en-GB", "zh-TW", "es", "en-US"], [("en-GB", "en"), ("zh-TW", "zh"), ("es-ES", "es")]),
    ):
        says = [verb for verb in verbs(document(languages, LADDER)) if verb.tag == "Say"]
        first = [(say.get("language"), say.text) for say in says[: len(spoken)]]
        assert first == [(tag, IN_OUR_LANGUAGES[language]) for tag, language in spoken]


@given(
    languages=st.lists(st.sampled_from(["en", "zh", "es", "fr"]), max_size=4),
    humans=st.integers(1, 25),
)
def test_it_fits_where_the_carrier_keeps_it(languages: list[str], humans: int) -> None:
    ladder = [(f"+4416329{number:05}", 45) for number in range(humans)]
    written = document(languages, ladder, "+441632960010")
    assert len(written) <= 4_000
    numbers = [each.text for each in ET.fromstring(written.encode()).iter("Number")]
    assert numbers[:humans] == [number for number, _ in ladder]
    assert len(numbers) % humans == 0
    assert "http" not in written
    assert "{{" not in written  # The carrier would fill it in.


def test_without_a_caller_id_the_callers_own_is_shown() -> None:
    assert verbs(document(["en"], LADDER))[1].attrib == {"timeout": "45"}


def test_a_document_that_could_do_nothing_is_refused() -> None:
    with pytest.raises(NobodyToCall):
        document(["en"], [])
    with pytest.raises(NumberRefused):
        document(["en"], [*LADDER, ("999", 45)])
    with pytest.raises(FallbackTooLong, match="fewer human numbers"):
        document(["en"], LADDER * 40)
