"""How one deployment keeps records for good."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where records last, what seals them, and for how many days they are kept (None: for ever)."""

    url: str = field(repr=False)
    key: bytes | None = field(default=None, repr=False)
    keep_days: int | None = None
