"""The words of the pages: whole in each language, and chosen as people want them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from callflow.board.told import refused, unreachable
from callflow.call.acts import TooMuch
from callflow.call.disposition import Disposition
from callflow.call.facts import CALLER_FACTS, DANGERS, HUMAN_FACTS, OWN_FACTS, VULNERABLE
from callflow.call.urgency import MEANINGS
from callflow.call.words import Word
from callflow.errors import CallEnded
from callflow.i18n.journal_words import JOURNAL
from callflow.i18n.page_words import PAGES
from callflow.i18n.scenario_words import SCENARIOS
from callflow.i18n.words import catalogue, chosen

BOARD = Path(__file__).parents[2] / "callflow" / "board"
STORE = Path(__file__).parents[2] / "callflow" / "store"
EVERY = {**PAGES, **JOURNAL, **SCENARIOS}


@pytest.mark.parametrize("name", EVERY)
def test_each_name_has_words_in_both_languages_with_the_same_gaps(name: str) -> None:
    english, chinese = EVERY[name]
    assert english
    assert chinese
    assert set(re.findall(r"{\w+}", english)) == set(re.findall(r"{\w+}", chinese))


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
    assert named <= EVERY.keys()


def test_every_procedure_that_comes_with_callflow_has_a_short_name() -> None:
    procedures = BOARD.parent / "sop" / "sops"
    ids = {path.stem for path in procedures.glob("*.md") if "." not in path.stem}
    assert {f"scenario.{one}" for one in ids - {"_common"}} <= SCENARIOS.keys()


def test_every_event_that_the_scripts_write_has_words() -> None:
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in STORE.rglob("*.lua"))
    events = set(re.findall(r"journal\([\w\[\]]+, now, '(\w+)'", scripts))
    assert {"claimed", "committed", "heard", "ended"} <= events
    assert {f"journal.{event}" for event in events} <= JOURNAL.keys()


def test_templates_and_scripts_name_nothing_that_has_no_words() -> None:
    files = [*BOARD.rglob("*.html"), *BOARD.rglob("*.js"), *BOARD.glob("*.py")]
    named = set()
    for path in files:
        text = path.read_text(encoding="utf-8")
        named |= set(re.findall(r"""\bw\(\s*["'`]([a-z_]+\.[\w.]+)["'`]""", text))
    assert len(named) > 100
    assert named <= EVERY.keys()


def test_what_was_not_done_is_said_to_be_so_once() -> None:
    for answer in (refused(TooMuch("CA1", "notes", 200)), refused(CallEnded("CA1", "urge"))):
        told = json.loads(bytes(answer.body))["told"]
        assert catalogue("en")("act.failed", why=told).count("Not done") == 1
    told = json.loads(bytes(unreachable().body))["told"]
    assert "Not done" not in catalogue("en")("act.failed", why=told)


def test_a_name_that_nobody_has_given_words_is_itself() -> None:
    assert catalogue("en")("scenario.our_own_procedure") == "our own procedure"
    assert catalogue("zh")("page.board") == "通话"
    assert catalogue("tlh")("page.board") == "Calls"


@pytest.mark.parametrize(
    ("wishes", "accepts", "language"),
    [
        (("zh", "en"), "", "zh"),
        ((None, "zh-CN"), "en", "zh"),
        (("xx", None), "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ((), "fr,en;q=0.3,zh;q=0.7", "zh"),
        ((), "zh;q=0, en;q=0.1", "en"),
        ((), "zh;q=much", "en"),
        ((), "", "en"),
    ],
)
def test_the_language_is_that_which_somebody_wants(
    wishes: tuple[str | None, ...], accepts: str, language: str
) -> None:
    assert chosen(*wishes, accepts=accepts) == language
