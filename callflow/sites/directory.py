"""All sites of one deployment, found by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from callflow.sites.reading import SitesError, read_sites
from callflow.sites.site import ANY, Site, plain


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
