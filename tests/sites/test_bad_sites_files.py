"""Whatever is wrong in a file of sites is told with its line and with what to write."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from pathlib import Path

import pytest

from callflow.errors import CallflowError
from callflow.sites.directory import Sites, SitesError, check
from tests.sites.conftest import Written
from tests.sites.written import OWN, entry, file_of, line_of

HUMAN = '[{{number: "{}", name: Control room}}]'


def misses(
    written: Written, table: Iterable[tuple[str, int, str]], name: str = "sites.yaml"
) -> list[str]:
    """The rows (text, line, reason) of a table that are told otherwise."""
    problems = [(only_problem(written(text, name)), line, reason) for text, line, reason in table]
    return [
        f"{problem.reason!r} in line {problem.line}, not {reason!r} in {line}"
        for problem, line, reason in problems
        if reason not in problem.reason or problem.line != line
    ]


def only_problem(path: Path) -> SitesError:
    """The one thing that is wrong; `load` must refuse the file for it in the same words."""
    (problem,) = check(path)
    with pytest.raises(SitesError) as caught:
        Sites.load(path)
    assert str(caught.value) == str(problem) == f"{path}:{problem.line}: {problem.reason}"
    assert isinstance(problem, CallflowError)
    assert problem.path == path
    assert "\n" not in str(problem)
    return problem


def test_what_the_changed_entries_begin_with_is_right(written: Written) -> None:
    assert check(written(file_of(entry()))) == []


FIELDS = [
    ("adress", "1 High Street", "adress is no field, did you mean address?"),
    ("wheels", "4", "wheels is no field; known are id, called, calling"),
    ("id", "high street", "id is not written as it must be"),
    ("id", "x" * 65, "id is not written as it must be"),
    ("id", None, "id is missing"),
    ("lift", None, "lift is missing"),
    ("lift", '""', "lift is empty"),
    ("lift", '"\\x00"', "lift has a control character"),
    ("lift", "[4, 5]", "lift must be one text, and no list"),
    ("address", None, "address is missing"),
    ("mode", "asist", "mode should be 'assist' or 'agent_only'"),
    ("voice", "media-streams", "voice should be 'gather' or 'relay'"),
    ("language", "fr", "'fr' is no language that callflow speaks: write one of en, es, zh"),
    ("language", "english", "'english' is no language that callflow speaks"),
    ("language", "en_GB", "'en_GB' is no language that callflow speaks"),
    ("humans", None, "humans is missing"),
    ("humans", "[]", "humans is empty: name at least one"),
    ("humans", "", "humans must be a list"),
    ("humans", '["+441632960101"]', "humans.0 must have a number and a name"),
    ("humans", '[{number: "+441632960101"}]', "humans.0.name is missing"),
    ("humans", "[{name: Control room}]", "humans.0.number is missing"),
    (
        "humans",
        '[{number: "+441632960101", name: N, rings: 3}]',
        "humans.0.rings is no field, did you mean ring_s?",
    ),
    ("called", OWN, "called must be a list"),
    ("called", '["01632960010"]', "is no telephone number: write it as + and 8 to 15 digits"),
    ("called", '["+4416329"]', "is no telephone number"),
    ("called", '["+0441632960010"]', "is no telephone number"),
    ("calling", '["anonymous"]', "is no telephone number"),
    ("caller_id", '"01632960010"', "is no telephone number"),
    ("emergency_number", "ambulance", "emergency_number is not written as it must be"),
    ("allowed_digits", "12e", "allowed_digits is not written as it must be"),
    ("allowed_digits", '"12345678901234567"', "allowed_digits is not written as it must be"),
]


def with_field(field: str, text: str | None) -> tuple[str, int]:
    """A file whose one site has this field so, and the line in which the field stands."""
    line = 2 if text is None else line_of(field, **{field: text})
    return file_of(entry(**{field: text})), line


def test_a_wrong_field_is_told_where_it_stands(written: Written) -> None:
    table = [(*with_field(field, text), reason) for field, text, reason in FIELDS]
    assert misses(written, table) == []


def rung_for(seconds: str) -> str:
    return f'[{{number: "+441632960101", name: N, ring_s: {seconds}}}]'


def test_a_human_is_rung_for_5_to_120_seconds(written: Written) -> None:
    wrong = ("4", "121", "-1", "0", "soon", "10.5", '""')
    table = [
        (*with_field("humans", rung_for(seconds)), "humans.0.ring_s should be") for seconds in wrong
    ]
    assert misses(written, table) == []


def test_the_bounds_themselves_are_right(written: Written) -> None:
    for seconds in ("5", "120"):
        assert check(written(file_of(entry(humans=rung_for(seconds))))) == []
    assert check(written(file_of(entry(allowed_digits='"0123456789*#ABCD"')))) == []


EMERGENCY = (
    *("112", "911", "999", "+112", "1 1 2", "+1911", "+44999", "+44 112", "+86110", "+86 120"),
    *("+86119", "0044999", "+44 (0)999", "+44-0-999", "+34112", "+19115550123", "+852999"),
    *("+61000", "tel:112", "sip:112@example.org", "+44000000999"),
)


def test_no_public_emergency_number_may_be_rung_however_it_is_dressed(written: Written) -> None:
    reason = (
        "is a public emergency number or another short code: a machine never dials those; "
        "name the number of a person"
    )
    fields = [("humans", HUMAN.format(number)) for number in EMERGENCY]
    fields += [("caller_id", f'"{number}"') for number in EMERGENCY]
    assert misses(written, [(*with_field(*field), reason) for field in fields]) == []


def test_the_number_that_a_human_is_told_may_be_an_emergency_number(written: Written) -> None:
    for number in ("999", "112", "+44 999"):
        assert check(written(file_of(entry(emergency_number=f'"{number}"')))) == []


def test_an_id_that_comes_twice_is_told_with_both_lines(written: Written) -> None:
    first, second = entry(), entry(called='["+441632960020"]')
    problem = only_problem(written(file_of(first, second)))
    assert problem.line == 7
    assert problem.reason == "site 'high-street' stands in line 2 already"


def test_a_number_belongs_to_one_site(written: Written) -> None:
    for field in ("called", "calling"):
        first = entry(**{field: '["+441632960030"]'}, caller_id=f'"{OWN}"', id="a")
        again = {"id": "b", "called": '["+441632960020"]', field: '["+44 1632 960030"]'}
        problem = only_problem(written(file_of(first, entry(**again, caller_id=f'"{OWN}"'))))
        assert problem.line == 2 + len(first.splitlines())
        assert problem.reason == f"site 'b': {field} +441632960030 belongs to site 'a' already"


def test_one_site_only_takes_the_rest(written: Written) -> None:
    rest = {"called": '["*"]', "caller_id": f'"{OWN}"'}
    problem = only_problem(written(file_of(entry(id="a", **rest), entry(id="b", **rest))))
    assert "called * belongs to site 'a' already" in problem.reason


WITHOUT_NUMBERS: list[tuple[dict[str, str | None], str]] = [
    ({"called": None}, "has neither called nor calling numbers"),
    ({"called": None, "calling": '["+441632960999"]'}, "add caller_id"),
    ({"called": '["*"]'}, "add caller_id"),
    ({"calling": '["*"]'}, "only a called number can be any"),
]


def test_a_site_must_be_found_and_must_have_a_number_to_show(written: Written) -> None:
    table = [(file_of(entry(**changed)), 2, reason) for changed, reason in WITHOUT_NUMBERS]
    assert misses(written, table) == []


def test_every_problem_is_told_in_the_order_of_lines(written: Written) -> None:
    text = file_of(entry(mode="loud", lift=None), entry(id="b", voice="x"), entry(), entry())
    problems = check(written(text))
    assert [problem.line for problem in problems] == [2, 6, 12, 18]
    with pytest.raises(SitesError, match=r":2: "):
        Sites.load(problems[0].path)


YAML = [
    ("", 1, "has no list of sites"),
    ("# nothing\n", 1, "has no list of sites"),
    ("{}", 1, "has no list of sites"),
    ("sites:\n", 1, "has no list of sites"),
    ("sites: []\n", 1, "names no site"),
    ("lift: 4\n", 1, "'lift' is no part of it"),
    (file_of(entry()) + "defaults: {}\n", 7, "'defaults' is no part of it"),
    (file_of(entry()) + file_of(entry()), 7, "has sites twice in one entry"),
    (file_of(entry()) + "    lift: Lift 5\n", 7, "has lift twice in one entry"),
    (file_of(entry(humans="[{name: N, name: M}]")), 6, "has name twice in one entry"),
    ("sites:\n  - Lift 4\n", 2, "has an entry that is no site"),
    ("sites:\n  - id: [a\n", 3, "is no YAML"),
    ("sites:\n  - id: 'a\n\n", 4, "is no YAML"),
    ("sites:\n\t- id: a\n", 2, "is no YAML"),
    ("sites:\n  - id: *gone\n", 2, "is no YAML: found undefined alias"),
    ("sites:\n  - id: \x01\n", 2, "is no YAML: control characters are not allowed"),
    ("--- []\n--- []\n", 2, "is no YAML: but found another document"),
    ("sites:\n  - ? [a]\n    : b\n", 2, "has a key that is no plain word"),
    ("sites:\n  - id: &loop [*loop]\n", 2, "has lists too deep in one another"),
    ("sites: " + "[" * 50_000, 1, "is no YAML"),
]


def test_broken_yaml_is_told_with_its_line(written: Written) -> None:
    assert misses(written, YAML) == []


HEAD = "id,called,lift,address,humans"
ROW = "a,+441632960010,L,A,+441632960101|N"
CSV = [
    ("", 1, "names no site"),
    (f"{HEAD}\n", 1, "names no site"),
    (f"{HEAD},adress\n{ROW},\n", 1, "column 'adress' is no field, did you mean address?"),
    (f"{HEAD},lift\n{ROW},L\n", 1, "has the column lift twice"),
    ("id;called;lift\na;b;c\n", 1, "columns are divided by commas"),
    (f"{HEAD}\n{ROW}\nb,c\n", 3, "has more or fewer cells than the first row"),
    (f"{HEAD}\n{ROW},more\n", 2, "has more or fewer cells than the first row"),
    (f'{HEAD}\n{ROW}\n"b"c,d\n', 3, "is no CSV"),
    (f'{HEAD}\n"b\n', 2, "is no CSV"),
    (f"{HEAD}\n{ROW}|30|me\n", 2, "has too many parts: number|name|seconds"),
    (f"{HEAD}\n{ROW}|4\n", 2, "humans.0.ring_s should be greater than or equal to 5"),
    (f"{HEAD}\n{ROW.replace('|N', '')}\n", 2, "humans.0.name is missing"),
    (f"{HEAD}\n{ROW.replace('+441632960101', '+44999')}\n", 2, "public emergency number"),
    (f"{HEAD}\n{ROW}\n{ROW.replace('10', '20')}\n", 3, "stands in line 2 already"),
]


def test_broken_csv_is_told_with_its_line(written: Written) -> None:
    assert misses(written, CSV, "sites.csv") == []


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in only_problem(tmp_path / "gone.yaml").reason
    assert "cannot be read: Is a directory" in only_problem(tmp_path).reason
    (tmp_path / "latin.csv").write_bytes("id,lift\na,Señor\n".encode("latin-1"))
    assert "cannot be read: it is not UTF-8" in only_problem(tmp_path / "latin.csv").reason


def test_reading_leaves_the_cycle_collector_as_it_was(written: Written) -> None:
    path = written("sites: [")
    check(path)
    assert gc.isenabled()
    gc.disable()
    try:
        check(path)
        assert not gc.isenabled()
    finally:
        gc.enable()
