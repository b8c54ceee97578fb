"""Whatever is to be said reaches Twilio whole, in lengths that it takes, cut between sentences."""

from __future__ import annotations

import unicodedata
from urllib.parse import quote

from hypothesis import example, given
from hypothesis import strategies as st

from callflow.twilio.speech import clean, pieces

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
