"""Compares language tags such as `en-GB`, `es_MX` or `cmn-Hans-CN` by the language alone."""

from __future__ import annotations


def primary_language(tag: str) -> str:
    """The language of a tag in lower case, without script and region: `es-MX` gives `es`.

    Carriers name spoken Mandarin and Cantonese by codes of their own, `cmn` and `yue`; both read
    the same text, so both give `zh`.
    """
    primary = tag.replace("_", "-").partition("-")[0].strip().lower()
    return "zh" if primary in ("cmn", "yue") else primary


def same_language(one: str, other: str) -> bool:
    """True for two tags of one language, whatever their regions."""
    return primary_language(one) == primary_language(other)
