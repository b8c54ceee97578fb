"""A call's language as Twilio names it; recognition, `<Say>` and the relay differ in Chinese.

A call's language is what the site or the caller gave: `en-GB`, `zh`, `es_MX`, `cmn-Hans-CN`. An
unknown language is spoken as English, since Twilio ends a call over a tag that it does not know.
"""

from __future__ import annotations

import re
from typing import Final

FALLBACK: Final = "en-GB"

_REGIONS: Final = {
    "ar": "AE", "bg": "BG", "ca": "ES", "cs": "CZ", "da": "DK", "de": "DE", "el": "GR",
    "en": "GB", "es": "ES", "eu": "ES", "fa": "IR", "fi": "FI", "fr": "FR", "gl": "ES",
    "he": "IL", "hi": "IN", "hr": "HR", "hu": "HU", "id": "ID", "is": "IS", "it": "IT",
    "ja": "JP", "ko": "KR", "lt": "LT", "ms": "MY", "nb": "NO", "nl": "NL", "pl": "PL",
    "pt": "PT", "ro": "RO", "ru": "RU", "sk": "SK", "sl": "SI", "sr": "RS", "sv": "SE",
    "th": "TH", "tr": "TR", "uk": "UA", "vi": "VN",
}  # fmt: skip
"""The region of a language that comes without one."""

_SPEECH: Final = {"CN": "cmn-Hans-CN", "TW": "cmn-Hant-TW", "HK": "yue-Hant-HK"}
_TAG: Final = re.compile(r"([a-z]{2,3})(-[a-z]{4})?(?:-([a-z]{2})|-[0-9]{3})?", re.IGNORECASE)


def speech_tag(language: str) -> str:
    """The tag for speech recognition in `<Gather>`: `en-GB`, `es-ES`, `cmn-Hans-CN`."""
    return _SPEECH.get(_chinese(language)) or say_tag(language)


def say_tag(language: str) -> str:
    """The tag for `<Say>` and for ConversationRelay: `en-GB`, `es-ES`, `zh-CN`."""
    if variety := _chinese(language):
        return f"zh-{variety}"
    primary, _, region = _parts(language)
    region = region or _REGIONS.get(primary, "")
    return f"{primary}-{region}" if region else FALLBACK


relay_tag = say_tag
"""The tag for ConversationRelay, both directions."""


def _chinese(language: str) -> str:
    """The region whose Chinese is meant: "CN", "TW" or "HK"; "" for any other language."""
    primary, script, region = _parts(language)
    if primary not in ("zh", "cmn", "yue"):
        return ""
    if primary == "yue" or (primary == "zh" and region in ("HK", "MO")):
        return "HK"
    return "TW" if region == "TW" or (script == "hant" and not region) else "CN"


def _parts(language: str) -> tuple[str, str, str]:
    """Language, script and region; blank where there is none, or where it is no language tag."""
    tag = _TAG.fullmatch(language.strip().replace("_", "-"))
    if tag is None:
        return "", "", ""
    return tag[1].lower(), (tag[2] or "")[1:].lower(), (tag[3] or "").upper()
