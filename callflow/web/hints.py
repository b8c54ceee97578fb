"""Gives the speech recognition the words that matter: dangers, and where the lift is.

The key phrases of the procedures with life at risk, in the language of the call, behind the site's
lift and street. They are read once in a process.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from callflow.call.language_tag import primary_language
from callflow.procedures.library import SopLibrary
from callflow.sites.site import Site

MOST_PHRASES: Final = 500
MOST_CHARS: Final = 100
"""What the carrier takes: phrases, and characters of each."""


@cache
def hints(site: Site | None, language: str) -> str:
    """Return the phrases for `site` and `language`, with commas between them."""
    places = [] if site is None else [site.lift, *site.address.split(",")]
    phrases = (" ".join(each.replace(",", " ").split()) for each in (*places, *_dangers(language)))
    fitting = [each for each in dict.fromkeys(phrases) if 0 < len(each) <= MOST_CHARS]
    return ",".join(fitting[:MOST_PHRASES])


def prepare_hints() -> None:
    """Read the procedures now, so that no caller waits for them."""
    _library()


def _dangers(language: str) -> tuple[str, ...]:
    fronts = (document.front for document in _library().documents.values())
    cues = (front.cues for front in fronts if front.urgency == "P1")
    return tuple(cue for each in cues for cue in each.get(primary_language(language), ()))


@cache
def _library() -> SopLibrary:
    return SopLibrary.load()
