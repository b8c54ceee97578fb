"""The header of each Lua file is its contract: every name in it is used, and no other one."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

import pytest

from callflow.call.state import CallState
from callflow.redis.scripts import invoke, load
from callflow.store.archive_queue import Settled
from callflow.store.keys import call_keys
from callflow.store.result import Result
from tests.parts import SID

FOLDER = resources.files("callflow.store") / "lua"
FILES = {file.name.removesuffix(".lua"): file.read_text() for file in FOLDER.iterdir()}
PRELUDE = FILES.pop("prelude")


def code(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def test_scripts_use_what_their_headers_name_and_nothing_else() -> None:
    assert len(FILES) > 30
    for name, text in FILES.items():
        script = load(name)
        named = {*script.arguments, *([script.rest] if script.rest else [])}
        _, whole = script.text.split("\n-- Stands before every script", 1)
        used = set(re.findall(r"\ba\.(\w+)", code(whole)))
        assert named <= used, f"{name}: not used"
        assert set(re.findall(r"\ba\.(\w+)", code(text))) - {"call_sid", "moves"} <= named, name
        keys = set(re.findall(r"\bkey\.(\w+)", code(whole)))
        assert keys == set(script.keys), f"{name}: {keys ^ set(script.keys)}"
        assert "KEYS[" not in code(text), name
        assert "ARGV[" not in code(text), name


def test_scripts_say_words_of_one_vocabulary_and_name_no_state() -> None:
    for name, text in FILES.items():
        words = set(re.findall(r"\bsay\('(\w+)'", text))
        known = {*Settled} if name == "settle_archived" else {*Result}
        assert words <= {str(word) for word in known}, name
        assert not set(re.findall(r"'\"?(\w+)\"?'", code(text))) & {str(one) for one in CallState}


def test_an_argument_that_is_missing_or_unknown_is_a_mistake_of_the_caller() -> None:
    keys = call_keys(SID).by_name
    given: dict[str, Any] = {"event": "remarked", "reason": "again", "line": "1"}
    whole = invoke("add_journal_line", keys, **given, now_ms=7)
    assert whole.keys == (call_keys(SID).call, call_keys(SID).journal)
    assert whole.args == (7, "", "", "remarked", "again", "1")
    with pytest.raises(TypeError, match="needs line"):
        invoke("add_journal_line", keys, event="remarked", reason="again")
    with pytest.raises(TypeError, match="does not know lines"):
        invoke("add_journal_line", keys, **given, lines="1")
    with pytest.raises(TypeError, match="needs turn"):
        invoke("admit_loss", keys, told=0)
