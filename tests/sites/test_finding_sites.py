"""Which site a call belongs to, and what a right file of sites says of it."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest
from pydantic import ValidationError

from callflow.sites.directory import Sites, check
from callflow.sites.site import Human
from tests.sites.conftest import Written
from tests.sites.written import OWN, entry, file_of

ROOT = Path(__file__).parents[2]
A, B, LINE = "+441632960010", "+441632960020", "+441632960999"
UNKNOWN = "+441632960500"
NOBODYS = (
    *("", "anonymous", "Anonymous", "Restricted", "unavailable", "unknown", "+266696687"),
    *("sip:+441632960999@example.org", "sip:lift@example.org", "client:alice"),
    *("whatsapp:+441632960999", "\0", "*", "٤٤", "1" * 5_000),
)

THREE = file_of(
    entry(id="a", called=f'["{A}"]'),
    entry(id="b", called=f'["{B}"]', calling=f'["{LINE}"]'),
    entry(id="rest", called='["*"]', caller_id=f'"{OWN}"'),
)


@pytest.fixture
def sites(written: Written) -> Sites:
    return Sites.load(written(THREE))


@pytest.fixture
def no_rest(written: Written) -> Sites:
    return Sites.load(written(THREE.replace('["*"]', '["+441632960030"]')))


def found(sites: Sites, called: str, calling: str) -> str | None:
    site = sites.find(called, calling)
    return None if site is None else site.id


def test_the_line_comes_before_the_number_and_the_number_before_the_rest(sites: Sites) -> None:
    assert found(sites, A, LINE) == "b"
    assert found(sites, A, UNKNOWN) == "a"
    assert found(sites, UNKNOWN, UNKNOWN) == "rest"


def test_a_called_number_is_no_line_and_a_line_is_no_called_number(no_rest: Sites) -> None:
    assert found(no_rest, UNKNOWN, A) is None
    assert found(no_rest, LINE, UNKNOWN) is None


def test_a_withheld_or_foreign_address_is_no_line(sites: Sites, no_rest: Sites) -> None:
    for address in NOBODYS:
        assert found(sites, A, address) == "a"
        assert found(sites, UNKNOWN, address) == "rest"
        assert found(no_rest, UNKNOWN, address) is None
        assert found(no_rest, address, address) is None
        assert found(sites, address, UNKNOWN) == "rest"


SPELLINGS = ("+44 1632 960010", "+44-1632-960010", "+44.1632.960010", "(+44) 1632 960010",
             "+44 (0)1632 960010", "+44\u00a01632\u00a0960010", " +441632960010 ")  # fmt: skip


def test_a_number_is_the_same_however_people_write_it(written: Written) -> None:
    for spelling in SPELLINGS:
        humans = f'[{{number: "{spelling}", name: N}}]'
        site = entry(called=f'["{spelling}"]', calling=f'["{spelling}"]', humans=humans)
        sites = Sites.load(written(file_of(site)))
        (site_read,) = sites
        assert site_read.called == site_read.calling == (A,)
        assert site_read.humans[0].number == A
        assert sites.find(A, "") is sites.find("", A) is sites.find(spelling, "") is site_read


def test_sites_are_counted_and_found_by_id(sites: Sites) -> None:
    assert len(sites) == 3
    assert [site.id for site in sites] == ["a", "b", "rest"]
    rest = sites.get("rest")
    assert rest is not None
    assert rest.number_to_show == OWN
    assert sites.get("c") is None


def test_what_is_left_out_has_its_default(written: Written) -> None:
    (site,) = Sites.load(written(file_of(entry())))
    assert (site.language, site.mode, site.voice) == ("en", "assist", None)
    assert (site.emergency_number, site.caller_id, site.device) == (None, None, None)
    assert (site.allowed_digits, site.calling, site.humans[0].ring_s) == ("", (), 45)
    assert site.number_to_show == A


def test_the_callers_id_is_shown_before_the_called_number(written: Written) -> None:
    (site,) = Sites.load(written(file_of(entry(caller_id=f'"{B}"'))))
    assert site.number_to_show == B
    (site,) = Sites.load(written(file_of(entry(called=f'["*", "{B}"]'))))
    assert site.number_to_show == B


def test_a_site_cannot_be_changed(sites: Sites) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        next(iter(sites)).lift = "Lift 5"  # type: ignore[misc]


def test_nothing_in_yaml_is_read_as_anything_but_text(written: Written) -> None:
    (site,) = Sites.load(written(file_of(entry(id="no", lift="010", allowed_digits="007"))))
    assert (site.id, site.lift, site.allowed_digits) == ("no", "010", "007")


def test_an_address_on_several_lines_is_told_as_one(written: Written) -> None:
    address = "|\n      1 High Street\n\n      Leeds"
    (site,) = Sites.load(written(file_of(entry(address=address))))
    assert site.address == "1 High Street Leeds"


def test_a_list_without_its_heading_will_do(written: Written) -> None:
    assert len(Sites.load(written(THREE.removeprefix("sites:\n")))) == 3


FULL = """
- id: a
  called: ["+441632960010", "+441632960011"]
  calling: ["+441632960999"]
  lift: Lift 4
  address: 1 High Street, Leeds
  language: en-GB
  mode: agent_only
  voice: relay
  humans:
    - {number: "+441632960101", name: Control room, ring_s: 30}
    - {number: "+441632960102", name: Night desk}
  emergency_number: "999"
  caller_id: "+441632960010"
  device: Example 3000
  allowed_digits: "1#"
- id: b
  called: ["+441632960020"]
  lift: 2号电梯
  address: 人民路88号
  language: zh-CN
  humans: [{number: "+441632960103", name: 值班室}]
"""
COLUMNS = (
    "id,called,calling,lift,address,language,mode,voice,humans,"
    "emergency_number,caller_id,device,allowed_digits"
)
SAME = f"""{COLUMNS}
a,+441632960010; +441632960011,+441632960999,Lift 4,"1 High Street, Leeds",en-GB,agent_only,relay,\
+441632960101|Control room|30; +441632960102 | Night desk,999,+441632960010,Example 3000,1#
b,+441632960020,,2号电梯,人民路88号,zh-CN,,,+441632960103|值班室,,,,
"""


TABLES = {
    "as it is": SAME,
    "byte order mark": "\ufeff" + SAME,
    "Windows": SAME.replace("\n", "\r\n"),
    "spaces": SAME.replace(",called,", ", called ,"),
    "empty line": SAME.replace("\nb", "\n\nb"),
    "cell of two lines": SAME.replace("Street, Leeds", "Street,\nLeeds"),
}


def test_a_csv_file_says_the_same_as_a_yaml_file(written: Written) -> None:
    from_yaml = list(Sites.load(written(FULL)))
    assert from_yaml[0].humans[1] == Human(number="+441632960102", name="Night desk")
    for name, table in TABLES.items():
        assert list(Sites.load(written(table, "sites.CSV"))) == from_yaml, name


def test_the_sites_of_the_demo_are_right() -> None:
    path = Path(str(files("callflow.lab.chaos").joinpath("demo_sites.yaml")))
    assert check(path) == []
    sites = Sites.load(path)
    assert {site.language[:2] for site in sites} == {"en", "es", "zh"}
    assert {site.mode for site in sites} == {"assist", "agent_only"}
    assert {site.voice for site in sites} >= {"gather", "relay"}
    assert found(sites, UNKNOWN, "anonymous") == "everything-else"


def test_the_example_is_right_and_shows_every_field() -> None:
    path = ROOT / "sites.example.yaml"
    assert check(path) == []
    first = next(iter(Sites.load(path)))
    assert first.model_fields_set == set(type(first).model_fields)


def many(count: int) -> str:
    return file_of(
        *(
            entry(
                id=f"site-{number}",
                called=f'["+44{1_000_000_000 + number}"]',
                calling=f'["+44{2_000_000_000 + number}"]',
            )
            for number in range(count)
        )
    )


@pytest.mark.slow
def test_a_file_of_20000_sites_is_read_and_each_is_found(written: Written) -> None:
    sites = Sites.load(written(many(20_000)))
    assert len(sites) == 20_000
    for number in range(0, 20_000, 777):
        assert found(sites, f"+44{1_000_000_000 + number}", "anonymous") == f"site-{number}"
        assert found(sites, UNKNOWN, f"+44{2_000_000_000 + number}") == f"site-{number}"
