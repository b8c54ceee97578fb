"""Strikes at processes: killed, frozen, told to end, or with a clock that jumps."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from random import Random
from typing import Final

from callflow.call.record import CallRecord
from callflow.call.state import LEASED
from callflow.lab.chaos.callers import POISON
from callflow.lab.chaos.processes import WATCHDOG, node
from callflow.lab.chaos.scene import LOOK_AGAIN_S, Note, Scene

AGAIN_AFTER_S: Final = (0.2, 1.2)
"""An orchestrator's moment between the end of a process and the start of the next."""

END_WITHIN_S: Final = 40.0
"""From SIGTERM to the end: `drain_s` is half of it."""

POISON_WITHIN_S: Final = 60.0
"""For a call of two turns, of which one kills whoever takes it up."""


async def kill_worker(scene: Scene, note: Note, dice: Random) -> None:
    """A machine loses its power."""
    name = await scene.worker(dice)
    note.strike(node(name))
    await _replace(scene, name, dice)
    await scene.worker_ready(name)


async def freeze_worker(scene: Scene, note: Note, dice: Random) -> None:
    """A machine pauses: at times for longer than anybody waits for it, at times not."""
    length_s = dice.uniform(1.0, scene.plan.stale_after_s + 2.0)
    name = await scene.worker(dice)
    note.details = f"{length_s:.1f} s"
    note.strike(node(name))
    scene.processes[name].freeze()
    await asyncio.sleep(length_s)
    scene.processes[name].thaw()
    note.over()
    await scene.worker_ready(name)


async def cut_worker(scene: Scene, note: Note, dice: Random) -> None:
    """A machine loses its way to the calls, and still gets messages: it lives, and knows less and
    less. At times for longer than anybody waits for it, at times not."""
    length_s = dice.uniform(1.0, scene.plan.stale_after_s + 2.0)
    name = await scene.worker(dice)
    note.details = f"{length_s:.1f} s"
    note.strike(node(name))
    await asyncio.to_thread(scene.servers.ways[name].mute)
    await asyncio.sleep(length_s)
    await asyncio.to_thread(scene.servers.ways[name].heal)
    note.over()
    await scene.worker_ready(name)


async def term_worker(scene: Scene, note: Note, dice: Random) -> None:
    """A rolling deploy reaches one."""
    name = await scene.worker(dice)
    with scene.processes.struck(name):
        note.strike(node(name))
        await _ended(scene, name)
        scene.processes.start(name)
    await scene.worker_ready(name)


async def kill_child(scene: Scene, note: Note, dice: Random) -> None:
    """The kernel is out of memory."""
    record = await scene.being_answered(dice)
    if record is None or record.assigned_worker is None:
        return
    note.strike(record.assigned_worker)
    _kill(record)
    await scene.worker_ready(record.assigned_worker.partition("@")[0])


async def step_clock(scene: Scene, note: Note, dice: Random) -> None:
    """A time server corrects a clock, and corrects it once more."""
    ahead_s = dice.choice((-1, 1)) * dice.uniform(5.0, 3600.0)
    length_s = dice.uniform(2.0, 5.0)
    name = await scene.worker(dice)
    note.details = f"{ahead_s:+.0f} s for {length_s:.1f} s"
    note.strike(node(name))
    scene.processes.set_clock(name, ahead_s)
    await asyncio.sleep(length_s)
    scene.processes.set_clock(name, 0.0)


async def poison(scene: Scene, note: Note, dice: Random) -> None:
    """Whoever takes up one utterance of one caller dies: `dice` decide after how long."""
    placed = scene.crowd.place(poison=True)
    note.call_sid = placed.call.call_sid
    deadline = time.monotonic() + POISON_WITHIN_S
    while not placed.over and time.monotonic() < deadline:
        record = await asyncio.to_thread(scene.eyes.record, placed.call.call_sid)
        if record is not None and _new_victim(record, note) and _poisoned(record):
            await asyncio.sleep(dice.uniform(0.0, 2 * scene.plan.pace_s))
            note.strike(record.assigned_worker or "")
            _kill(record)
        elif note.victims and record is not None and not _poisoned(record):
            break
        await asyncio.sleep(LOOK_AGAIN_S)
    note.over()
    await scene.whole()


async def kill_web(scene: Scene, note: Note, dice: Random) -> None:
    """A machine that callers talk to loses its power; the load balancer has another."""
    name = dice.choice(sorted(scene.processes.ports))
    note.strike(name)
    await _replace(scene, name, dice)
    await scene.web_ready(name)


async def term_web(scene: Scene, note: Note, dice: Random) -> None:
    """A rolling deploy reaches one that callers talk to."""
    name = dice.choice(sorted(scene.processes.ports))
    with scene.processes.struck(name):
        note.strike(name)
        await _ended(scene, name)
        scene.processes.start(name)
    await scene.web_ready(name)


async def kill_beats(scene: Scene, note: Note, dice: Random) -> None:
    """One scheduler dies, or all of them do."""
    names = scene.processes.beats
    if dice.random() < 0.5:
        names = [dice.choice(names)]
    await _stay_away(scene, note, names, dice)


async def kill_watchdog(scene: Scene, note: Note, dice: Random) -> None:
    """The worker that sweeps dies."""
    await _stay_away(scene, note, [WATCHDOG], dice)

    async def sweeps() -> bool:
        return ((await asyncio.to_thread(scene.eyes.sweeper)) or "").startswith(node(WATCHDOG))

    if all(scene.processes[name].alive for name in scene.processes.beats):
        await scene.back(WATCHDOG, sweeps)


async def _stay_away(scene: Scene, note: Note, names: list[str], dice: Random) -> None:
    away_s = dice.uniform(0.5, 4.0)
    note.details = f"away for {away_s:.1f} s"
    with scene.processes.struck(*names):
        note.strike(*names)
        for name in names:
            scene.processes[name].kill()
        await asyncio.sleep(away_s)
        for name in names:
            scene.processes.start(name)


async def _replace(scene: Scene, name: str, dice: Random) -> None:
    with scene.processes.struck(name):
        scene.processes[name].kill()
        await asyncio.sleep(dice.uniform(*AGAIN_AFTER_S))
        scene.processes.start(name)


async def _ended(scene: Scene, name: str) -> None:
    """Tell a process to end, as an orchestrator does; one that does not in time has fallen."""
    process = scene.processes[name]
    process.end()
    deadline = time.monotonic() + END_WITHIN_S
    while process.alive:
        if time.monotonic() > deadline:
            scene.processes.fallen.append(
                f"{name} had not ended {END_WITHIN_S:g} s after SIGTERM: "
                + scene.processes.words(name)
            )
            process.kill()
        await asyncio.sleep(LOOK_AGAIN_S)


def _new_victim(record: CallRecord, note: Note) -> bool:
    """True when a process works on the call that has not been killed for it yet."""
    return record.call_state in LEASED and record.assigned_worker not in note.victims


def _poisoned(record: CallRecord) -> bool:
    """True while the utterance that is owed a reply is the one that kills."""
    turn = record.answered + 1
    said = (entry for entry in record.conversation_thread if entry.role == "caller")
    return any(entry.turn == turn and POISON in entry.text for entry in said)


def _kill(record: CallRecord) -> None:
    pid = (record.assigned_worker or "").partition("/")[2].partition("-")[0]
    try:
        os.kill(int(pid), signal.SIGKILL)
    except ProcessLookupError:
        """It ended between being looked up and being struck; its parent has replaced it."""
