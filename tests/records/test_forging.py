"""Who can write the database but has no key makes no chain that a key bears out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from callflow.records.database import ENTRIES, LINKS
from callflow.records.hashes import entry_hash, first_of, row_hash, sealed_of
from callflow.records.record_errors import SealBroken
from callflow.records.record_store import RecordStore
from callflow.records.verify import verify
from tests.archiving import complete

Alter = Callable[..., None]


def forge(records: RecordStore, alter: Alter, first: int) -> None:
    """Change what was said in row `first`, and all hashes from there on; take their codes away."""
    with records.database.reading() as connection:
        links = [dict(row) for row in connection.execute(LINKS.select()).mappings()]
        held = [dict(row) for row in connection.execute(ENTRIES.select()).mappings()]
    links.sort(key=lambda row: row["position"])
    before = links[first - 1]["before"]
    for link in links[first - 1 :]:
        last = first_of(link["call_sid"], link["position"])
        own = [one for one in held if one["position"] == link["position"]]
        for entry in sorted(own, key=lambda one: int(one["number"])):
            body = entry["body"]
            if link["position"] == first:
                body = body.replace("stuck", "fine")
            last = entry_hash(last, entry["number"], entry["kind"], body)
            alter(
                "UPDATE callflow_entries SET body = :body, hash = :hash "
                "WHERE position = :position AND number = :number",
                body=body,
                hash=last,
                position=link["position"],
                number=entry["number"],
            )
        link |= {"before": before, "sealed": sealed_of(link, last)}
        before = link["hash"] = row_hash(link)
        alter(
            "UPDATE callflow_links SET before = :before, sealed = :sealed, hash = :hash, "
            "mac = NULL WHERE position = :position",
            **{name: link[name] for name in ("before", "sealed", "hash", "position")},
        )
    alter("UPDATE callflow_head SET mac = NULL, hash = :hash", hash=before)


def kept(records: RecordStore, calls: int = 3) -> RecordStore:
    for number in range(1, calls + 1):
        records.keep(complete(f"CA{number}"))
    return records


def test_a_chain_that_was_forged_without_the_key_shows_in_each_row(
    records: RecordStore, alter: Alter
) -> None:
    forge(kept(records), alter, 2)
    verdict = verify(records)
    assert [(one.position, one.what) for one in verdict.faults] == [
        (2, "it has no keyed code, and rows before it have one"),
        (3, "it has no keyed code, and rows before it have one"),
    ]
    assert not verdict.sealed


def test_the_archiver_does_not_bear_out_a_forgery(records: RecordStore, alter: Alter) -> None:
    forge(kept(records), alter, 2)
    with pytest.raises(SealBroken, match="its end has no keyed code, and rows before it have one"):
        records.keep(complete("CA9"))
    with pytest.raises(SealBroken, match="Set CALLFLOW_RECORDS_KEY as it was"):
        records.erase(["CA1"], by="ana", why="asked")
    assert verify(records).rows == 3


def test_a_forger_who_takes_all_codes_away_is_told_by_how_many_rows_have_none(
    records: RecordStore, alter: Alter
) -> None:
    known = verify(kept(records)).head.hash
    forge(records, alter, 1)
    bare = verify(records)
    assert (bare.sealed, bare.unsealed) == (False, 3)
    assert not verify(records, known_head=(3, known)).holds, "who knows an earlier head can tell"
    records.keep(complete("CA9"))
    verdict = verify(records)
    assert (verdict.holds, verdict.sealed, verdict.unsealed) == (True, False, 3)


def test_an_end_that_another_key_has_sealed_gets_no_further_row(records: RecordStore) -> None:
    kept(records)
    with pytest.raises(SealBroken, match="code of its end is not of CALLFLOW_RECORDS_KEY"):
        RecordStore(records.database, b"another key of 16 bytes").keep(complete("CA9"))
    with pytest.raises(SealBroken, match="CALLFLOW_RECORDS_KEY is not set here"):
        RecordStore(records.database).keep(complete("CA9"))
    assert (verify(records).holds, verify(records).rows) == (True, 3)


def test_a_head_whose_code_was_taken_away_gets_no_further_row(
    records: RecordStore, alter: Alter
) -> None:
    kept(records)
    alter("UPDATE callflow_head SET mac = NULL")
    with pytest.raises(SealBroken):
        records.keep(complete("CA9"))
    assert not verify(records).holds
