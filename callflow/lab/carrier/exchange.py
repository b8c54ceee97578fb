"""What all lines of one carrier share, and the book of lines."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from callflow.lab.carrier.background import Background
from callflow.lab.carrier.mischief import Chance, Fates
from callflow.lab.carrier.network import Address, Network
from callflow.lab.carrier.webhook import Signer, Webhooks

if TYPE_CHECKING:
    from callflow.lab.carrier.conference import Conferences
    from callflow.lab.carrier.leg import Leg
    from callflow.lab.carrier.outbound import OutboundLeg


@dataclass(frozen=True, slots=True)
class Outbound:
    """A call to be made to `to`, which then does what the document at `url` (or `document`) says.

    `bridged`: what is left when that document has ended is the other line.
    """

    to: str
    caller: str
    url: str | None
    document: str | None = None
    base: str | None = None
    timeout_s: float = 60.0
    direction: str = "outbound-api"
    parent_sid: str | None = None
    status_url: str | None = None
    events: Collection[str] = ("completed",)
    bridged: bool = False


@dataclass(slots=True)
class Exchange:
    """One per carrier. `endpoint_s`: how long the carrier takes to notice by itself that a person
    has finished speaking (speechTimeout="auto")."""

    account_sid: str
    network: Network
    webhooks: Webhooks
    signer: Signer
    background: Background
    chance: Chance
    conferences: Conferences
    speed: float
    endpoint_s: float
    dial: Callable[[Outbound], OutboundLeg]
    legs: dict[str, Leg] = field(default_factory=dict)
    _lines: Counter[str] = field(default_factory=Counter)

    @staticmethod
    def new_sid(prefix: str) -> str:
        """A SID that nobody else has; no seed gives the same one again."""
        return f"{prefix}{secrets.token_hex(16)}"

    def fates(self, kind: str) -> Fates:
        """The fates of the next line of a `kind`, in the order in which they come."""
        self._lines[kind] += 1
        return Fates(self.chance, f"{kind} {self._lines[kind]}")

    def address(self, url: str | None, base: str | None = None) -> Address | None:
        """Where `url` leads; None for None. Raises AddressRefused."""
        return None if url is None else self.network.address(url, base)
