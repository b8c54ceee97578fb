"""How one deployment keeps records for good."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

ERASED_TOGETHER: Final = 25
"""Calls that one transaction erases: others wait for the end of the chain meanwhile, and a server
that is far away has to answer six times for each."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where records last, what seals them, and for how many days they are kept (None: for ever)."""

    url: str = field(repr=False)
    key: bytes | None = field(default=None, repr=False)
    keep_days: int | None = None
