"""Builds what `bootstrap` builds, for one test, against the test's own server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Event

from callflow.call.history import JournalEntry
from callflow.call.limits import Timing
from callflow.call.record import CallRecord, Sentence, SopChunk
from callflow.call.urgency import Urgency
from callflow.celery import TAKEOVER, TURNS
from callflow.heartbeat import Heartbeat, worker_name
from callflow.intake import Intake
from callflow.procedures.triage import Scored
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Scripts
from callflow.responder import Piece, Responder
from callflow.retrieval.engine import Engine, Hit
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.presence import Presence
from callflow.store.reader import CallReader
from callflow.turn import Turns
from callflow.understand import Understanding
from callflow.watchdog import Watchdog

SID = "CA00000000000000000000000000000001"

TIMING = Timing(
    beat_ms=100,
    stale_ms=2_000,
    owed_ms=2_500,
    turn_ms=5_000,
    abandoned_ms=3_600_000,
    completed_ttl_ms=1_800_000,
)

CHUNK = SopChunk(
    id="test/say",
    sop="test",
    version="1",
    section="say",
    language="en",
    sentences=(Sentence(id="stay", text="Stay inside."),),
)


class FirstWordEngine(Engine):
    """Takes the first word of an utterance for the scenario; finds the same chunk every time and
    counts how often it was asked."""

    def __init__(self) -> None:
        self.urgencies = AnyScenario()
        self.asked = 0
        self.fetches: str | None = None
        """Why its procedure always fetches a person."""

    def score(self, utterance: str) -> Scored:
        return Scored(tuple((word, 1.0) for word in utterance.split()[:1]))

    def search(
        self, utterance: str, language: str, k: int, prior: Mapping[str, float]
    ) -> tuple[Hit, ...]:
        self.asked += 1
        return ()

    def answers(
        self, questions: Sequence[str], scenarios: Sequence[str], language: str
    ) -> tuple[Sentence, ...]:
        return ()

    def chunks(self, scenario: str, language: str) -> tuple[SopChunk, ...]:
        return (CHUNK.model_copy(update={"needs_human": self.fetches}),)


class AnyScenario(dict[str, Urgency]):
    """There is a procedure for every word, and none is more urgent than another."""

    def __contains__(self, scenario: object) -> bool:
        return True

    def get(self, scenario: str, default: object = None) -> Urgency:
        return "P3"


@dataclass
class Says:
    """Says the given pieces; what was sent already is not said again."""

    pieces: tuple[str, ...]
    seen: list[CallRecord] = field(default_factory=list)

    def respond(self, record: CallRecord, stop: Event) -> Iterator[Piece]:
        self.seen.append(record)
        sent = record.draft.text if record.draft else ""
        left = list(self.pieces)
        while left and sent.startswith(left[0]):
            sent = sent.removeprefix(left.pop(0))
        for text in left[:-1]:
            yield Piece(text)
        yield Piece(left[-1], last=True)


@dataclass
class Parts:
    """One process's worth of callflow."""

    client: Client
    timing: Timing = TIMING
    engine: FirstWordEngine = field(default_factory=FirstWordEngine)

    def __post_init__(self) -> None:
        scripts = Scripts(self.client)
        self.store = CallStore(scripts, self.timing)
        self.leases = Leases(scripts, self.timing)
        self.reader = CallReader(self.client)
        self.intake = Intake(self.store)
        self.watchdog = Watchdog(self.store, self.leases)
        self._heartbeats: list[Heartbeat] = []

    @classmethod
    @contextmanager
    def on(cls, url: str) -> Iterator[Parts]:
        """Connected for as long as the block runs."""
        with connect(url) as client:
            yield cls(client)

    def worker(self, responder: Responder, script: Responder | None = None) -> Turns:
        """A worker with a heartbeat of its own."""
        name = worker_name(f"w{len(self._heartbeats) + 1}@test")
        heartbeat = Heartbeat(self.store, Presence(self.client, name), name)
        self._heartbeats.append(heartbeat)
        return Turns(
            store=self.store,
            heartbeat=heartbeat,
            understanding=Understanding(lambda: self.engine),
            responder=responder,
            script=script or Says(("The plain script.",)),
        )

    def record(self, call_sid: str = SID) -> CallRecord:
        return self.reader.read(call_sid)

    def journal(self, call_sid: str = SID) -> list[JournalEntry]:
        return self.reader.journal(call_sid)

    def events(self, call_sid: str = SID) -> list[str]:
        return [entry.event for entry in self.journal(call_sid)]

    def queued(self) -> tuple[int, int]:
        """How many messages wait for takeovers, and for new turns."""
        return self.client.llen(TAKEOVER), self.client.llen(TURNS)

    def patient(self, **changes: int) -> Parts:
        """The same with other times."""
        return replace(self, timing=replace(self.timing, **changes))

    def close(self) -> None:
        """Let every heartbeat go and end every call."""
        for heartbeat in self._heartbeats:
            heartbeat.close()
        for record in self.reader.active():
            self.store.end(record.call_sid, "hung_up")
