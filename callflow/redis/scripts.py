"""Runs the Lua scripts: one at a time, many in one round trip, or one on each shard.

A script in `store/lua` is one transition, named after its file. The file's header is its signature,
for Python and for Lua: whoever runs it gives its KEYS and ARGV by the names in the header, and the
script finds them under these names; nobody counts positions.

Clients retry, so a script may run twice for one request; every one of them is safe to run twice.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError

from callflow.errors import StoreError, StoreReadOnly, StoreUnavailable
from callflow.redis.client import Client, address, translated
from callflow.redis.cluster import SETTLE_MANY_S, Cluster
from callflow.redis.connection import Command, ThreadConnection


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


PAUSE_S = 0.1
"""Between two tries of somebody who is patient: a failover takes seconds."""


class Replicas(NamedTuple):
    """How many replicas must have what is to be acknowledged, and how long they are waited for."""

    least: int = 0
    wait_ms: int = 300


NO_REPLICAS = Replicas()


class Scripts:
    """Runs scripts through one client; threads may share it, forked children may inherit it.

    `replicas`: who must have what `run_assured` writes. `patience_s`: for so long a script is tried
    again while the server is gone; nothing else is, since what is asked for many calls at once is
    asked again by itself.
    """

    def __init__(
        self, client: Client, *, replicas: Replicas = NO_REPLICAS, patience_s: float = 0.0
    ) -> None:
        self.client = client
        self.where = address(client)
        self.replicas = replicas
        self._patience_s = patience_s
        self._exchange: Callable[[Sequence[Command]], list[Any]] = (
            client.exchange
            if isinstance(client, Cluster)
            else ThreadConnection(client.connection_pool).exchange
        )

    def run(self, asked: Invocation) -> ScriptReply:
        """Run one script in one round trip (two when the server does not know it yet)."""
        return reply(self._patiently(asked, ())[0])

    def run_assured(self, asked: Invocation) -> tuple[ScriptReply, bool]:
        """The same, and whether enough replicas have what it has written, within `wait_ms`.

        The script must write something, even where it changes nothing (`vouch` in the prelude):
        WAIT asks about the last write of its own connection, and where there was none it answers
        at once, with every replica that is connected.
        """
        least, wait_ms = self.replicas
        if not least:
            return self.run(asked), True
        said, count = self._patiently(asked, ("WAIT", least, wait_ms))
        return reply(said), int(count) >= least

    def _patiently(self, asked: Invocation, then: tuple[Any, ...]) -> list[Any]:
        give_up = time.monotonic() + self._patience_s
        while True:
            try:
                with translated(self.where):
                    return self._once(asked, then)
            except (StoreUnavailable, StoreReadOnly):
                if time.monotonic() + PAUSE_S > give_up:
                    raise
            time.sleep(PAUSE_S)

    def _once(self, asked: Invocation, then: tuple[Any, ...]) -> list[Any]:
        after: list[Command] = [(then, {})] if then else []
        answers = self._exchange([command(asked), *after])
        if isinstance(answers[0], NoScriptError):
            answers = self._exchange([command(asked, in_full=True), *after])
        for answer in answers:
            if isinstance(answer, Exception):
                raise answer
        return answers

    def run_all(self, invocations: Sequence[Invocation]) -> list[ScriptReply]:
        """Run many scripts in one round trip, in order; the results come in the same order."""
        if not invocations:
            return []
        with translated(self.where):
            try:
                return self._pipelined(invocations, in_full=False)
            except NoScriptError:
                # Their text goes with them: loaded by itself, it could go to another server, where
                # a connection of the pool still leads after a failover.
                return self._pipelined(invocations, in_full=True)

    def _pipelined(self, invocations: Sequence[Invocation], *, in_full: bool) -> list[ScriptReply]:
        pipe: Any
        with self.client.pipeline(transaction=False) as pipe:
            for one in invocations:
                words, options = command(one, in_full=in_full)
                pipe.execute_command(*words, **options)
            return [reply(answer) for answer in pipe.execute()]

    def run_on_all_shards(
        self, invocations: Sequence[Invocation]
    ) -> list[ScriptReply | StoreError]:
        """As `run_all`; but what a node of a cluster could not do is a StoreError in its place, and
        stops no other node.

        Raises StoreUnavailable where there is one server, and where no script could be run at all.
        """
        client = self.client
        if not isinstance(client, Cluster):
            return list(self.run_all(invocations))
        with translated(self.where):
            answers = client.exchange([command(one) for one in invocations], settle_s=SETTLE_MANY_S)
            unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            # These alone: other nodes have run theirs, and what a sweep is given it is given once.
            in_full = [command(invocations[n], in_full=True) for n in unknown]
            again = client.exchange(in_full, settle_s=SETTLE_MANY_S) if unknown else []
            for n, answer in zip(unknown, again, strict=True):
                answers[n] = answer
        ours = [self._outcome(answer) for answer in answers]
        failures = [one for one in ours if isinstance(one, StoreError)]
        if failures and len(failures) == len(ours):
            raise failures[0]
        return ours

    def _outcome(self, answer: Any) -> ScriptReply | StoreError:
        if not isinstance(answer, Exception):
            return reply(answer)
        try:
            with translated(self.where):
                raise answer
        except StoreError as error:
            return error
