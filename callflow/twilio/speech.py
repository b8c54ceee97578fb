"""Makes text and language tags fit for Twilio's voices: in `<Say>`, in recognition, on the relay.

XML has no way to write a control character or half of a surrogate pair: a document with one in it
is refused as a whole and the caller is cut off. They become spaces; every other character stays.

A call's language is what the site or the caller gave: `en-GB`, `zh`, `es_MX`, `cmn-Hans-CN`. An
unknown language is spoken as English, since Twilio ends a call over a tag that it does not know.
"""

from __future__ import annotations

import re
from typing import Final

from callflow.call.utterance import clean_text

MOST_CHARS: Final = 3_000
"""Twilio takes 4,096 characters in a `<Say>` for its own voices, but 3,000 for Polly's."""
MOST_ENCODED: Final = 4_500
"""And 4,500 when they are written as in a URL, where a Chinese character takes nine (error 13521).
"""

_PLANE_ENDS: Final = "".join(
    chr(plane << 16 | last) for plane in range(1, 17) for last in (0xFFFE, 0xFFFF)
)
_UNSPEAKABLE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffd-\uffff{_PLANE_ENDS}]")
"""Controls, noncharacters, and what stands for a character that was lost."""

_SENTENCE_END: Final = re.compile(r"[。！？]|[.!?…؟۔।][\"'”’»)\]]*(?=\s)")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_.~-]")


def clean(text: str) -> str:
    """`text` as XML and JSON carry it; pairs of surrogates are joined. Twice changes nothing."""
    return _UNSPEAKABLE.sub(" ", clean_text(text))


def pieces(text: str) -> list[str]:
    """`text`, cleaned, in pieces that one `<Say>` takes, cut where a sentence or a word ends.

    White space is single spaces afterwards. A text with nothing to say gives no piece.
    """
    found: list[str] = []
    rest = " ".join(clean(text).split())
    while rest:
        end = _fitting(rest)
        if end < len(rest):
            end = _natural_end(rest, end)
        found.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return found


def _fitting(text: str) -> int:
    """How many characters of `text` one `<Say>` takes; at least one."""
    encoded = 0
    for count, char in enumerate(text[:MOST_CHARS]):
        encoded += 1 if _PLAIN.match(char) else 3 * len(char.encode())
        if encoded > MOST_ENCODED:
            return count
    return min(len(text), MOST_CHARS)


def _natural_end(text: str, limit: int) -> int:
    """Where to cut `text` at or before `limit`: a sentence's end, else a word's, else there."""
    # One more character is looked at: it may be the space after the last sentence.
    ends = [found.end() for found in _SENTENCE_END.finditer(text, 0, limit + 1)]
    fitting = [end for end in ends if end <= limit]
    if fitting:
        return fitting[-1]
    space = text.rfind(" ", 1, limit + 1)
    return limit if space < 0 else space


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
