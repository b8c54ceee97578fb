"""The words of the pages: whole in each language, and chosen as people want them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from callflow import i18n
from callflow.board.actions import refusal, store_unreachable
from callflow.board.rows import HOUR_MS, counted_since
from callflow.call.edits import Disposition, TooMuch
from callflow.call.facts import CALLER_FACTS, DANGERS, HUMAN_FACTS, OWN_FACTS, VULNERABLE
from callflow.call.record import Word
from callflow.call.urgency import MEANINGS
from callflow.errors import CallEnded
from callflow.i18n import catalogue, choose_language, load_words

BOARD = Path(__file__).parents[2] / "callflow" / "board"
STORE = Path(__file__).parents[2] / "callflow" / "store"
WORDS = load_words()["en"]


def test_each_name_has_words_in_every_language() -> None:
    """With the same placeholders: `load_words` raises where languages differ."""
    missing = [
        (tag, name)
        for tag, words in load_words().items()
        for name, text in words.items()
        if not text
    ]
    assert missing == []
    assert len(WORDS) > 300


def test_languages_that_differ_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    told = {
        "en": {"page.a": "{count} more", "page.b": "b"},
        "zh": {"page.a": "{number}", "page.b": "b"},
    }
    monkeypatch.setattr(i18n, "_load", told.__getitem__)
    with pytest.raises(ValueError, match=r"zh.yaml and en.yaml differ in \['page.a'\]"):
        load_words.__wrapped__()


def test_whatever_a_page_may_name_has_words() -> None:
    named = {
        *(f"state.{str(word).replace(' ', '_')}" for word in Word),
        *(f"urgency.{level}" for level in (*MEANINGS, "none")),
        *(f"flag.{flag}" for flag in (*DANGERS, *VULNERABLE, "injured", "trapped")),
        *(f"fact.{fact}" for fact in (*CALLER_FACTS, *HUMAN_FACTS, *OWN_FACTS)),
        *(f"outcome.{one}" for one in Disposition),
        *(f"ladder.{one}" for one in ("due", "ringing", "accepted", "nobody")),
        *(f"timer.{one}" for one in ("acknowledge", "silence", "welfare", "soon", "over")),
        *(f"lamp.{one}" for one in ("ok", "understudy", "bad", "unknown")),
        *(f"section.{one}" for one in ("ask", "say", "never", "escalate")),
    }
    assert named <= WORDS.keys()


def test_every_procedure_that_comes_with_callflow_has_a_short_name() -> None:
    procedures = BOARD.parent / "procedures" / "sops"
    ids = {path.stem for path in procedures.glob("*.md") if "." not in path.stem}
    assert len(ids) > 20
    assert {f"scenario.{one}" for one in ids - {"_common"}} <= WORDS.keys()


def test_every_event_that_the_scripts_write_has_words() -> None:
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in STORE.rglob("*.lua"))
    named = " ".join(re.findall(r"journal\(([^,)]*)", scripts))
    events = set(re.findall(r"'(\w+)'", named))
    assert {"claimed", "committed", "heard", "ended", "withdrawn"} <= events
    assert {f"journal.{event}" for event in events} <= WORDS.keys()


def test_templates_and_scripts_name_nothing_that_has_no_words() -> None:
    files = [*BOARD.rglob("*.html"), *BOARD.rglob("*.js"), *BOARD.glob("*.py")]
    named = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"""\bw\(\s*["'`]([a-z_]+\.[\w.]+)["'`]""", text))
    assert len(named) > 100
    assert named <= WORDS.keys()


def test_what_was_not_done_is_said_to_be_so_once() -> None:
    for answer in (refusal(TooMuch("CA1", "notes", 200)), refusal(CallEnded("CA1", "urge"))):
        told = json.loads(bytes(answer.body))["told"]
        assert catalogue("en")("act.failed", why=told).count("Not done") == 1
    told = json.loads(bytes(store_unreachable().body))["told"]
    assert "Not done" not in catalogue("en")("act.failed", why=told)


def test_a_name_that_nobody_has_given_words_is_itself() -> None:
    assert catalogue("en")("scenario.our_own_procedure") == "our own procedure"
    assert catalogue("zh")("page.board") == "通话"
    assert catalogue("tlh")("page.board") == "Calls"


WISHES: list[tuple[tuple[str | None, ...], str, str]] = [
    (("zh", "en"), "", "zh"),
    ((None, "zh-CN"), "en", "zh"),
    (("xx", None), "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
    ((), "fr,en;q=0.3,zh;q=0.7", "zh"),
    ((), "zh;q=0, en;q=0.1", "en"),
    ((), "zh;q=much", "en"),
    ((), "", "en"),
]


def test_the_language_is_that_which_somebody_wants() -> None:
    for wishes, accepts, language in WISHES:
        assert choose_language(*wishes, accepts=accepts) == language, (wishes, accepts)


AT_MS = 1_700_000_000_000
"""22:13:20 UTC"""


def test_while_less_than_an_hour_is_counted_the_header_says_since_when() -> None:
    for language, told in (("en", "since 22:13"), ("zh", "自 22:13 起")):
        w = catalogue(language)
        for now_ms, shown in ((AT_MS, told), (AT_MS + HOUR_MS - 1, told), (AT_MS + HOUR_MS, "")):
            assert counted_since({"since_ms": AT_MS, "now_ms": now_ms}, w) == shown


def test_before_anything_was_read_nothing_is_counted_since_then() -> None:
    assert counted_since({"now_ms": AT_MS}, catalogue("en")) == ""
