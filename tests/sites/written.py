"""Sites as an operator writes them, with one field changed at a time."""

from __future__ import annotations

OWN = "+441632960010"
RIGHT = {
    "id": "high-street",
    "called": f'["{OWN}"]',
    "lift": "Lift 4",
    "address": "1 High Street",
    "humans": '[{number: "+441632960101", name: Control room}]',
}


def entry(**changed: str | None) -> str:
    """One site in YAML, a field a line in this order; None leaves a field out."""
    fields = {name: text for name, text in {**RIGHT, **changed}.items() if text is not None}
    lines = [f"    {name}: {text}".rstrip() for name, text in fields.items()]
    return "\n".join(["  - " + lines[0].lstrip(), *lines[1:], ""])


def file_of(*entries: str) -> str:
    """A whole file. Line 1 is `sites:`, so the id of the first site stands in line 2."""
    return "sites:\n" + "".join(entries)


def line_of(name: str, **changed: str | None) -> int:
    """In which line a field of the first site stands."""
    lines = file_of(entry(**changed)).splitlines()
    return next(at for at, text in enumerate(lines, 1) if text.lstrip(" -").startswith(f"{name}:"))
