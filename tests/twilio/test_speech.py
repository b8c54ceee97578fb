"""What is to be said reaches Twilio whole, in lengths and under language tags that it takes."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from callflow.twilio.speech import clean, pieces, say_tag, speech_tag

ANYTHING = st.text(st.characters(exclude_categories=[]))
"""Every plane, with lone surrogates, controls and noncharacters."""

LONG = st.lists(
    ANYTHING
    | st.sampled_from(["Stay inside. ", "请留在电梯里。", "لا تفتح الأبواب؟ ", "🚒👨‍👩‍👧 "]),
    max_size=12,
).map(lambda parts: "".join(parts) * 60)


def speakable(char: str) -> bool:
    """As XML 1.0 and Unicode have it, written down a second time."""
    code = ord(char)
    nonchar = 0xFDD0 <= code <= 0xFDEF or code & 0xFFFE == 0xFFFE
    return not nonchar and unicodedata.category(char) not in ("Cc", "Cs") and char != "\ufffd"


@given(ANYTHING)
def test_cleaning_leaves_all_that_can_be_said_and_nothing_else(text: str) -> None:
    cleaned = clean(text)
    assert all(speakable(char) for char in cleaned)
    whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert cleaned == "".join(char if speakable(char) else " " for char in whole)
    assert clean(cleaned) == cleaned


def test_the_halves_of_a_pair_are_joined() -> None:
    assert clean("\ud83d\ude92 fire") == "🚒 fire"
    assert clean("\ude92\ud83d fire").split() == ["fire"]


@given(LONG)
@example("a" * 9_000)
@example("门" * 2_000)
@example("🚒" * 1_500)
def test_each_piece_is_within_twilios_limits_and_none_is_blank(text: str) -> None:
    for piece in pieces(text):
        assert piece.strip() == piece != ""
        assert len(piece) <= 3_000
        assert len(quote(piece, safe="")) <= 4_500


@given(LONG)
def test_the_pieces_together_are_the_text(text: str) -> None:
    found = pieces(text)
    assert "".join("".join(found).split()) == "".join(clean(text).split())


@given(st.lists(st.text(st.characters(categories=["L"]), min_size=1, max_size=30), max_size=900))
def test_no_word_is_torn(words: list[str]) -> None:
    assert " ".join(pieces(" ".join(words))).split() == words


def test_a_long_text_is_cut_where_sentences_end() -> None:
    for sentence in ("Please stay inside, 3.5 m above.", "请留在电梯里。", "هل أنت بخير؟", "¿Sí?"):
        joint = "" if sentence.endswith("。") else " "
        found = pieces(joint.join([sentence] * 400))
        assert len(found) > 1 or len(sentence) < 10
        assert all(piece.endswith(sentence[-1]) for piece in found)
        assert joint.join(found) == joint.join([sentence] * 400)


def test_nothing_to_say_is_no_piece() -> None:
    assert pieces("") == pieces(" \n\x00\ud800 ") == []


TAGS = (  # As calls name a language, as recognition does, as speech does.
    ("en-GB", "en-GB", "en-GB"),
    ("en", "en-GB", "en-GB"),
    ("en_us", "en-US", "en-US"),
    ("es", "es-ES", "es-ES"),
    ("es-MX", "es-MX", "es-MX"),
    ("es-419", "es-ES", "es-ES"),
    ("zh", "cmn-Hans-CN", "zh-CN"),
    ("zh-CN", "cmn-Hans-CN", "zh-CN"),
    ("zh-Hans", "cmn-Hans-CN", "zh-CN"),
    ("zh-SG", "cmn-Hans-CN", "zh-CN"),
    ("cmn-Hans-CN", "cmn-Hans-CN", "zh-CN"),
    ("zh-TW", "cmn-Hant-TW", "zh-TW"),
    ("zh-Hant", "cmn-Hant-TW", "zh-TW"),
    ("zh-HK", "yue-Hant-HK", "zh-HK"),
    ("yue", "yue-Hant-HK", "zh-HK"),
    ("fr", "fr-FR", "fr-FR"),
    ("pt-BR", "pt-BR", "pt-BR"),
    ("sw-KE", "sw-KE", "sw-KE"),
    (" EN-gb ", "en-GB", "en-GB"),
    ("tlh", "en-GB", "en-GB"),
    ("", "en-GB", "en-GB"),
    ("multi lingual", "en-GB", "en-GB"),
)


def test_each_service_gets_its_own_name_of_a_language() -> None:
    assert [(call, speech_tag(call), say_tag(call)) for call, _, _ in TAGS] == list(TAGS)


@given(st.text())
def test_any_text_gives_a_tag_with_a_region(language: str) -> None:
    for tag in (speech_tag(language), say_tag(language)):
        assert re.fullmatch(r"[a-z]{2,3}(-Han[st])?-[A-Z]{2}", tag)
