"""Every step that anybody can take next in a world, what goes wrong included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.protocol.moves import MOST_MESSAGES, Move, Step, begins, fault, less, woken
from tests.protocol.record import COMPLETE, Record, Request
from tests.protocol.workers import WORDING, Workers
from tests.protocol.world import IDLE, SILENT, UP, Watchdog, Web, World

_LEASED_WORK = frozenset({*WORDING, "transfer", "hand_back"})


@dataclass(frozen=True, slots=True)
class Protocol(Workers):
    """Who may do what: the web, the workers, the watchdog, the broker, the caller and the human,
    and the replica."""

    def steps(self, world: World) -> Iterator[Step]:
        """Every step that can be the next one."""
        if world.record.state == COMPLETE and self.rules.complete_refuses:
            # Nothing is read from a complete record: `promises.is_final` tries every script on it.
            return
        yield from self._of_web(world)
        for slot in range(len(world.workers)):
            yield from self.of_worker(world, slot)
        yield from self._of_watchdog(world)
        yield from self._of_messages(world)
        yield from self._of_lines(world)
        if world.replica is not None:
            yield from self._of_replica(world)

    # Whoever hears the caller --------------------------------------------------------------------

    def _of_web(self, world: World) -> Iterator[Step]:
        web, said = world.web, world.caller.acknowledged
        if web.answer is None:
            turn = web.turn or said + 1
            if turn > self.size.utterances:
                return
            asked = Request("hear", turn=turn)
            move = Move("web", "asks again" if web.turn else "is told")
            answer, after, step = self.ask(world, move, asked, fair=bool(web.turn))
            yield step._replace(after=after._replace(web=Web(turn, answer)))
            if self.may_be_late(world):
                yield fault(world, "web", "times out", web=Web(turn), late=(*world.late, asked))
            return
        waits = self.size.min_replicas and self.rules.acknowledges_what_is_replicated
        if not waits or _has(world.replica, web.turn):
            caller = world.caller._replace(acknowledged=web.turn)
            after = world._replace(web=SILENT, caller=caller)
            yield Step(Move("web", "hears"), woken(after, web.answer.wake), True)
        elif world.record.heard < web.turn:
            # It was never acknowledged, so it rides in the address: it is stored again.
            yield Step(Move("web", "finds it gone"), world._replace(web=Web(web.turn)), True)
        if world.faults:
            yield fault(world, "web", "loses the answer", web=Web(web.turn))

    # The watchdog --------------------------------------------------------------------------------

    def _of_watchdog(self, world: World) -> Iterator[Step]:
        record, watchdog = world.record, world.watchdog
        if watchdog.request is None:
            if record.leased and record.holder:
                reclaim = Request("reclaim", fence=record.fence, seen=record.beat, costs=True)
                looked = world._replace(watchdog=Watchdog(reclaim))
                if is_silent(world):
                    yield Step(Move("watchdog", "looks"), looked, True)
                elif world.faults:
                    yield fault(looked, "watchdog", "guesses wrongly")
            return
        if world.faults:
            yield fault(world, "watchdog", "dies", watchdog=IDLE)
        if watchdog.answer is None:
            yield self._reclaims(world, watchdog.request)
            if self.may_be_late(world):
                yield fault(world, "watchdog", "times out", late=(*world.late, watchdog.request))
            return
        then, wakes = self.told(watchdog.request, watchdog.answer, "watchdog")
        if then is not None:
            yield self._reclaims(world, then)
        else:
            yield Step(
                Move("watchdog", "is done"), woken(world._replace(watchdog=IDLE), wakes), True
            )
        if world.faults:
            again = watchdog._replace(answer=None)
            yield fault(world, "watchdog", "loses the answer", watchdog=again)

    def _reclaims(self, world: World, asked: Request) -> Step:
        move = Move("watchdog", f"asks to {asked.script}")
        answer, after, step = self.ask(world, move, asked, fair=True)
        return step._replace(after=after._replace(watchdog=Watchdog(asked, answer)))

    # Messages, the line, the network -------------------------------------------------------------

    def _of_messages(self, world: World) -> Iterator[Step]:
        if world.faults and world.messages:
            yield fault(world, "broker", "loses a message", messages=world.messages - 1)
        if world.faults and 0 < world.messages < MOST_MESSAGES:
            yield fault(world, "broker", "doubles a message", messages=world.messages + 1)
        if world.record.due and not world.messages:
            coming = any(
                one.health == UP and one.request is not None and one.request.script == "claim"
                for one in world.workers
            )
            answer, after, step = self.ask(
                world, Move("sweep", "asks"), Request("rewake"), fair=not coming
            )
            yield step._replace(after=woken(after, answer.wake))
        for number, asked in enumerate(world.late):
            left = world.late[:number] + world.late[number + 1 :]
            move = Move("network", f"delivers {asked.script} late")
            yield self.ask(world._replace(late=left), move, asked, fair=True)[2]

    def _of_lines(self, world: World) -> Iterator[Step]:
        yield self.ask(world, Move("caller", "hangs up"), Request("end"))[2]
        if world.record.alert == "due":
            yield self.ask(world, Move("human", "picks up"), Request("accept"))[2]
        if world.record.human and world.faults:
            over = world.record.alert == "accepted"
            asked = Request("resume", costs=over)
            yield self.ask(
                less(world), Move("human", "leaves" if over else "does not come"), asked
            )[2]

    def _of_replica(self, world: World) -> Iterator[Step]:
        replica = world.replica
        assert replica is not None
        if replica != world.record:
            yield Step(Move("replica", "catches up"), world._replace(replica=world.record), True)
            if world.faults:
                caller = world.caller
                known = replica.draft if replica.draft_turn == caller.listens_to else ()
                if not begins(known, caller.heard):
                    # Nobody knows any more what the caller has heard of this reply.
                    caller = caller._replace(heard=known)
                yield fault(world, "replica", "becomes primary", record=replica, caller=caller)


def is_silent(world: World) -> bool:
    """True when the lease's holder will not come back to it: dead, frozen, or no longer at it."""
    record = world.record
    for worker in world.workers:
        if worker.name != record.holder:
            continue
        if worker.health != UP or worker.request is None:
            return True
        if worker.request.script == "claim":
            return worker.request.claim != record.claim
        return worker.request.fence != record.fence or worker.request.script not in _LEASED_WORK
    return True


def _has(replica: Record | None, turn: int) -> bool:
    return replica is not None and replica.heard >= turn
