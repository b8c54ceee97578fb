"""Reads a file of sites, YAML or CSV, and finds each by number.

Of every fault in the file it says where it is and what to write.
"""

from __future__ import annotations

import csv
import gc
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from callflow import strict_yaml
from callflow.errors import CallflowError, did_you_mean
from callflow.sites.site import ANY, Human, Site, plain
from callflow.strict_yaml import YamlList, YamlMapping

LISTS = ("called", "calling", "humans")

ADVICE = {
    "missing": "is missing",
    "string_pattern_mismatch": "is not written as it must be (see sites.example.yaml)",
    "string_too_short": "is empty",
    "too_short": "is empty: name at least one",
    "tuple_type": "must be a list: write its values with a hyphen each, or between [ and ]",
    "model_type": "must have a number and a name",
    "string_type": "must be one text, and no list",
}


class SitesError(CallflowError):
    """A file of sites that cannot be used: where, and what to change."""

    def __init__(self, path: Path, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        super().__init__(f"{path}:{line}: {reason}")


@dataclass(frozen=True, slots=True)
class SiteEntry:
    """One entry of a file as it was written. `lines`: where each field stands."""

    line: int
    fields: dict[str, Any]
    lines: dict[str, int]


def read_sites(path: Path) -> tuple[list[tuple[int, Site]], list[SitesError]]:
    """The sites that are right, each with its line, and what is wrong with the others.

    The cycle collector rests meanwhile: it would go over all that is read again and again, which
    makes two thirds of the time for 20,000 sites, and finds nothing, since there are no cycles.
    """
    collected = gc.isenabled()
    gc.disable()
    try:
        return _read_sites(path)
    finally:
        if collected:
            gc.enable()


def _read_sites(path: Path) -> tuple[list[tuple[int, Site]], list[SitesError]]:
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
            wrong += [_describe(path, entry, one) for one in _distinct(error)]
    return right, wrong


class _Unreadable(Exception):
    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(reason)


def _distinct(error: ValidationError) -> list[ErrorDetails]:
    """Without "too short" of a list that is so only because what stands in it is wrong."""
    errors = error.errors(include_url=False)
    inside = {one["loc"][0] for one in errors if len(one["loc"]) > 1}
    return [one for one in errors if one["type"] != "too_short" or one["loc"][0] not in inside]


def _describe(path: Path, entry: SiteEntry, error: ErrorDetails) -> SitesError:
    where = [str(part) for part in error["loc"]]
    line = entry.lines.get(where[0], entry.line) if where else entry.line
    name = ".".join(where)
    site = entry.fields.get("id")
    of = f"site {site!a}" if isinstance(site, str) else "a site"
    if error["type"] == "extra_forbidden":
        known = Human.model_fields if where[0] == "humans" else Site.model_fields
        return SitesError(path, line, f"{of}: {name} is no field{did_you_mean(where[-1], known)}")
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    reason = ADVICE.get(error["type"], message)
    return SitesError(path, line, f"{of}: {name} {reason}" if name else f"{of} {reason}")


def _yaml(text: str) -> Iterator[SiteEntry]:
    """A list of sites, or one under `sites:`. Everything is read as text: no number is one."""
    try:
        root = strict_yaml.parse(text)
    except strict_yaml.YamlError as error:
        raise _Unreadable(error.line, error.reason) from error
    if isinstance(root, YamlMapping):
        for name in root.keys() - {"sites"}:
            raise _Unreadable(root.lines[name], f"{name!a} is no part of it: only sites: is")
        root = root.get("sites")
    if not isinstance(root, YamlList):
        raise _Unreadable(1, "has no list of sites: write them under `sites:`, each with a hyphen")
    for line, site in zip(root.lines, root, strict=True):
        if not isinstance(site, YamlMapping):
            raise _Unreadable(line, "has an entry that is no site: write `- id: …` and its fields")
        yield SiteEntry(line, site, site.lines)


def _csv(text: str) -> Iterator[SiteEntry]:
    """One row a site; several values of a field between `;`, a human as `number|name|seconds`."""
    rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        rows.fieldnames = _columns(rows.fieldnames or ())
        for row in rows:
            if None in row or None in row.values():
                raise _Unreadable(rows.line_num, "has more or fewer cells than the first row")
            fields: dict[str, Any] = {name: cell for name, cell in row.items() if cell.strip()}
            for name in LISTS:
                if name in fields:
                    fields[name] = [one.strip() for one in fields[name].split(";") if one.strip()]
            if "humans" in fields:
                fields["humans"] = [_human(one, rows.line_num) for one in fields["humans"]]
            yield SiteEntry(rows.line_num, fields, {})
    except csv.Error as error:
        raise _Unreadable(rows.reader.line_num, f"is no CSV: {error}") from error


def _columns(names: Iterable[str]) -> list[str]:
    """The first row: told once, and not again for each row under it."""
    columns: list[str] = []
    for name in map(str.strip, names):
        if name not in Site.model_fields:
            comma = " (columns are divided by commas)" if ";" in name else ""
            reason = f"column {name!a} is no field{did_you_mean(name, Site.model_fields)}{comma}"
            raise _Unreadable(1, reason)
        if name in columns:
            raise _Unreadable(1, f"has the column {name} twice")
        columns.append(name)
    return columns


def _human(cell: str, line: int) -> dict[str, str]:
    parts = cell.split("|")
    if len(parts) > 3:
        raise _Unreadable(line, f"human {cell[:64]!a} has too many parts: number|name|seconds")
    return dict(zip(("number", "name", "ring_s"), parts, strict=False))


class Sites:
    """Read once when a process starts; found in the same time however many there are."""

    def __init__(self, sites: Sequence[Site]) -> None:
        self._by_id = {site.id: site for site in sites}
        self._called = {number: site for site in sites for number in site.called}
        self._calling = {number: site for site in sites for number in site.calling}

    @classmethod
    def load(cls, path: Path) -> Sites:
        """The sites in a file. Raises SitesError, the first of what `check` finds."""
        sites, problems = _check(path)
        if problems:
            raise problems[0]
        return cls(sites)

    def find(self, called: str, calling: str) -> Site | None:
        """Whose call this is: by the line that it comes from, by the number that was dialled, or
        the site that takes the rest. Withheld and foreign addresses match nothing."""
        return (
            self._calling.get(plain(calling))
            or self._called.get(plain(called))
            or self._called.get(ANY)
        )

    def get(self, site_id: str) -> Site | None:
        """The site of that id."""
        return self._by_id.get(site_id)

    def __iter__(self) -> Iterator[Site]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)


def check(path: Path) -> list[SitesError]:
    """Everything that is wrong with a file of sites, in the order of its lines."""
    return _check(path)[1]


def _check(path: Path) -> tuple[list[Site], list[SitesError]]:
    found, problems = read_sites(path)
    ids: dict[str, int] = {}
    owners: dict[tuple[str, str], str] = {}
    for line, site in found:
        if site.id in ids:
            problems.append(
                SitesError(path, line, f"site {site.id!a} stands in line {ids[site.id]} already")
            )
        ids.setdefault(site.id, line)
        for kind, numbers in (("called", site.called), ("calling", site.calling)):
            for number in numbers:
                owner = owners.setdefault((kind, number), site.id)
                if owner != site.id:
                    reason = f"site {site.id!a}: {kind} {number} belongs to site {owner!a} already"
                    problems.append(SitesError(path, line, reason))
    if not found and not problems:
        problems.append(SitesError(path, 1, "names no site"))
    return [site for _, site in found], sorted(problems, key=lambda each: each.line)
