"""The same call in a real server: any record of the model is put there, any request of it is made
through the store's public doors, and what stands there then is read back as the model writes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from callflow.call.ladder import accepted, fresh
from callflow.call.limits import Timing
from callflow.call.record import CallRecord
from callflow.call.state import CallState
from callflow.errors import CallEnded
from callflow.redis.client import Client
from callflow.redis.scripts import Scripts
from callflow.store.calls import CallStore
from callflow.store.encoding import BY_AGENT, BY_HUMAN, FRESH, alert_json, as_json, entry
from callflow.store.keys import call_keys
from callflow.store.leases import Leases
from callflow.store.result import Claimed, Lease, Result
from tests.protocol.record import Answer, Entry, Record, Request, Text

SID = "CA00000000000000000000000000000009"

TIMING = Timing(
    beat_ms=250,
    stale_ms=10_000,
    owed_ms=1,
    turn_ms=8_000,
    abandoned_ms=3_600_000,
    completed_ttl_ms=1_800_000,
)
"""A tick of the model is a second, so that every owed turn is past its deadline at the next one."""

_BEGAN_MS = 1_700_000_000_000
_LEG = "CA0000000000000000000000000000000a"

_ODD = '“"\\\u2028😀%1}'
"""Stands behind each piece of a reply and each utterance: what JSON and patterns may choke on."""


def ms_of(tick: int) -> int:
    """The server's clock at a tick of the model's."""
    return _BEGAN_MS + 1000 * tick


class RealCall:
    """One call on one server that nobody else uses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        scripts = Scripts(client)
        self.store = CallStore(scripts, TIMING)
        self._leases = Leases(scripts, TIMING)
        self._keys = call_keys(SID)
        self._doors: dict[str, Callable[[Request, int], Answer]] = {
            "hear": self._hear,
            "claim": self._claim,
            "beat": self._beat,
            "understand": self._understand,
            "draft": self._draft,
            "commit": self._commit,
            "hand_back": self._hand_back,
            "reclaim": self._reclaim,
            "transfer": self._transfer,
            "accept": self._accept,
            "resume": self._resume,
            "end": self._end,
            "rewake": self._rewake,
        }

    def open(self) -> None:
        """A fresh call, opened as callflow opens it."""
        self._client.flushall()
        self.store.open(SID, now_ms=ms_of(0))

    def put(self, record: Record) -> None:
        """Write a record of the model as it would stand in the server."""
        keys, shard = self._keys, self._keys.shard
        beat = ms_of(record.beat)
        human = record.human
        alert = None
        if record.alert:
            alert = fresh("test") if record.alert == "due" else accepted(fresh("test"), _LEG)
        fields: dict[Any, Any] = {
            **FRESH,
            "call_sid": as_json(SID),
            "call_state": as_json(record.state),
            "created_at": ms_of(0),
            "updated_at": ms_of(0),
            "fence": record.fence,
            "heard": record.heard,
            "answered": record.answered,
            "attempts": record.attempts,
            "assigned_worker": as_json(_name(record.holder)) if record.holder else "null",
            "last_heartbeat": beat if record.beat or record.leased else "null",
            "understood": record.understood,
            "draft": _draft(record),
            "handling": BY_HUMAN if human else BY_AGENT,
            "alert": "null" if alert is None else alert_json(alert),
            "lost": record.lost,
            "language": as_json("en"),
            "site": "null",
            "owed_since": ms_of(0),
            "claim": f"claim-{record.claim}",
        }
        with self._client.pipeline() as pipe:
            pipe.flushall()
            pipe.hset(keys.call, mapping=fields)
            for one in record.thread:
                pipe.rpush(keys.thread, _stored(one))
            pipe.zadd(shard.active, {SID: ms_of(0)})
            if record.leased:
                pipe.zadd(shard.leases, {SID: beat})
            if record.due:
                pipe.zadd(shard.owed, {SID: ms_of(0)})
            if record.alert == "due":
                pipe.zadd(shard.rings, {SID: ms_of(0)})
            pipe.execute()

    def ask(self, asked: Request, tick: int) -> Answer:
        """Make one request at that tick."""
        return self._doors[asked.script](asked, ms_of(tick))

    def read(self) -> Record:
        """What stands in the server now."""
        keys, shard = self._keys, self._keys.shard
        with self._client.pipeline(transaction=False) as pipe:
            pipe.hgetall(keys.call)
            pipe.lrange(keys.thread, 0, -1)
            pipe.zscore(shard.leases, SID)
            pipe.zscore(shard.owed, SID)
            stored, thread, leased, owed = pipe.execute()
        claim = stored.pop("claim", "claim-0")
        value = {name: json.loads(text) for name, text in stored.items()}
        beat = value["last_heartbeat"]
        assert leased is None or leased == beat, "the index of leases is by the last beat"
        draft, alert = value["draft"], value["alert"]
        return Record(
            state=value["call_state"],
            fence=value["fence"],
            heard=value["heard"],
            answered=value["answered"],
            attempts=value["attempts"],
            holder=_number(value["assigned_worker"]),
            claim=int(claim.removeprefix("claim-")),
            beat=0 if beat is None else (beat - _BEGAN_MS) // 1000,
            understood=value["understood"],
            draft_turn=draft["turn"] if draft else 0,
            draft=_pieces(draft["text"]) if draft else (),
            thread=tuple(_entry(json.loads(line)) for line in thread),
            human=value["handling"] == "human",
            alert=alert["state"] if alert else "",
            lost=value["lost"],
            leased=leased is not None,
            due=owed is not None,
        )

    def _lease(self, asked: Request) -> Lease:
        return Lease(SID, asked.fence, _name(asked.name), f"claim-{asked.claim}")

    def _hear(self, asked: Request, now_ms: int) -> Answer:
        try:
            heard = self.store.record_utterance(
                SID, asked.turn, f"said {asked.turn}{_ODD}", after_loss=True, now_ms=now_ms
            )
        except CallEnded:
            return Answer("ended")
        return Answer(heard.result, wake=heard.wake)

    def _claim(self, asked: Request, now_ms: int) -> Answer:
        found = self.store.claim(SID, _name(asked.name), f"claim-{asked.claim}", now_ms=now_ms)
        if not isinstance(found, Claimed):
            return Answer(found)
        record = found.record
        turn = record.answered + 1
        known = record.draft.text if record.draft and record.draft.turn == turn else ""
        return Answer(
            "ok",
            attempts=record.attempts,
            fence=found.lease.fence,
            turn=turn,
            text=_pieces(known),
            understood=record.understood,
        )

    def _beat(self, asked: Request, now_ms: int) -> Answer:
        (word,) = self.store.beat(self._lease(asked), now_ms=now_ms)
        assert isinstance(word, Result)
        return Answer(word)

    def _understand(self, asked: Request, now_ms: int) -> Answer:
        record = CallRecord(
            call_sid=SID,
            call_state=CallState.IN_PROGRESS,
            created_at=now_ms,
            updated_at=now_ms,
            understood=asked.turn,
        )
        return Answer(self.store.save_analysis(self._lease(asked), record, now_ms=now_ms).result)

    def _draft(self, asked: Request, now_ms: int) -> Answer:
        lease, text = self._lease(asked), _words(asked.text)
        return Answer(self.store.save_draft(lease, asked.turn, text, now_ms=now_ms))

    def _commit(self, asked: Request, now_ms: int) -> Answer:
        lease, text = self._lease(asked), _words(asked.text)
        return Answer(self.store.commit(lease, asked.turn, text, now_ms=now_ms).result)

    def _hand_back(self, asked: Request, now_ms: int) -> Answer:
        lease = self._lease(asked)
        released = self.store.hand_back(lease, "test", costs=asked.costs, now_ms=now_ms)
        return Answer(released.result, attempts=released.attempts)

    def _reclaim(self, asked: Request, now_ms: int) -> Answer:
        released = self.store.reclaim(SID, asked.fence, ms_of(asked.seen), "test", now_ms=now_ms)
        return Answer(released.result, attempts=released.attempts)

    def _transfer(self, asked: Request, now_ms: int) -> Answer:
        lease = self._lease(asked) if asked.fence else None
        return Answer(self.store.handovers.transfer(SID, "test", lease=lease, now_ms=now_ms))

    def _accept(self, asked: Request, now_ms: int) -> Answer:
        taken = accepted(fresh("test"), _LEG)
        return Answer(self.store.handovers.accept(SID, taken, now_ms=now_ms))

    def _resume(self, asked: Request, now_ms: int) -> Answer:
        return Answer(self.store.handovers.resume(SID, "test", over=asked.costs, now_ms=now_ms))

    def _end(self, asked: Request, now_ms: int) -> Answer:
        return Answer(self.store.end(SID, "hung_up", now_ms=now_ms))

    def _rewake(self, asked: Request, now_ms: int) -> Answer:
        woken = self._leases.take_unclaimed([SID], now_ms=now_ms)
        if not woken:
            return Answer("idle")
        return Answer("ok", wake=True, attempts=woken[0].attempts)


def _name(number: int) -> str:
    return f"w{number}@test/{number}-00"


def _number(worker: str | None) -> int:
    return 0 if worker is None else int(worker[1:].split("@")[0])


def _draft(record: Record) -> str:
    if not record.draft_turn:
        return "null"
    return as_json({"turn": record.draft_turn, "text": _words(record.draft), "lang": "en"})


def _stored(one: Entry) -> str:
    text = _words(one.text) if one.role == "agent" else f"said {one.turn}{_ODD}"
    return entry(one.role, one.turn, text)[:-1] + f',"at":{ms_of(0)}}}'


def _entry(stored: dict[str, object]) -> Entry:
    role, turn, text = stored["role"], stored["turn"], stored["text"]
    assert isinstance(role, str)
    assert isinstance(turn, int)
    assert isinstance(text, str)
    return Entry(role, turn, _pieces(text) if role == "agent" else ())


def _words(text: Text) -> str:
    return " ".join(piece + _ODD for piece in text)


def _pieces(words: str) -> Text:
    return tuple(word.removesuffix(_ODD) for word in words.split(" ")) if words else ()
