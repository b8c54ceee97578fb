"""A call that its own line has ended lasts: the web process leaves its keys for the archive."""

from __future__ import annotations

from pathlib import Path

from callflow.archive import Archived
from callflow.records.record_store import RecordStore
from callflow.records.search import read_record
from callflow.store.keys import call_keys
from tests.archiving import archive_into, url_in
from tests.exchange import open_exchange
from tests.parts import SID, Parts


def test_a_call_that_is_hung_up_is_archived_before_it_expires(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    url = url_in(tmp_path)
    with open_exchange(parts, redis_url, tmp_path, records_url=url) as exchange:
        line = exchange.arrived()
        with exchange.worker("Stay inside."):
            line.says(1, "we are stuck")
        line.post("/voice/status", CallStatus="completed")
    assert parts.client.pttl(call_keys(SID).call) == -1

    records = RecordStore.open(url)
    assert archive_into(parts.client, records).round("test") == Archived(kept=1)

    assert parts.client.pttl(call_keys(SID).call) > 0
    assert [one["text"] for one in read_record(records, SID).thread][1:] == [
        "we are stuck",
        "Stay inside.",
    ]
