"""Transcripts of a recogniser are scored by how much of them was misheard."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from callflow.lab.evaluation.dataset import LabelError
from callflow.lab.evaluation.heard import (
    HeardAnswer,
    HeardLine,
    read_heard,
    report_heard,
    word_errors,
)
from tests.evaluation.test_reading_labels import WORDS


@pytest.mark.parametrize(
    ("said", "heard", "share"),
    [
        ("there is smoke in here", "there is smoke in here", 0.0),
        ("there is smoke in here", "there is smoking here", 0.4),
        ("there is smoke", "", 1.0),
        ("着火了", "招火了", 1 / 3),
    ],
)
def test_errors_are_counted_by_word_and_in_chinese_by_character(
    said: str, heard: str, share: float
) -> None:
    assert word_errors(said, heard) == pytest.approx(share)


def _read(**values: Any) -> list[HeardLine]:
    line = {"lang": "en", "said": "we are stuck", "text": "we are stuck", "scenario": "stuck"}
    data = json.dumps({**line, **values}).encode()
    return read_heard(Path("-"), io.BytesIO(data), WORDS)


def test_what_was_left_out_is_counted_and_unknown_confidence_stays_so() -> None:
    (line,) = _read(text="we are duck")
    assert (round(line.errors, 2), line.confidence) == (0.33, None)
    (line,) = _read(wer=0.1, confidence=0.7)
    assert (line.errors, line.confidence) == (0.1, 0.7)


@pytest.mark.parametrize(
    ("values", "named"), [({"said": ""}, "said is missing"), ({"wer": "x"}, "wer must be a share")]
)
def test_a_line_that_cannot_be_used_is_refused_by_place(values: Any, named: str) -> None:
    with pytest.raises(LabelError, match=f"stdin:1: {named}"):
        _read(**values)


def _answer(errors: float, *, grave: bool, danger: bool, back: bool = False) -> HeardAnswer:
    (line,) = _read(wer=errors, scenario="stuck", urgency="P1" if grave else "P3")
    return HeardAnswer(line, scenario_right=True, danger=danger, asked_back=back)


def test_each_band_holds_the_one_before_and_what_was_missed_may_be_asked_back() -> None:
    report = report_heard(
        [
            _answer(0.1, grave=True, danger=True),
            _answer(0.4, grave=True, danger=False, back=True),
            _answer(0.9, grave=True, danger=False),
            _answer(0.9, grave=False, danger=True),
        ],
        wrong=True,
    )
    assert [report[band]["n"] for band in ("up_to_25", "up_to_50", "all")] == [1, 2, 4]
    assert report["up_to_25"]["danger_recall"] == 1.0
    assert report["up_to_25"]["missed_asked_back"] is None
    assert report["up_to_50"]["missed_asked_back"] == 1.0
    assert report["all"]["missed_asked_back"] == 0.5
    assert report["all"]["danger_false_alarms"] == 1.0
    assert [each["danger_missed"] for each in report["wrong"]] == [True, True]
