"""How callers put it: beside the procedures, ours and the operator's together."""

from __future__ import annotations

from pathlib import Path

import pytest

from callflow.errors import SopError
from callflow.procedures.library import SopLibrary, check
from callflow.procedures.parser import parse_callers

SHIPPED = SopLibrary.load()


def test_every_scenario_is_put_in_many_ways_in_each_language() -> None:
    for document in SHIPPED.documents.values():
        for language in ("en", "zh", "es"):
            assert len(document.examples[language]) >= 10, f"{document.id} {language}"


def test_no_utterance_stands_under_two_scenarios() -> None:
    where: dict[str, set[str]] = {}
    for document in SHIPPED.documents.values():
        for said in document.examples.values():
            for text in said:
                where.setdefault(text.lower(), set()).add(document.id)
    assert {text: found for text, found in where.items() if len(found) > 1} == {}


def test_an_operator_adds_what_callers_really_said(tmp_path: Path) -> None:
    path = tmp_path / "power_failure.callers.md"
    path.write_text(
        "What we heard.\n\n## en\n\n- black as a boot in here\n\n## pt\n\n- está escuro\n"
    )
    assert check(tmp_path) == []
    loaded = SopLibrary.load(tmp_path).documents["power_failure"]
    ours = SHIPPED.documents["power_failure"]
    assert loaded.examples["en"] == (*ours.examples["en"], "black as a boot in here")
    assert loaded.examples["pt"] == ("está escuro",)
    assert loaded.sections == ours.sections


@pytest.mark.parametrize(
    ("name", "text", "line", "reason"),
    [
        ("medical.callers.md", "- help\n", 1, "needs a language"),
        ("medical.callers.md", "## en\n\n- help\n\n## en\n- x\n", 5, "given twice"),
        ("medical.callers.md", "## english\n", 1, "did you mean ## en"),
        ("medical.callers.md", "## en\n\n- ...\n", 3, "without a word"),
        ("medical.callers.md", "## en\n\nsome text\n", 3, "only ## languages"),
        ("medical.callers.md", "## en\n\n### Ask\n", 3, "only ## languages"),
        ("medicine.callers.md", "## en\n\n- help\n", 1, "no procedure 'medicine'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, name: str, text: str, line: int, reason: str
) -> None:
    (tmp_path / name).write_text(text)
    (problem,) = check(tmp_path)
    assert (problem.path.name, problem.line) == (name, line)
    assert reason in problem.reason
    with pytest.raises(SopError, match=name):
        SopLibrary.load(tmp_path)


def test_utterances_keep_their_order_and_come_once() -> None:
    said = parse_callers(Path("x.callers.md"), b"## en\n- b\n- a\n- b\n")
    assert said == {"en": ("b", "a")}
