"""The states of a call as a diagram, drawn from the table that decides."""

from __future__ import annotations

from collections import defaultdict

from callflow.call.state import MOVES, OPENED, Refusal


def mermaid() -> str:
    """A Mermaid state diagram: an arrow for every pair of states, with the events that lead there.

    Events that leave a call in its state are left out where they do so in every state."""
    arrows: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for event, row in MOVES.items():
        moves = {state: then for state, then in row.items() if not isinstance(then, Refusal)}
        if all(state is then for state, then in moves.items()):
            continue
        for state, then in moves.items():
            arrows[state.value, then.value].append(event.value)
    lines = ["stateDiagram-v2", f"    [*] --> {OPENED.value}"]
    lines += [
        f"    {one} --> {then}: {', '.join(events)}" for (one, then), events in arrows.items()
    ]
    return "\n".join(lines)
