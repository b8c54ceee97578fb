"""Calls as a night has them, put into the store step by step as the processes would."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from callflow.call.record import CallRecord, HumanAlert, Sentence, SopChunk
from callflow.call.urgency import Urgency
from callflow.store.handovers import AlertStep
from callflow.store.result import Claimed, Lease
from tests.parts import Parts

SITES = """
sites:
  - id: tower
    called: ["+441632960010"]
    lift: Lift 4
    address: 1 High Street, Leeds
    humans: [{number: "+441632960101", name: Control room, ring_s: 30}]
  - id: mill
    called: ["+441632960020"]
    lift: Lift 1
    address: 2 Mill Lane, Leeds
    humans: [{number: "+441632960101", name: Night desk, ring_s: 30}]
  - id: renmin
    called: ["+441632960030"]
    lift: 2号电梯
    address: 人民路88号
    language: zh-CN
    humans: [{number: "+441632960103", name: 值班室, ring_s: 30}]
  - id: station
    called: ["+441632960040"]
    lift: Platform lift B
    address: Central Station, concourse west, Bradford
    humans: [{number: "+441632960101", name: Control room, ring_s: 30}]
  - id: hospital
    called: ["+441632960050"]
    lift: Bed lift 7
    address: St Anne's Hospital, north wing
    humans: [{number: "+441632960102", name: Night desk, ring_s: 45}]
  - id: hostile
    called: ["+441632960060"]
    lift: "<script>window.stolen = 1</script>"
    address: "<img src=x onerror='window.stolen = 2'>"
    humans: [{number: "+441632960101", name: "<b onclick=1>Bo</b>", ring_s: 30}]
"""

SID = "CA{:032x}"


def chunk(sop: str, *said: str, section: str = "ask") -> SopChunk:
    sentences = tuple(Sentence(id=f"{sop}-{n}", text=text) for n, text in enumerate(said))
    return SopChunk.model_validate(
        {
            "id": f"{sop}/{section}",
            "sop": sop,
            "version": "2026-11-29",
            "section": section,
            "language": "en",
            "sentences": sentences,
        }
    )


@dataclass
class Scene:
    """The store of a night; every time is so many seconds ago."""

    parts: Parts
    calls: int = 0

    def at(self, ago_s: float) -> int:
        """The server's clock so long ago, ms."""
        return self.parts.reader.now_ms() - round(ago_s * 1000)

    def opens(self, site: str | None, ago_s: float, *, alert: str | None = None) -> str:
        """A call arrives."""
        self.calls += 1
        sid = SID.format(self.calls)
        self.parts.store.open(
            sid,
            site=site,
            greeting="You are through to the lift's automated assistant. Are you inside?",
            alert=alert,
            now_ms=self.at(ago_s),
        )
        return sid

    def record(self, sid: str) -> CallRecord:
        return self.parts.reader.read(sid)

    def speaks(self, sid: str, text: str, ago_s: float, *, danger: bool = False) -> None:
        """The caller says something."""
        turn = self.record(sid).heard + 1
        self.parts.store.record_utterance(sid, turn, text, danger=danger, now_ms=self.at(ago_s))

    def claimed(self, sid: str, worker: str, ago_s: float) -> Lease:
        """A worker takes the owed turn."""
        fence = self.record(sid).fence
        got = self.parts.store.claim(sid, worker, f"{sid}-{fence}", now_ms=self.at(ago_s))
        assert isinstance(got, Claimed), got
        return got.lease

    def understands(
        self,
        lease: Lease,
        scenario: str,
        urgency: Urgency,
        ago_s: float,
        chunks: Sequence[SopChunk] = (),
        **facts: Any,
    ) -> None:
        record = self.record(lease.call_sid).model_copy(
            update={
                "scenario_type": scenario,
                "open_scenarios": (scenario,),
                "urgency": urgency,
                "facts": {**self.record(lease.call_sid).facts, **facts},
                "understood": self.record(lease.call_sid).heard,
                "retrieved_sop_chunks": tuple(chunks),
            }
        )
        self.parts.store.save_analysis(lease, record, now_ms=self.at(ago_s))

    def drafts(self, lease: Lease, text: str, ago_s: float) -> None:
        turn = self.record(lease.call_sid).answered + 1
        self.parts.store.save_draft(lease, turn, text, lang="en", now_ms=self.at(ago_s))

    def answers(
        self, lease: Lease, text: str, ago_s: float, *, needs_human: str | None = None
    ) -> None:
        turn = self.record(lease.call_sid).answered + 1
        self.parts.store.commit(
            lease, turn, text, lang="en", needs_human=needs_human, now_ms=self.at(ago_s)
        )

    def beats(self, *leases: Lease) -> None:
        self.parts.store.beat(*leases)

    def dies(self, lease: Lease, ago_s: float, reason: str = "gone") -> None:
        """The watchdog takes the call from a worker of which nothing was heard any more."""
        beat = self.record(lease.call_sid).last_heartbeat
        assert beat is not None
        self.parts.store.reclaim(lease.call_sid, lease.fence, beat, reason, now_ms=self.at(ago_s))

    def rings(self, sid: str, ago_s: float) -> None:
        """A person is being rung."""
        alert = self._alert(sid)
        self._move(
            sid, alert, {"state": "ringing", "attempt_id": "r1", "leg": "CAleg"}, "ringing", ago_s
        )

    def picks_up(self, sid: str, ago_s: float) -> None:
        """A person takes the call."""
        taken = self._alert(sid).model_copy(update={"state": "accepted", "leg": "CAleg"})
        self.parts.store.handovers.accept(sid, taken, now_ms=self.at(ago_s))

    def _alert(self, sid: str) -> HumanAlert:
        alert = self.record(sid).alert
        assert alert is not None
        return alert

    def _move(
        self, sid: str, before: HumanAlert, changes: dict[str, str], event: str, ago_s: float
    ) -> None:
        then = before.model_copy(update=changes)
        step = AlertStep(then, 600_000, event, before.reason)
        self.parts.store.handovers.move(sid, before, step, now_ms=self.at(ago_s))

    def hostile_chunk(self, text: str) -> SopChunk:
        """A procedure whose author wants to harm."""
        return chunk("<s>sop</s>", text)

    # Whole calls

    def quiet(self) -> None:
        """One call that goes well, and one that has just ended."""
        self.test_call("mill", 40)
        done = self.test_call("tower", 70)
        self.parts.store.end(done, "hung_up", now_ms=self.at(4))

    def test_call(self, site: str, ago_s: float) -> str:
        sid = self.opens(site, ago_s)
        self.speaks(sid, "This is a test from the service company, all in order", ago_s - 6)
        lease = self.claimed(sid, "worker1@host/4711-aa", ago_s - 5.9)
        self.understands(lease, "test_call_engineer", "P5", ago_s - 5.6)
        self.answers(lease, "Thank you. The test is recorded.", ago_s - 5)
        return sid

    def fire(self) -> str:
        """Life at risk: taken over once, a person is being rung."""
        sid = self.opens("station", 34, alert="assist")
        self.rings(sid, 33.5)
        self.speaks(sid, "Help, there is smoke coming in, we are three people", 24, danger=True)
        lease = self.claimed(sid, "worker1@host/4711-aa", 23.8)
        smoke = [
            chunk(
                "fire_smoke", "Is there smoke or fire in the car?", "How many people are inside?"
            ),
            chunk("fire_smoke", "Stay low and keep away from the doors.", section="say"),
            chunk("fire_smoke", "Never tell anybody to force the doors.", section="never"),
        ]
        facts: dict[str, Any] = {
            "people": 3,
            "danger": ["smoke"],
            "trapped": True,
            "vulnerable": ["child"],
        }
        self.understands(lease, "fire_smoke", "P1", 23.5, smoke, **facts)
        self.drafts(lease, "I hear you. Stay low,", 23.1)
        self.dies(lease, 21.8)
        again = self.claimed(sid, "worker2@host/4720-bb", 21.5)
        self.drafts(again, "I hear you. Stay low, and keep away from the doors.", 21)
        reply = "I hear you. Stay low, and keep away from the doors. A person is being called now."
        self.answers(again, reply, 19.6, needs_human="life at risk")
        self.parts.store.playback.interrupt(
            sid, 1, "I hear you. Stay low, and keep away from the doors."
        )
        self.speaks(sid, "My son is coughing, please hurry!", 3.4, danger=True)
        last = self.claimed(sid, "worker2@host/4720-bb", 3.2)
        self.drafts(last, "Help him to breathe close to the floor.", 1.2)
        self.beats(last)
        return sid

    def busy(self) -> list[str]:
        """A night on which much happens: every urgency, every state."""
        sids = [self.fire(), self.trapped_and_anxious(), self.with_a_person(), self.lost()]
        sids.append(self.waits_in_the_queue())
        sids.append(self.answered("tower", "entrapment_standard", "P3", 95, people=2))
        sids.append(self.answered("renmin", "entrapment_standard", "P3", 242, people=4))
        sids.append(self.answered("mill", "door_malfunction", "P4", 130))
        sids.append(self.opens("hospital", 2))
        sids.append(self.test_call("tower", 52))
        return sids

    def trapped_and_anxious(self) -> str:
        sid = self.opens("hospital", 48, alert="assist")
        self.rings(sid, 47)
        self.speaks(sid, "I'm stuck, I can't breathe properly in here, I'm pregnant", 40)
        lease = self.claimed(sid, "worker1@host/4712-cc", 39.9)
        facts: dict[str, Any] = {
            "people": 1,
            "trapped": True,
            "vulnerable": ["pregnant", "anxious"],
        }
        self.understands(lease, "panic_claustrophobia", "P2", 39.5, **facts)
        text = "You are safe in the car and there is enough air. Is anybody else with you?"
        self.answers(lease, text, 38, needs_human="vulnerable person")
        return sid

    def with_a_person(self) -> str:
        sid = self.opens("tower", 210, alert="assist")
        self.speaks(sid, "Hello? The lift has stopped between floors", 200)
        lease = self.claimed(sid, "worker3@host/4730-dd", 199.8)
        self.understands(lease, "entrapment_standard", "P2", 199.5, people=5, trapped=True)
        self.answers(lease, "I can hear you. Is anybody hurt?", 198)
        self.rings(sid, 197)
        self.picks_up(sid, 180)
        return sid

    def lost(self) -> str:
        """Its worker is dead, and no other one has it yet."""
        sid = self.opens("mill", 26)
        self.speaks(sid, "The doors won't open and the light is flickering", 9)
        lease = self.claimed(sid, "worker1@host/4713-ee", 8.8)
        self.understands(lease, "power_failure", "P3", 8.5, people=1, trapped=True)
        self.dies(lease, 1.5)
        return sid

    def waits_in_the_queue(self) -> str:
        sid = self.opens("station", 12)
        self.speaks(sid, "Hello, can anybody hear me?", 3.3)
        return sid

    def answered(
        self, site: str, scenario: str, urgency: Urgency, ago_s: float, **facts: Any
    ) -> str:
        sid = self.opens(site, ago_s)
        said = "电梯停了，门打不开" if site == "renmin" else "We are stuck, the doors don't open"
        self.speaks(sid, said, ago_s - 8)
        lease = self.claimed(sid, "worker2@host/4721-ff", ago_s - 7.8)
        self.understands(lease, scenario, urgency, ago_s - 7.5, **facts)
        told = "请待在轿厢内，不要扒门。" if site == "renmin" else "Please stay inside the car."
        self.answers(lease, told, ago_s - 6.6)
        return sid
