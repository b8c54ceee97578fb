"""Looks at one worker alone: the health check of its container.

It answers one question: would a restart help this worker? Where the store or the broker cannot be
reached it would not: workers that are all ended at once by their health checks are still starting
when the server comes back. It runs every few seconds beside the worker, so this imports no more
than it needs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from callflow.errors import StoreError, StoreFull, StoreReadOnly, StoreUnavailable
from callflow.health.vitals import Vitals, VitalSigns
from callflow.health.workers import Staff, Trouble, troubles_of
from callflow.health.writes import why_none
from callflow.redis.client import Client, address, connect, translated
from callflow.redis.scripts import Scripts
from callflow.redis.url import store_url_of_broker

TIMEOUT_S = 0.4
"""To connect, and for an answer: each is tried twice, and a health check has 3 s."""

LOOK_AGAIN_S = 1.2
"""A worker speaks once a second: what is still wrong then was not a moment's."""


def told_of(
    node: str, store_url: str, broker_url: str, service: str = "mymaster"
) -> tuple[bool, str]:
    """Whether to let the worker be, and a sentence. Raises SettingsError for what is no address.

    `broker_url` as kombu writes it; `service`: what Sentinels call the broker's primary.
    """
    try:
        return NodeCheck(node, store_url, store_url_of_broker(broker_url, service)).judge()
    except (StoreUnavailable, StoreReadOnly, StoreFull) as error:
        return True, f"{node} cannot be judged, and a restart would not help: {error}"
    except StoreError as error:
        # A check that may not look must not be green for ever.
        return False, f"{node} cannot be judged, since this check may not ask: {error}"


class NodeCheck:
    """Asks the store and the broker of one worker, by the name behind its `-n`."""

    def __init__(self, node: str, store_url: str, broker_url: str) -> None:
        self._node = node
        self._store = _client(store_url)
        self._vitals = Vitals(Scripts(self._store))
        self._broker = _client(broker_url)

    def judge(self) -> tuple[bool, str]:
        """Whether it is well, and a sentence. Raises StoreError where that cannot be known."""
        roll = self._vitals.call_roll(self._node)
        silent = not roll.signs or roll.silent_ms(roll.signs[0])
        if silent and (reason := why_none(self._store)):
            return True, (
                f"{self._node} cannot be judged, and a restart would not help: it cannot say how "
                f"it is; {reason}"
            )
        if not roll.signs:
            return False, (
                f"{self._node} has said nothing for more than a minute: it is frozen, wedged or "
                "gone, or its name is another one (what stands behind its -n)"
            )
        known = roll.signs[0]
        silent_ms = roll.silent_ms(known)
        if silent_ms:
            self._waiting(())
            return False, (
                f"{self._node} has said nothing for {silent_ms / 1000:.0f} s: its parent process "
                "is frozen or wedged"
            )
        found = self._look(known.queues)
        if found:
            time.sleep(LOOK_AGAIN_S)
            found = self._look(known.queues)
        if found:
            return False, "; ".join(trouble.sentence for trouble in found)
        return True, f"{self._node} is well: {_told(known)}"

    def _look(self, queues: Sequence[str]) -> list[Trouble]:
        # What waits is asked for first: who takes it at this moment says so afterwards.
        waiting = self._waiting(queues)
        roll = self._vitals.call_roll(self._node)
        staff = Staff(roll, {}, queues, waiting, in_work=0, unclaimed=0)
        return [trouble for one in roll.signs for trouble in troubles_of(staff, one)]

    def _waiting(self, queues: Sequence[str]) -> dict[str, int]:
        """How many messages are in each queue. Raises StoreError where the broker is gone: a worker
        that looks for it is silent, and would look for it again."""
        broker = self._broker
        with translated(address(broker)), broker.pipeline(transaction=False) as pipe:
            pipe.ping()
            for queue in queues:
                pipe.llen(queue)
            return dict(zip(queues, pipe.execute()[1:], strict=True))


def _told(signs: VitalSigns) -> str:
    return (
        f"{signs.phase}, {signs.busy} of {signs.slots} slots busy, {signs.taken} messages taken "
        f"from {', '.join(signs.queues) or 'no queue'}"
    )


def _client(url: str) -> Client:
    return connect(url, connect_timeout_s=TIMEOUT_S, answer_timeout_s=TIMEOUT_S)
