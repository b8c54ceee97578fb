"""Every script whose answer gets lost is run a second time, and the call is as after one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import resources
from typing import Any

import pytest

from callflow.call.edits import Disposition
from callflow.call.record import HumanAlert
from callflow.lab.chaos.network_proxy import Endpoint
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import connect
from callflow.redis.scripts import Scripts, load
from callflow.store.archive_queue import ArchiveQueue
from callflow.store.breaker import Breakers
from callflow.store.handovers import AlertStep
from callflow.store.keys import call_keys
from callflow.store.result import Claimed, Lease
from tests.archiving import archiving
from tests.parts import Parts

QUIET, STRUCK = "CAquiet", "CAstruck"

Asked = Callable[[Parts, str], Any]


@pytest.fixture
def proxy(own_server: EmbeddedServer) -> Iterator[Endpoint]:
    with Endpoint.start(own_server.port) as endpoint:
        yield endpoint


@pytest.fixture
def through(own_server: EmbeddedServer, proxy: Endpoint) -> Iterator[Parts]:
    url = f"redis://:{own_server.password}@127.0.0.1:{proxy.port}/0"
    with connect(url) as client:
        yield Parts(client)


def _opened(parts: Parts, sid: str) -> None:
    parts.store.open(sid, greeting="Hello.")


def _owed(parts: Parts, sid: str) -> None:
    _opened(parts, sid)
    parts.store.record_utterance(sid, 1, "stuck")


def _claimed(parts: Parts, sid: str) -> None:
    _owed(parts, sid)
    assert isinstance(parts.store.claim(sid, "w@test/1-aa", "claim-1"), Claimed)


def _held(parts: Parts, sid: str) -> None:
    _opened(parts, sid)
    parts.store.lines.take(sid, "socket-1")


def _answered(parts: Parts, sid: str) -> None:
    _claimed(parts, sid)
    parts.store.commit(_lease(sid), 1, "Stay inside.")


def _with_human(parts: Parts, sid: str) -> None:
    _owed(parts, sid)
    parts.store.handovers.transfer(sid, "asked")


def _to_be_said(parts: Parts, sid: str) -> None:
    _opened(parts, sid)
    parts.store.staff.say(sid, "Yes.", "me", request="r")


def _to_be_archived(parts: Parts, sid: str) -> None:
    _opened(parts, sid)
    archiving(parts.client).end(sid, "hung_up")


def _unarchived(parts: Parts) -> ArchiveQueue:
    return ArchiveQueue(Scripts(parts.client), parts.timing.completed_ttl_ms)


def _behind(parts: Parts, sid: str) -> None:
    """Turn 3 was heard, and the record has turn 1 alone."""
    _claimed(parts, sid)


def _lease(sid: str) -> Lease:
    return Lease(sid, 1, "w@test/1-aa", "claim-1")


def _ring(parts: Parts, sid: str) -> Any:
    ringing = HumanAlert(reason="asked", state="ringing", attempt_id="ring-1")
    return parts.store.handovers.move(
        sid, HumanAlert(reason="asked"), AlertStep(ringing, 20_000, "rang")
    )


def _understood(parts: Parts, sid: str) -> Any:
    record = parts.record(sid).model_copy(update={"understood": 1, "scenario_type": "stuck"})
    return parts.store.save_analysis(_lease(sid), record)


SCRIPTS: dict[str, tuple[Callable[[Parts, str], None], Asked]] = {
    "open_call": (
        lambda parts, sid: None,
        lambda parts, sid: parts.store.open(sid, alert="assist"),
    ),
    "record_utterance": (
        _opened,
        lambda parts, sid: parts.store.record_utterance(sid, 1, "stuck", understood=False),
    ),
    "claim": (_owed, lambda parts, sid: parts.store.claim(sid, "w@test/1-aa", "claim-1")),
    "beat": (_claimed, lambda parts, sid: parts.store.beat(_lease(sid))),
    "save_progress": (_claimed, _understood),
    "commit": (
        _claimed,
        lambda parts, sid: parts.store.commit(_lease(sid), 1, "Stay.", needs_human="asked"),
    ),
    "release": (
        _claimed,
        lambda parts, sid: parts.store.hand_back(_lease(sid), "failed", costs=True),
    ),
    "interrupt": (_answered, lambda parts, sid: parts.store.playback.interrupt(sid, 1, "Stay")),
    "save_playback": (
        _answered,
        lambda parts, sid: parts.store.playback.save_sent(sid, 1, 4, left_ms=100),
    ),
    "end_call": (_claimed, lambda parts, sid: parts.store.end(sid, "hung_up")),
    "move_alert": (_with_human, _ring),
    "transfer": (_owed, lambda parts, sid: parts.store.handovers.transfer(sid, "asked")),
    "resume": (
        _with_human,
        lambda parts, sid: parts.store.handovers.resume(sid, "left", over=True),
    ),
    "record_fact": (
        _opened,
        lambda parts, sid: parts.store.staff.record_fact(sid, "dispatch", True, by="me"),
    ),
    "queue_phrase": (
        _opened,
        lambda parts, sid: parts.store.staff.say(sid, "Yes.", "me", request="r"),
    ),
    "take_phrases": (_to_be_said, lambda parts, sid: parts.store.staff.take_phrases(sid, "socket")),
    "phrases_heard": (
        _to_be_said,
        lambda parts, sid: parts.store.staff.mark_heard(sid, ["r"], left_ms=60_000),
    ),
    "add_note": (
        _opened,
        lambda parts, sid: parts.store.staff.add_note(sid, "A.", "me", request="r"),
    ),
    "set_urgency": (
        _owed,
        lambda parts, sid: parts.store.staff.set_urgency(sid, "P1", "me", request="r"),
    ),
    "take_over": (
        _opened,
        lambda parts, sid: parts.store.staff.take_over(sid, "me", "+441632960777", request="r"),
    ),
    "end_call by staff": (
        _opened,
        lambda parts, sid: parts.store.staff.end(
            parts.record, sid, Disposition.TEST, "me", request="r"
        ),
    ),
    "add_journal_line": (
        _opened,
        lambda parts, sid: parts.store.handovers.add_journal_line(sid, "remarked", "why"),
    ),
    "rewake": (
        _owed,
        lambda parts, sid: parts.leases.take_unclaimed([sid], now_ms=_far(parts)),
    ),
    "settle_archived": (
        _to_be_archived,
        lambda parts, sid: _unarchived(parts).settle(
            sid, _unarchived(parts).read([sid])[0].through
        ),
    ),
    "take_line": (_opened, lambda parts, sid: parts.store.lines.take(sid, "socket-1")),
    "release_line": (_held, lambda parts, sid: parts.store.lines.release(sid, "socket-1")),
    "beat_lines": (
        _held,
        lambda parts, sid: parts.store.lines.beat({sid: "socket-1"}, back=False),
    ),
    "list_unarchived": (_opened, lambda parts, sid: _unarchived(parts).look()),
    "sweep": (_with_human, lambda parts, sid: parts.leases.look()),
    "admit_loss": (_behind, lambda parts, sid: parts.store.failover.admit_loss(sid, 3)),
    "check_reply": (_answered, lambda parts, sid: parts.store.failover.has_reply(sid, 1, "Stay")),
    "breaker": (
        _opened,
        lambda parts, sid: Breakers(Scripts(parts.client)).failed(f"model-{sid}", "attempt-1"),
    ),
}
"""By the name of the script: what must have happened before, and what has it run."""


OF_NO_CALL = {
    *("save_worker_report", "read_worker_reports", "stale_calls", "watch", "session", "claim_once"),
    *("count_sign_in", "add_audit_line", "forget_erased"),
}
"""What a worker says of itself, and what was said: the last word stands, however often. What is
given to one asker is given again later. People sign in once more, and one who looks twice within a
minute stands in the audit once. What was erased is gone the second time, and no record is left."""


def _far(parts: Parts) -> int:
    return parts.reader.now_ms() + 60_000


def _state(parts: Parts, sid: str) -> dict[str, Any]:
    """All that a call is, without the times and names that differ between two of them."""
    keys = call_keys(sid)
    record = parts.record(sid).model_dump(
        exclude={"call_sid", "created_at", "updated_at", "last_heartbeat", "owed_since"}
    )
    record["alert_due"] = record["alert_due"] is None
    record["sent"] = (record["sent"] or {}).get("length")
    for done in (*record["acts"].values(), *record["notes"], *record["sayings"]):
        del done["at"]
        done["until"] = bool(done.get("until"))
    for name in ("urgency_set", "disposition"):
        (record[name] or {}).pop("at", None)
    record["thread"] = [
        (entry.role, entry.turn, entry.text, entry.heard)
        for entry in parts.record(sid).conversation_thread
    ]
    del record["conversation_thread"]
    shard = keys.shard
    indexes = (shard.leases, shard.owed, shard.active, shard.rings, shard.lines, shard.ended)
    return {
        "record": record,
        "journal": [
            entry.model_dump(exclude={"at"}, exclude_none=True) for entry in parts.journal(sid)
        ],
        "indexes": [parts.client.zscore(index, sid) is not None for index in indexes],
        "lifetimes": [parts.client.pttl(key) > 0 for key in keys.own],
        "failures": parts.client.hget(f"callflow:breaker:model-{sid}", "failures"),
    }


@pytest.mark.parametrize("script", sorted(SCRIPTS))
def test_fault_21_a_script_whose_answer_is_lost_changes_the_call_once(
    through: Parts, proxy: Endpoint, script: str
) -> None:
    before, asked = SCRIPTS[script]
    for sid in (QUIET, STRUCK):
        before(through, sid)
    # Both runs of it are by EVALSHA then, as they are in a server that has been used.
    through.client.script_load(load(script.partition(" ")[0]).text)
    undisturbed = _runs(through, lambda: asked(through, QUIET))

    proxy.drop_replies(1, "EVALSHA")
    disturbed = _runs(through, lambda: asked(through, STRUCK))

    assert disturbed == 2 * undisturbed, "it was not run a second time"
    assert _state(through, STRUCK) == _state(through, QUIET)
    for sid in (QUIET, STRUCK):
        through.store.end(sid, "hung_up")


def _runs(parts: Parts, asked: Callable[[], Any]) -> int:
    """How many scripts the server runs while something is asked."""
    parts.client.config_resetstat()
    asked()
    found = parts.client.info("commandstats").get("cmdstat_evalsha", {"calls": 0})
    return int(found["calls"])


def test_every_script_is_among_those_whose_answers_are_lost() -> None:
    folder = resources.files("callflow.store") / "lua"
    there = {entry.name.removesuffix(".lua") for entry in folder.iterdir()}
    tried = {script.partition(" ")[0] for script in SCRIPTS}
    assert there - {"prelude"} - OF_NO_CALL == tried
