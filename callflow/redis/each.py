"""Runs scripts over all shards so that what one node of a cluster cannot do stops no other node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import NoScriptError

from callflow.errors import StoreError
from callflow.redis.cluster import Cluster
from callflow.redis.link import Asked
from callflow.redis.scripts import Invocation, Scripts, source, translated
from callflow.redis.slots import BRIEFLY_S


def run_each(scripts: Scripts, invocations: Sequence[Invocation]) -> list[Any]:
    """As `Scripts.run_all`; but what a node of a cluster could not do is a StoreError in its place.

    Raises StoreUnavailable where there is one server, and where no script could be run at all.
    """
    client = scripts.client
    if not isinstance(client, Cluster):
        return scripts.run_all(invocations)
    with translated(scripts.where):
        answers = client.ask_all([_asked(one) for one in invocations], settle_s=BRIEFLY_S)
        unknown = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        # These alone: other nodes have run theirs, and what a sweep is given it is given once.
        told = [_asked(invocations[n], in_full=True) for n in unknown]
        for n, answer in zip(unknown, client.ask_all(told, settle_s=BRIEFLY_S), strict=True):
            answers[n] = answer
    ours = [_in_our_words(scripts.where, answer) for answer in answers]
    if ours and all(isinstance(one, StoreError) for one in ours):
        raise ours[0]
    return ours


def _asked(one: Invocation, *, in_full: bool = False) -> Asked:
    """By its name; `in_full` to a node that has not run the script yet."""
    text, sha = source(one.script)
    name = ("EVAL", text) if in_full else ("EVALSHA", sha)
    return (*name, len(one.keys), *one.keys, *one.args), {}


def _in_our_words(where: str, answer: Any) -> Any:
    if not isinstance(answer, Exception):
        return answer
    try:
        with translated(where):
            raise answer
    except StoreError as error:
        return error
