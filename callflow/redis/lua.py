"""The Lua scripts in `store/lua`: each file's header is its signature, for Python and for Lua.

A script is one transition, named after its file. Whoever runs it gives its KEYS and ARGV by the
names in its header, and the script finds them under these names; nobody counts positions.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from callflow.redis.connection import Command


class Invocation(NamedTuple):
    """One run of one script as the server takes it: see `invoke`."""

    script: str
    keys: tuple[str, ...]
    args: tuple[str | int, ...]


class ScriptReply(NamedTuple):
    """What a script says: a word, and what else there is to know, by name."""

    word: str
    facts: dict[str, Any]


class Script(NamedTuple):
    """One file in `lua/`: its text as it is run, its SHA-1 as EVALSHA wants it, and the names of
    its KEYS and ARGV, from its header (see `prelude.lua`). `rest`: the last, if it is a list."""

    text: str
    sha: str
    keys: tuple[str, ...]
    arguments: tuple[str, ...]
    required: frozenset[str]
    rest: str | None


_COMMON = ("now_ms?", "call_sid?", "moves?")
"""Every script takes these first."""

_NAMED = re.compile(r"-- (KEYS|ARGV|    )  ([a-z_#?*]+(?: [a-z_#?*]+)*)(?:  .*)?")


@cache
def load(script: str) -> Script:
    """Read a script, and make the lines before the prelude from its header: `key` and `a`."""
    folder = resources.files("callflow.store") / "lua"
    body = (folder / f"{script}.lua").read_text(encoding="utf-8")
    named: dict[str, list[str]] = {"KEYS": [], "ARGV": list(_COMMON)}
    section = ""
    for line in body.splitlines():
        found = _NAMED.fullmatch(line)
        if found is None:
            section = section if line.startswith("--     ") else ""
            continue
        section = found[1].strip() or section
        if section:
            named[section] += found[2].split()
    *single, last = named["ARGV"]
    rest = last[:-1] if last.endswith("*") else None
    single += [] if rest else [last]
    values = [_in_lua(name, f"ARGV[{n}]") for n, name in enumerate(single, 1)]
    opening = (
        # As locals they are found faster than as globals.
        "local KEYS, ARGV, redis, string = KEYS, ARGV, redis, string\n"
        f"local key = {{{_table(named['KEYS'], [f'KEYS[{n}]' for n in _count(named['KEYS'])])}}}\n"
        f"local a = {{{_table([name.strip('#?') for name in single], values)}}}\n"
    )
    if rest:
        opening += f"a.{rest} = {{}} "
        opening += f"for i = {len(single) + 1}, #ARGV do a.{rest}[#a.{rest} + 1] = ARGV[i] end\n"
    text = opening + _needed((folder / "prelude.lua").read_text(encoding="utf-8"), body)
    sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    arguments = tuple(name.strip("#?") for name in single[len(_COMMON) :])
    required = frozenset(name.strip("#?") for name in single if not name.endswith("?"))
    return Script(text, sha, tuple(named["KEYS"]), arguments, required, rest)


def _needed(prelude: str, body: str) -> str:
    """`body` behind those functions of the prelude that it uses: each costs time in each run."""
    text = body
    for part in reversed(prelude.split("\n\n")):
        function = re.search(r"^local function (\w+)", part, re.MULTILINE)
        if function is None or re.search(rf"\b{function[1]}\(", text):
            text = f"{part}\n\n{text}"
    return text


def _count(names: Sequence[str]) -> range:
    return range(1, len(names) + 1)


def _table(names: Sequence[str], values: Sequence[str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in zip(names, values, strict=True))


def _in_lua(name: str, value: str) -> str:
    if "#" in name:
        return f"tonumber({value})"
    return f"{value} ~= '' and {value} or nil" if name.endswith("?") else value


def invoke(
    script: str,
    keys: Mapping[str, str],
    *,
    now_ms: int | None = None,
    call_sid: str = "",
    moves: str = "",
    **given: str | int | bool | Sequence[str | int] | None,
) -> Invocation:
    """One run of `script` with these arguments, each by the name in its header; None and False are
    as if not given. `keys` may have more than it names. Raises TypeError where one that it needs is
    missing, or one that it does not know is given."""
    known = load(script)
    args: list[Any] = ["" if now_ms is None else now_ms, call_sid, moves]
    for name in known.arguments:
        value = given.pop(name, None)
        if value is None or value is False:
            if name in known.required:
                raise TypeError(f"{script}.lua needs {name}")
            value = ""
        args.append(1 if value is True else value)
    if known.rest:
        args.extend(given.pop(known.rest))  # type: ignore[arg-type]
    if given:
        raise TypeError(f"{script}.lua does not know {', '.join(given)}")
    return Invocation(script, tuple([keys[name] for name in known.keys]), tuple(args))


def reply(answer: Any) -> ScriptReply:
    """What a script has answered."""
    return ScriptReply(answer[0], dict(zip(answer[1::2], answer[2::2], strict=True)))


def command(one: Invocation, *, in_full: bool = False) -> Command:
    """One run as a command: by the script's SHA-1, or `in_full` to a server that does not know it
    yet."""
    known = load(one.script)
    name = ("EVAL", known.text) if in_full else ("EVALSHA", known.sha)
    return (*name, len(one.keys), *one.keys, *one.args), {}
