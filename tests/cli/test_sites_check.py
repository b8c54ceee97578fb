"""`callflow sites check` tells all that is wrong with a file, and ends with what scripts need."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.running import Cli

TWO_HUMANS = """
      - {number: "+441632960101", name: Control room, ring_s: 30}
      - {number: "+441632960102", name: Night desk}
"""
RIGHT = f"""sites:
  - id: high-street
    called: ["+441632960010"]
    lift: Lift 4
    address: 1 High Street
    language: en-GB
    emergency_number: "999"
    humans:{TWO_HUMANS}"""
ONE_HUMAN = RIGHT.replace("ring_s: 30", "ring_s: 60").replace(
    '      - {number: "+441632960102", name: Night desk}\n', ""
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sites.yaml"


def test_a_right_file_is_summed_up_in_one_line(cli: Cli, file: Path) -> None:
    file.write_text(RIGHT)
    ran = cli.run("sites", "check", str(file))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == (
        f"{file}: all right, 1 site · 1 × assist · 1 × en-GB · 2 numbers on the ladders\n"
    )


def test_each_problem_is_a_line_that_editors_understand(cli: Cli, file: Path) -> None:
    file.write_text(RIGHT.replace("lift:", "lfit:").replace("+441632960101", "+44999"))
    ran = cli.run("sites", "check", str(file))
    assert ran.code == 1
    told = ran.out.splitlines()
    assert [line.split(": ")[0] for line in told] == [f"{file}:{at}" for at in (2, 4, 8)]
    assert "did you mean lift?" in told[1]
    assert "public emergency number" in told[2]
    assert "3 problems: no process would start with it" in ran.err


def test_programs_get_one_json_value(cli: Cli, file: Path) -> None:
    file.write_text(RIGHT)
    ran = cli.run("sites", "check", str(file), "--json")
    assert (ran.code, ran.json) == (0, {"ok": True, "problems": [], "warnings": []})
    file.write_text(RIGHT.replace("assist", "").replace("lift: Lift 4", "lift: ''"))
    ran = cli.run("sites", "check", str(file), "--json")
    assert ran.code == 1
    assert ran.json == {
        "ok": False,
        "problems": [{"path": str(file), "line": 4, "reason": "site 'high-street': lift is empty"}],
        "warnings": [],
    }


WARNINGS = [
    (ONE_HUMAN, "site high-street: one human only; nobody comes after them"),
    (ONE_HUMAN, "site high-street: the first human is rung for 60 s; ASME A17.1 wants"),
    (
        RIGHT.replace('    emergency_number: "999"\n', ""),
        "site high-street: no emergency_number to tell to the human",
    ),
]


def test_a_warning_is_told_and_fails_nothing(cli: Cli, file: Path) -> None:
    for text, warning in WARNINGS:
        file.write_text(text)
        ran = cli.run("sites", "check", str(file))
        assert ran.code == 0
        assert warning in ran.err
        assert "all right" in ran.out
        ran = cli.run("sites", "check", str(file), "--json")
        assert (ran.code, ran.err, ran.json["ok"]) == (0, "", True)
        assert any(told.startswith(warning) for told in ran.json["warnings"])


def test_a_first_ring_of_45_seconds_is_no_warning(cli: Cli, file: Path) -> None:
    file.write_text(RIGHT.replace("ring_s: 30", "ring_s: 45"))
    assert cli.run("sites", "check", str(file)).err == ""


def test_a_file_that_is_not_there_is_a_problem(cli: Cli, tmp_path: Path) -> None:
    ran = cli.run("sites", "check", str(tmp_path / "gone.yaml"))
    assert ran.code == 1
    assert ran.out == f"{tmp_path}/gone.yaml:1: cannot be read: No such file or directory\n"


def test_what_stands_in_a_file_cannot_move_the_cursor(cli: Cli, file: Path) -> None:
    file.write_text(RIGHT + '    "wheels\\e[2J": 4\n')
    ran = cli.run("sites", "check", str(file))
    assert ran.code == 1
    assert "\x1b" not in ran.out
    assert "is no field" in ran.out
