"""The few sentences that a responder can say without any procedure, in each language it speaks.

They stand in `phrases.json` as content. A responder that has no procedure at all still tells who is
speaking, keeps people inside and stays on the line.
"""

from __future__ import annotations

import json
from functools import lru_cache
from importlib.resources import files
from typing import Final

FALLBACK_LANGUAGE: Final = "en"


@lru_cache(maxsize=1)
def _all() -> dict[str, dict[str, str]]:
    text = files("callflow.responder").joinpath("phrases.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, str]] = json.loads(text)
    return found


def generic(language: str) -> dict[str, str]:
    """Return the sentences by id for a language tag such as `zh-CN`; English where unknown."""
    primary = language.replace("_", "-").split("-", 1)[0].strip().lower()
    code = "zh" if primary in ("cmn", "yue") else primary
    return _all().get(code, _all()[FALLBACK_LANGUAGE])


def disclosures(language: str) -> tuple[str, ...]:
    """Return the sentences, any of which tells the caller that a machine is speaking."""
    found = generic(language)
    return (found["disclosure"], found["disclosure_alerting"])
