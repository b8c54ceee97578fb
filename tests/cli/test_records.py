"""`callflow records`: what lasts is found, shown, exported without names, verified and erased."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from callflow import bootstrap
from callflow.cli import deployment
from callflow.lab.carrier.phone_account import LocalPhone, published
from callflow.records.record_store import RecordStore
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.keys import call_keys
from tests.archiving import BEGAN_MS, KEY, archive_into, archiving, complete, one_call, url_in
from tests.cli.running import Cli
from tests.parts import SID, TIMING

pytestmark = pytest.mark.usefixtures("no_pauses")


SITES = """\
sites:
  - id: tower-1
    called: ["+442071838750"]
    lift: Lift 1
    address: 1 High Street
    humans: [{number: "+447700900999", name: Ana}]
  - id: tower-2
    called: ["+442071838751"]
    lift: Lift 2
    address: 1 High Street
    humans: [{number: "+447700900999", name: Ana}]
"""


@pytest.fixture
def kept(cli: Cli) -> RecordStore:
    """Two calls, of which one is a test."""
    url = url_in(cli.home)
    cli.set("CALLFLOW_RECORDS_URL", url)
    records = RecordStore.open(url)
    records.keep(complete("CA1"))
    now_ms = time.time_ns() // 1_000_000
    tried = complete("CA2", scenario_type="test_call_automatic", facts={}, site="tower-1")
    ended = ("1-0", {"event": "ended", "at": str(now_ms)})
    records.keep(replace(tried, lines=(ended,), thread=()))
    return records


def test_records_are_listed_and_filtered(cli: Cli, kept: RecordStore) -> None:
    ran = cli.run("records", "ls", "--json")
    assert (ran.code, [row["call_sid"] for row in ran.json]) == (0, ["CA2", "CA1"])
    assert {"position", "ended_at", "site", "outcome", "erased", "test"} <= ran.json[0].keys()
    ended = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(BEGAN_MS / 1000 + 7))
    assert [row["call_sid"] for row in cli.run("records", "ls", "--json", "--since", ended).json]
    assert cli.run("records", "ls", "--json", "--until", "2001-01-01").json == []
    found = cli.run("records", "ls", "--text", "stuck", "--outcome", "hung_up", "--site", "tower-1")
    assert "CA1" in found.out
    assert "CA2" not in found.out


def test_one_record_is_shown_whole(cli: Cli, kept: RecordStore) -> None:
    shown = cli.run("records", "show", "CA1")
    assert shown.code == 0
    assert "I am Maria, stuck" in shown.out
    assert "committed" in shown.out
    whole = cli.run("records", "show", "CA1", "--json").json
    assert whole["record"]["conversation_thread"][1]["text"] == "Help is coming."
    assert whole["chain"][0]["kind"] == "record"
    cli.run("records", "show", "CA9").failed_with("call CA9 has no lasting record")


def test_an_export_tells_no_names_and_no_numbers_unless_it_is_asked_to(
    cli: Cli, kept: RecordStore
) -> None:
    exported = cli.run("records", "export")
    assert exported.code == 0
    first, second = exported.events
    assert (first["call_sid"], second["call_sid"]) == ("CA1", "CA2")
    said = first["record"]["conversation_thread"][0]
    assert (said["text"], said["at"]) == ("I am [name], stuck", BEGAN_MS + 1_000)
    assert first["record"]["facts"] == {"name": "[name]", "callback_number": "[number]"}
    assert "Maria" not in exported.out
    assert "07700900123" not in exported.out
    assert first["journal"][0]["id"] == "1-0"
    assert "I am Maria" in cli.run("records", "export", "--plain", "--text", "maria").out


def test_a_changed_byte_is_told_with_call_and_entry_and_exit_1(cli: Cli, kept: RecordStore) -> None:
    good = cli.run("records", "verify", "--json")
    assert (good.code, good.json["ok"], good.json["rows"]) == (0, True, 2)
    assert cli.run("records", "verify", "--head", good.json["head"]).code == 0
    assert cli.run("records", "verify", "--head", f"2:{'0' * 64}").code == 1
    assert cli.run("records", "verify", "--head", "nonsense").code == 2
    with kept.database.writing() as connection:
        changed = "UPDATE callflow_entries SET body = replace(body, 'M', 'N') WHERE number = 3"
        connection.execute(text(f"{changed} AND position = 1"))
    ran = cli.run("records", "verify")
    assert ran.code == 1
    assert "call CA1 (row 1, entry 3): it was changed (said)" in ran.out
    (fault,) = cli.run("records", "verify", "--json").json["faults"]
    assert (fault["call_sid"], fault["entry"]) == ("CA1", 3)


def test_a_call_is_erased_by_its_sid_or_by_a_number_and_never_all_of_them(
    cli: Cli, kept: RecordStore, redis_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    asked = ("--by", "ana", "--why", "asked by the caller")
    cli.run("records", "erase", *asked).failed_with("nothing was erased: name calls")
    cli.run("records", "erase", "--number", "0123", *asked).failed_with("fewer than 7 digits")
    assert cli.run("records", "erase", "CA9", *asked).code == 1
    assert cli.run("records", "erase", "CA1").code == 2
    done = cli.run("records", "erase", "--number", "+44 7700 900123", "--json", *asked)
    assert (done.code, done.json["erased"]) == (0, ["CA1"])
    shown = cli.run("records", "show", "CA1")
    assert "by ana: asked by the caller" in shown.out
    assert cli.run("records", "verify").code == 0
    assert "Maria" not in cli.run("records", "export", "--plain").out


def test_calls_older_than_so_many_days_are_erased(
    cli: Cli, kept: RecordStore, redis_url: str
) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    old = replace(complete("CA3"), lines=(("1-0", {"event": "ended", "at": "86400000"}),))
    kept.keep(old)
    ran = cli.run(
        *("records", "erase", "--older-than", "30", "--by", "ana", "--why", "old", "--json")
    )
    assert ran.json["erased"] == ["CA3"]


def test_lifts_without_a_test_call_are_told_and_exit_1(cli: Cli, kept: RecordStore) -> None:
    cli.run("records", "tests").failed_with("CALLFLOW_SITES: not set here")
    sites = cli.home / "sites.yaml"
    sites.write_text(SITES)
    cli.set("CALLFLOW_SITES", str(sites))
    ran = cli.run("records", "tests", "--json")
    lifts = {one["site"]: one["overdue"] for one in ran.json["lifts"]}
    assert (ran.code, ran.json["hours"], lifts) == (1, 72, {"tower-1": False, "tower-2": True})
    shown = cli.run("records", "tests")
    assert "never" in shown.out
    assert "1 of 2 lifts without one for 72 h" in shown.err


def test_a_number_that_was_keyed_key_by_key_is_not_exported_and_found_by_an_erasure(
    cli: Cli, kept: RecordStore, redis_url: str
) -> None:
    """Between two keys of a menu, as a relay tells of them."""
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    keys = [
        {"role": "caller", "turn": turn, "text": "", "digits": key, "at": turn}
        for turn, key in enumerate("1079461234561", 1)
    ]
    kept.keep(replace(complete("CA3", facts={}), thread=tuple(keys)))
    exported = cli.run("records", "export").events[2]["record"]["conversation_thread"]
    assert {one["digits"] for one in exported} == {"[number]"}
    asked = ("--by", "ana", "--why", "asked by the caller", "--json")
    done = cli.run("records", "erase", "--number", "+44 7946 123456", *asked)
    assert done.json["erased"] == ["CA3"]


def test_rows_from_before_there_was_a_key_are_counted(cli: Cli, kept: RecordStore) -> None:
    cli.set("CALLFLOW_RECORDS_KEY", KEY.decode())
    RecordStore(kept.database, KEY).keep(complete("CA3"))
    told = cli.run("records", "verify", "--json").json
    assert (told["ok"], told["sealed"], told["unsealed"]) == (True, False, 2)
    assert "rows 1–2 have no code" in cli.run("records", "verify").out


def test_a_key_that_is_set_over_records_without_one_accuses_nobody(
    cli: Cli, kept: RecordStore
) -> None:
    cli.set("CALLFLOW_RECORDS_KEY", KEY.decode())
    ran = cli.run("records", "verify")
    assert (ran.code, "the chain holds" in ran.out) == (0, True)
    assert "rows 1–2 have no code: not sealed, from before" in " ".join(ran.out.split())


def test_who_looks_before_anything_is_kept_makes_no_database(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_RECORDS_URL", url_in(cli.home))
    for asked in (("ls",), ("show", "CA1"), ("export",), ("verify",)):
        cli.run("records", *asked).failed_with("nothing is kept yet")
    erase = ("erase", "CA1", "--by", "ana", "--why", "asked")
    cli.run("records", *erase).failed_with("nothing is kept yet")
    cli.run("records", "tests").failed_with("CALLFLOW_SITES: not set here")
    found = examined(cli, redis_url)["records"]
    assert found["grade"] == "ok"
    assert "nothing is kept yet" in found["sentence"]
    assert not list(cli.home.glob("records.db*"))


def test_without_a_lasting_store_the_way_out_is_told(cli: Cli) -> None:
    cli.run("records", "ls").failed_with("CALLFLOW_RECORDS_URL: not set")


# What the doctor says.


def examined(cli: Cli, url: str) -> dict[str, dict[str, str]]:
    cli.set("CALLFLOW_REDIS_URL", url)
    found = cli.run("doctor", "--json").json["checks"]
    return {check["name"]: check for check in found}


def test_the_doctor_warns_where_records_do_not_last(cli: Cli, redis_url: str) -> None:
    found = examined(cli, redis_url)["records"]
    assert found["grade"] == "warning"
    assert "gone after 30 min" in found["sentence"]


def test_the_doctor_tells_of_lifts_without_a_test_call(
    cli: Cli, kept: RecordStore, redis_url: str
) -> None:
    sites = cli.home / "sites.yaml"
    sites.write_text(SITES)
    cli.set("CALLFLOW_SITES", str(sites))
    found = examined(cli, redis_url)
    assert (found["records"]["grade"], found["archive"]["grade"]) == ("ok", "ok")
    assert found["test calls"]["grade"] == "warning"
    assert "1 of 2 lifts made no good one for 72 h: tower-2" in found["test calls"]["sentence"]


def test_the_lifts_of_a_local_stack_are_those_that_it_has(
    cli: Cli, kept: RecordStore, redis_url: str
) -> None:
    assert "CALLFLOW_SITES: not set" in examined(cli, redis_url)["test calls"]["sentence"]
    (cli.home / "sites.yaml").write_text(SITES)
    env = {"CALLFLOW_SITES": str(cli.home / "sites.yaml")}
    stack = LocalPhone(1, "http://127.0.0.1:1", None, None, None, env)
    data = cli.home / "data"
    with deployment.announced(data) as word, published(stack, data):
        word(redis_url)
        ran = cli.run("records", "tests", "--json")
        assert [one["site"] for one in ran.json["lifts"]] == ["tower-2", "tower-1"]
        assert "tower-2" in examined(cli, redis_url)["test calls"]["sentence"]
    cli.run("records", "tests").failed_with("no local stack tells of its own")


def test_the_doctor_tells_of_calls_that_are_not_archived(
    cli: Cli, redis_url: str, tmp_path: Path
) -> None:
    with connect(redis_url) as client:
        store = archiving(client)
        one_call(store, ended=False)
        now = ArchiveQueue(Scripts(client), 1).look().now_ms
        store.end(SID, "hung_up", now_ms=now - 120_000)
        unset = examined(cli, redis_url)["records"]
        cli.set("CALLFLOW_RECORDS_URL", "sqlite:////not/there/records.db")
        broken = examined(cli, redis_url)
        archive_into(client, RecordStore.open(url_in(tmp_path))).round("test")
        assert client.pttl(call_keys(SID).call) <= TIMING.completed_ttl_ms * 2
    assert unset["grade"] == "failure"
    assert "1 complete calls wait for a lasting store, and none is configured" in unset["sentence"]
    assert broken["archive"]["grade"] == broken["records"]["grade"] == "failure"
    assert "the first for 12" in broken["archive"]["sentence"]
    assert f"the first is {SID}" in broken["archive"]["way_out"]


def test_what_is_printed_for_programs_is_json_of_a_known_form(cli: Cli, kept: RecordStore) -> None:
    whole = json.loads(cli.run("records", "show", "CA1", "--json").out)
    assert list(whole) == [
        *("call_sid", "kept_at", "record", "journal", "views", "timings", "versions", "erasure"),
        "chain",
    ]


def test_a_local_stacks_records_last_in_its_data_directory(cli: Cli) -> None:
    here = cli.home / "data"
    here.mkdir()
    assert deployment.keep_records(here)
    RecordStore.open(os.environ["CALLFLOW_RECORDS_URL"]).keep(complete("CA1"))
    cli.set("CALLFLOW_RECORDS_URL", "")
    assert [row["call_sid"] for row in cli.run("records", "ls", "--json").json] == ["CA1"]
    cli.set("CALLFLOW_RECORDS_URL", url_in(cli.home))
    bootstrap.forget()
    assert deployment.keep_records(here), "those that the settings name come first"
    assert os.environ["CALLFLOW_RECORDS_URL"] == url_in(cli.home)
