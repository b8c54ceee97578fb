"""The figures above the calls: what they count, and since when."""

from __future__ import annotations

import pytest

from callflow.board.board_reader import HOUR_MS
from callflow.board.cells import counted_since
from callflow.i18n import catalogue

AT_MS = 1_700_000_000_000
"""22:13:20 UTC"""


@pytest.mark.parametrize(("language", "told"), [("en", "since 22:13"), ("zh", "自 22:13 起")])
def test_while_less_than_an_hour_is_counted_the_header_says_since_when(
    language: str, told: str
) -> None:
    w = catalogue(language)
    for now_ms, shown in ((AT_MS, told), (AT_MS + HOUR_MS - 1, told), (AT_MS + HOUR_MS, "")):
        assert counted_since({"since_ms": AT_MS, "now_ms": now_ms}, w) == shown


def test_before_anything_was_read_nothing_is_counted_since_then() -> None:
    assert counted_since({"now_ms": AT_MS}, catalogue("en")) == ""
