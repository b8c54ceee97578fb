"""What a worker can do next: it takes a message, answers a turn, or comes to grief over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from callflow.call.limits import Escalation
from tests.protocol.moves import Asking, Move, Step, fault, less, replaced, woken
from tests.protocol.record import Answer, Request
from tests.protocol.server import rung_of
from tests.protocol.world import DEAD, FROZEN, UP, Worker, World

WORDING = ("understand", "draft", "commit")
"""What a worker is at while its responder words the reply."""


@dataclass(frozen=True, slots=True)
class Workers(Asking):
    """The steps of worker processes: `turn.py`, `heartbeat.py` and `transfer.py` in small."""

    def of_worker(self, world: World, slot: int) -> Iterator[Step]:
        worker = world.workers[slot]
        who = letter(slot)
        if worker.health == DEAD:
            born = Worker(world.names + 1)
            after = replaced(world, slot, born)._replace(names=world.names + 1)
            yield Step(Move(who, "starts"), after, fair=_nobody_is_up(world))
            return
        if worker.health == FROZEN:
            thawed = replaced(world, slot, worker._replace(health=UP))
            yield Step(Move(who, "thaws"), thawed, fair=_nobody_is_up(world))
            return
        if world.faults:
            yield fault(world, who, "dies", worker=(slot, Worker(worker.name, DEAD)))
            yield fault(world, who, "freezes", worker=(slot, worker._replace(health=FROZEN)))
        asked, answer = worker.request, worker.answer
        if asked is None:
            if world.messages:
                yield from self._takes(world, slot)
            return
        if answer is None:
            then: Request | None = asked
            yield self._asks(world, slot, asked, "asks again")
        else:
            then, wakes = self.told(asked, answer, who)
            if then is None:
                after = replaced(world, slot, Worker(worker.name))
                yield Step(Move(who, "is done"), woken(after, wakes), True)
            else:
                yield self._asks(world, slot, then, "goes on")
                yield from self._times_out(world, slot, then)
            if world.faults:
                again = worker._replace(answer=None)
                yield fault(world, who, "loses the answer", worker=(slot, again))
        lease = _lease_of(worker)
        if lease is not None:
            yield from self._heartbeat(world, slot, lease)
            yield from self._gives_up(world, slot, lease, then)

    def _takes(self, world: World, slot: int) -> Iterator[Step]:
        claim = world.claims + 1
        asked = Request("claim", name=world.workers[slot].name, claim=claim)
        taken = world._replace(messages=world.messages - 1, claims=claim)
        yield self._asks(taken, slot, asked, "takes a message")
        yield from self._times_out(taken, slot, asked)

    def _asks(self, world: World, slot: int, asked: Request, what: str) -> Step:
        answer, after, step = self.ask(world, Move(letter(slot), what), asked, fair=True)
        worker = world.workers[slot]._replace(request=asked, answer=answer)
        return step._replace(after=replaced(after, slot, worker))

    def _times_out(self, world: World, slot: int, asked: Request) -> Iterator[Step]:
        """The client gives a request up and will ask again; the first copy is still under way."""
        if self.may_be_late(world):
            worker = world.workers[slot]._replace(request=asked, answer=None)
            late = (*world.late, asked)
            yield fault(world, letter(slot), "times out", worker=(slot, worker), late=late)

    def told(self, asked: Request, answer: Answer, who: str) -> tuple[Request | None, bool]:
        """What a worker asks next when it is told `answer`, and whether it wakes somebody."""
        match asked.script, answer.word:
            case "claim", "ok":
                lease = Request("understand", asked.name, answer.fence, answer.turn, answer.text)
                lease = lease._replace(claim=asked.claim if self.rules.lease_names_its_claim else 0)
                if rung_of(answer.attempts, self.rules) is Escalation.HUMAN:
                    return lease._replace(script="transfer", turn=0, text=()), False
                known = answer.understood >= answer.turn
                return self._says(lease, who) if known else lease, False
            case (("understand" | "draft"), "ok"):
                return self._says(asked, who), False
            case "commit", "moved":
                return None, True
            case (("hand_back" | "reclaim"), "ok"):
                if rung_of(answer.attempts, self.rules) is Escalation.HUMAN:
                    return Request("transfer"), False
                return None, True
        return None, False

    def _says(self, asked: Request, who: str) -> Request:
        text = asked.text
        if len(text) < self.size.pieces:
            text = (*text, f"{len(text) + 1}{who}")
        script = "commit" if len(text) == self.size.pieces else "draft"
        return asked._replace(script=script, text=text)

    def _heartbeat(self, world: World, slot: int, lease: Request) -> Iterator[Step]:
        """The process's other thread: it beats, and gives a turn back that takes too long."""
        who, name = letter(slot), world.workers[slot].name
        beat = Request("beat", name, lease.fence, claim=lease.claim)
        answer, after, step = self.ask(world, Move(who, "beats"), beat)
        if answer.word != "ok":
            # Told so, or by its own clock: the turn stops at its next check.
            after = replaced(after, slot, Worker(name))
        yield step._replace(after=after)
        if world.faults and lease.script in WORDING:
            back = lease._replace(script="hand_back", turn=0, text=(), costs=True)
            answer, after, step = self.ask(less(world), Move(who, "is wedged"), back)
            _, wakes = self.told(back, answer, who)
            yield step._replace(after=woken(after, wakes))

    def _gives_up(
        self, world: World, slot: int, lease: Request, then: Request | None
    ) -> Iterator[Step]:
        """The turn ends before its reply. `then`: what it would have asked next."""
        who = letter(slot)
        back = lease._replace(script="hand_back", turn=0, text=(), costs=False)
        words = then is not None and then.script in WORDING
        if world.faults:
            left = less(world)
            if words:
                yield self._asks(left, slot, back._replace(costs=True), "fails")._replace(
                    fair=False
                )
            if lease.script in WORDING:
                yield self._asks(left, slot, back, "is drained")._replace(fair=False)
            # Both tries timed out: the exception ends the task, and the lease stays behind.
            idle = Worker(world.workers[slot].name)
            yield fault(world, who, "cannot reach the server", worker=(slot, idle))
        if self.size.poison and words:
            yield self._asks(world, slot, back._replace(costs=True), "fails")
            dead = replaced(world, slot, Worker(world.workers[slot].name, DEAD))
            yield Step(Move(who, "dies"), dead, True)


def letter(slot: int) -> str:
    """What the worker in this place is called; its pieces of replies bear the letter."""
    return "abcdef"[slot]


def _lease_of(worker: Worker) -> Request | None:
    """The request that a worker is at, with its lease; None when it has none, or lost it."""
    asked, answer = worker.request, worker.answer
    if asked is None:
        return None
    if asked.script == "claim":
        if answer is None or answer.word != "ok":
            return None
        return asked._replace(script="understand", fence=answer.fence)
    return asked if asked.fence else None


def _nobody_is_up(world: World) -> bool:
    return all(one.health != UP for one in world.workers)
