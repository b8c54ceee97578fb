"""Words what a caller has just told, in one short sentence, so that they can put it right.

The parts stand in `acknowledgements.json`, by language.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from callflow.call.language_tag import primary_language

_FALLBACK_LANGUAGE: Final = "en"


def acknowledge(learned: Iterable[str], facts: Mapping[str, Any], language: str) -> str:
    """Return a sentence such as "3 people, nobody hurt.", or "" where nothing is told back.

    `learned`: names of the facts that the last words told; `facts`: all that is known.
    """
    words = _words().get(primary_language(language), _words()[_FALLBACK_LANGUAGE])
    parts = [part for name in learned if (part := _part(words, name, facts.get(name)))]
    said = words["between"].join(parts)
    return said[:1].upper() + said[1:] + words["stop"] if said else ""


def _part(words: Mapping[str, str], name: str, value: Any) -> str:
    match name:
        case "people" if value:
            return words["one_person" if value == 1 else "people"].format(value=value)
        case "injured":
            return words["hurt" if value else "unhurt"]
        case "floor" if str(value)[:1].isdigit():
            return words["floor"].format(value=value)
        case "callback_number":
            return words["number"].format(value=" ".join(str(value)))
    return ""


@cache
def _words() -> dict[str, dict[str, str]]:
    file = files("callflow.responder").joinpath("acknowledgements.json")
    found: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    return found
