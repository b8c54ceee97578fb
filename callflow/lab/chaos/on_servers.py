"""Strikes at the servers and at the ways to them: each has the stack to itself.

What is struck is the server with the calls, the broker, or the endpoint of one of them.
"""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from callflow.lab.chaos.endpoint import Endpoint
from callflow.lab.chaos.scene import Note, Scene
from callflow.lab.chaos.servers import freeze, thaw
from callflow.lab.embedded_server import EmbeddedServer
from callflow.redis.client import translated

CALLS: Final = "server"
BROKER: Final = "broker"

GONE_S: Final = (0.3, 2.5)
"""Until a server that died is started again, or another takes its place."""

STILL_S: Final = (1.0, 6.0)
"""So long is a server frozen, or its network silent."""

AT_THE_BROKER: Final = 0.3
"""Share of the strikes at either server that are at the broker."""


async def kill_server(scene: Scene, note: Note, dice: Random) -> None:
    """It dies, and comes back with what it had written."""
    servers, gone_s = scene.servers, dice.uniform(*GONE_S)
    note.details = f"gone for {gone_s:.1f} s"
    note.strike(CALLS)
    await asyncio.to_thread(servers.primary.kill)
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(servers.primary.restart)
    note.over()
    await asyncio.to_thread(servers.wait_until_in_step)


async def freeze_server(scene: Scene, note: Note, dice: Random) -> None:
    """It stands still, and goes on."""
    await _freeze(scene.servers.primary, note, CALLS, dice)


async def restart_server(scene: Scene, note: Note, dice: Random) -> None:
    """Three times in a row, quickly."""
    servers = scene.servers
    note.strike(CALLS)
    for _ in range(3):
        await asyncio.to_thread(servers.primary.restart)
        await asyncio.sleep(dice.uniform(0.0, 0.6))
    note.over()
    await asyncio.to_thread(servers.wait_until_in_step)


async def kill_clients(scene: Scene, note: Note, dice: Random) -> None:
    """It ends every connection as soon as it is there."""
    which, _, server = _either(scene, dice)
    note.strike(which)
    for _ in range(10):
        await asyncio.to_thread(scene.servers.drop_clients, server)
        await asyncio.sleep(0.1)


async def fail_over(scene: Scene, note: Note, dice: Random) -> None:
    """It dies, and the replica has everything that was ever acknowledged."""
    servers, gone_s = scene.servers, dice.uniform(*GONE_S)

    def lose_the_primary() -> None:
        with servers.writes_held():
            note.strike(CALLS)
            servers.primary.kill()

    await asyncio.to_thread(lose_the_primary)
    await _take_over(scene, note, gone_s)


async def fail_over_lossy(scene: Scene, note: Note, dice: Random) -> None:
    """It dies some time after its replica has lost sight of it."""
    servers, gone_s, behind_s = scene.servers, dice.uniform(*GONE_S), dice.uniform(0.1, 1.0)
    note.loses_writes = True
    note.strike(CALLS)
    await asyncio.to_thread(servers.cut_off_replica)
    await asyncio.sleep(behind_s)
    await asyncio.to_thread(servers.primary.kill)
    note.details = f"{behind_s:.1f} s lost"
    await _take_over(scene, note, gone_s)


async def _take_over(scene: Scene, note: Note, gone_s: float) -> None:
    servers = scene.servers
    note.details = "; ".join(filter(None, (note.details, f"gone for {gone_s:.1f} s")))
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(servers.promote)
    await asyncio.to_thread(servers.lead_clients)
    note.over()
    await asyncio.to_thread(servers.follow)
    await asyncio.to_thread(servers.wait_until_in_step)


async def demote(scene: Scene, note: Note, dice: Random) -> None:
    """Roles change, and whoever is connected stays with the old primary, which refuses writes."""
    servers = scene.servers

    def change_roles() -> None:
        with servers.writes_held():
            note.strike(CALLS)
            servers.promote()
            servers.lead_clients(keep_open=True)
            servers.follow()

    await asyncio.to_thread(change_roles)
    note.over()
    await asyncio.sleep(dice.uniform(1.0, 4.0))
    await asyncio.to_thread(servers.wait_until_in_step)


async def fill_disk(scene: Scene, note: Note, dice: Random) -> None:
    """It refuses to write what it could not write to its file."""
    full_s = dice.uniform(1.0, 4.0)
    note.details = f"full for {full_s:.1f} s"
    note.strike(CALLS)
    await asyncio.to_thread(scene.servers.fill_disk)
    await asyncio.sleep(full_s)
    await asyncio.to_thread(scene.servers.empty_disk)


async def slow_down(scene: Scene, note: Note, dice: Random) -> None:
    """Somebody copies a large file over the same wire."""
    which, endpoint, _ = _either(scene, dice)
    delay_ms, length_s = dice.randint(10, 80), dice.uniform(2.0, 5.0)
    note.details = f"{delay_ms} ms each way to the {which} for {length_s:.1f} s"
    note.strike(which)
    await asyncio.to_thread(endpoint.delay, delay_ms)
    await asyncio.sleep(length_s)
    await asyncio.to_thread(endpoint.heal)


async def drop_replies(scene: Scene, note: Note, dice: Random) -> None:
    """Scripts have run, messages were stored, and nobody hears of it."""
    which, endpoint, _ = _either(scene, dice)
    count = dice.randint(2, 10)
    note.details = f"{count} answers of the {which}"
    note.strike(which)
    await asyncio.to_thread(endpoint.drop_replies, count, "EVALSHA" if which == CALLS else "")
    await asyncio.sleep(dice.uniform(1.0, 3.0))
    await asyncio.to_thread(endpoint.heal)


async def reset_net(scene: Scene, note: Note, dice: Random) -> None:
    """A firewall forgets all that it knew, once or a few times."""
    note.strike(CALLS, BROKER)
    for _ in range(dice.randint(1, 4)):
        await asyncio.to_thread(scene.servers.calls_endpoint.reset)
        await asyncio.to_thread(scene.servers.broker_endpoint.reset)
        await asyncio.sleep(dice.uniform(0.05, 0.5))


async def mute_net(scene: Scene, note: Note, dice: Random) -> None:
    """A cable is pulled out, and put in again."""
    which, endpoint, _ = _either(scene, dice)
    length_s = dice.uniform(*STILL_S)
    note.details = f"{length_s:.1f} s to the {which}"
    note.strike(which)
    await asyncio.to_thread(endpoint.mute)
    await asyncio.sleep(length_s)
    await asyncio.to_thread(endpoint.heal)


async def empty_broker(scene: Scene, note: Note, _: Random) -> None:
    """Every message is gone."""
    note.strike(BROKER)
    await asyncio.to_thread(_forget_all, scene)


async def kill_broker(scene: Scene, note: Note, dice: Random) -> None:
    """It dies, and comes back with its messages or without."""
    broker, gone_s = scene.servers.broker, dice.uniform(*GONE_S)
    empty = dice.random() < 0.5
    note.details = f"gone for {gone_s:.1f} s, back {'empty' if empty else 'full'}"
    note.strike(BROKER)
    await asyncio.to_thread(broker.kill)
    await asyncio.sleep(gone_s)
    await asyncio.to_thread(broker.restart)
    if empty:
        await asyncio.to_thread(_forget_all, scene)


async def freeze_broker(scene: Scene, note: Note, dice: Random) -> None:
    """It stands still, and goes on."""
    await _freeze(scene.servers.broker, note, BROKER, dice)


def _forget_all(scene: Scene) -> None:
    with translated(BROKER):
        scene.servers.client_of(scene.servers.broker).flushall()


async def _freeze(server: EmbeddedServer, note: Note, which: str, dice: Random) -> None:
    length_s = dice.uniform(*STILL_S)
    note.details = f"{length_s:.1f} s"
    note.strike(which)
    freeze(server)
    await asyncio.sleep(length_s)
    thaw(server)


def _either(scene: Scene, dice: Random) -> tuple[str, Endpoint, EmbeddedServer]:
    """One of the two servers, and the way to it."""
    servers = scene.servers
    if dice.random() < AT_THE_BROKER:
        return BROKER, servers.broker_endpoint, servers.broker
    return CALLS, servers.calls_endpoint, servers.primary
