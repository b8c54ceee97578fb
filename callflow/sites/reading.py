"""Reads a file of sites, YAML or CSV, and says of every fault where it is and what to write."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from callflow.errors import CallflowError
from callflow.sites.site import Human, Site

# libyaml where PyYAML was built with it: eight times faster.
_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

LISTS = ("called", "calling", "humans")

ADVICE = {
    "missing": "is missing",
    "string_pattern_mismatch": "is not written as it must be (see sites.example.yaml)",
    "string_too_short": "is empty",
    "too_short": "is empty: name at least one",
}


class SitesError(CallflowError):
    """A file of sites that cannot be used: where, and what to change."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")


@dataclass(frozen=True, slots=True)
class Found:
    """One entry of a file as it was written. `lines`: where each field stands."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


def read(path: Path) -> tuple[list[tuple[int, Site]], list[SitesError]]:
    """The sites that are right, each with its line, and what is wrong with the others."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        return [], [SitesError(path, 1, f"cannot be read: {reason}")]
    try:
        entries = list(_csv(text) if path.suffix.lower() == ".csv" else _yaml(text))
    except _Unreadable as error:
        return [], [SitesError(path, error.line, error.reason)]
    right: list[tuple[int, Site]] = []
    wrong: list[SitesError] = []
    for entry in entries:
        try:
            right.append((entry.line, Site.model_validate(entry.fields)))
        except ValidationError as error:
            wrong += [_told(path, entry, one) for one in error.errors(include_url=False)]
    return right, wrong


class _Unreadable(Exception):
    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(reason)


def _told(path: Path, entry: Found, error: ErrorDetails) -> SitesError:
    where = [str(part) for part in error["loc"]]
    line = entry.lines.get(where[0], entry.line) if where else entry.line
    name = ".".join(where)
    site = entry.fields.get("id")
    of = f"site {site!a}" if isinstance(site, str) else "a site"
    if error["type"] == "extra_forbidden":
        known = Human.model_fields if where[0] == "humans" else Site.model_fields
        close = difflib.get_close_matches(where[-1], known, n=1)
        hint = f", did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
        return SitesError(path, line, f"{of}: {name} is no field{hint}")
    reason = ADVICE.get(error["type"], str(error["msg"]).removeprefix("Value error, "))
    return SitesError(path, line, f"{of}: {name} {reason}" if name else f"{of} {reason}")


def _yaml(text: str) -> Iterator[Found]:
    """A list of sites, or one under `sites:`. Everything is read as text: no number is one."""
    try:
        root = yaml.compose(text, Loader=_LOADER)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = 1 if mark is None else mark.line + 1
        raise _Unreadable(line, f"is no YAML: {getattr(error, 'problem', error)}") from error
    if isinstance(root, yaml.MappingNode):
        (root,) = [value for key, value in root.value if key.value == "sites"] or [None]
    if not isinstance(root, yaml.SequenceNode):
        raise _Unreadable(1, "has no list of sites: write them under `sites:`, each with a hyphen")
    for node in root.value:
        line = node.start_mark.line + 1
        if not isinstance(node, yaml.MappingNode):
            raise _Unreadable(line, "has an entry that is no site: write `- id: …` and its fields")
        fields: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if key.value in fields:
                raise _Unreadable(key.start_mark.line + 1, f"has {key.value} twice in one site")
            fields[key.value], lines[key.value] = _plain(value), key.start_mark.line + 1
        yield Found(line, fields, lines)


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return {key.value: _plain(value) for key, value in node.value}
    if isinstance(node, yaml.SequenceNode):
        return [_plain(value) for value in node.value]
    return node.value


def _csv(text: str) -> Iterator[Found]:
    """One row a site; several values of a field between `;`, a human as `number|name|seconds`."""
    rows = csv.DictReader(text.splitlines(), strict=True)
    try:
        for row in rows:
            if None in row or None in row.values():
                raise _Unreadable(rows.line_num, "has more or fewer cells than the first row")
            fields: dict[str, Any] = {name: cell for name, cell in row.items() if cell.strip()}
            for name in LISTS:
                if name in fields:
                    fields[name] = [one.strip() for one in fields[name].split(";") if one.strip()]
            if "humans" in fields:
                fields["humans"] = [_human(one) for one in fields["humans"]]
            yield Found(rows.line_num, fields, {})
    except csv.Error as error:
        raise _Unreadable(rows.line_num, f"is no CSV: {error}") from error


def _human(cell: str) -> dict[str, str]:
    return dict(zip(("number", "name", "ring_s"), cell.split("|"), strict=False))
