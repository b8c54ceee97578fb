"""How much of anything one call, or one deployment, may have. Beyond it nobody is dropped: a human
is rung, and the journal says why."""

from __future__ import annotations

from typing import Final

LIMIT: Final = "limit"
"""Why a human is rung for a call that has gone beyond a limit of its own."""

OVERLOAD: Final = "overload"
"""Why a human is rung for a call that is one too many, or that no worker had time for."""

THREAD_MOST_ENTRIES: Final = 400
"""Utterances and replies of one call, about 200 turns, after which a human is wanted: at a turn in
ten seconds that is half an hour with a machine. At twice as many the agent falls silent."""

OPEN_CALLS_MOST: Final = 10_000
"""Calls that are open at the same time; those beyond are put through to humans at once. A sweep
over so many was measured at a few milliseconds, and each takes some tens of kilobytes."""

FRAMES_PER_S_MOST: Final = 100
"""Of one relay socket. A caller's words in parts, keys and word of what was played make some ten a
second; a network that stood still for several seconds delivers those of all of them at once."""
