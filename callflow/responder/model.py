"""The contract of language models: a prompt goes in, text comes out while it is written."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Literal, Protocol

from callflow.errors import CallflowError
from callflow.responder.prompt import ModelPrompt

Failure = Literal["slow", "cut", "refused", "busy", "server", "unreachable", "auth", "nonsense"]


class ModelError(CallflowError):
    """A model did not word a reply. `kind` says why, in one word that goes into the journal:

    slow (first word or whole reply later than its deadline) · cut (broke off) · refused (will not
    answer this) · busy (429) · server (5xx) · unreachable · auth (key, account or model's name) ·
    nonsense (not what was asked for, or not a word).

    `status` is the HTTP status where there was one; `retry_after_s`, when a busy one wants to be
    asked again.
    """

    def __init__(
        self,
        model: str,
        kind: Failure,
        reason: str = "",
        *,
        status: int | None = None,
        retry_after_s: float = 0.0,
    ) -> None:
        self.model = model
        self.kind: Failure = kind
        self.reason = reason
        self.status = status
        self.retry_after_s = retry_after_s
        why = f": {reason}" if reason else ""
        super().__init__(f"the model {model} did not word the reply ({kind}){why}")


class ModelUnusable(CallflowError):
    """A model that cannot be used as it is configured: what to change."""

    def __init__(self, spec: str, reason: str) -> None:
        self.spec = spec
        self.reason = reason
        super().__init__(f"the model {spec!a} cannot be used: {reason}")


class Model(Protocol):
    """One model at one endpoint. Threads may share it; a forked child opens its own sockets."""

    name: str
    """What it is called in the journal and in the breaker; holds no secret."""

    def stream(
        self, prompt: ModelPrompt, timeout_s: float, stop: Event, *, first_s: float | None = None
    ) -> Iterator[str]:
        """Yield the reply as it comes; ends when it is whole, or early when `stop` is set.

        Raises ModelError, "slow" at the latest after `timeout_s`, and after `first_s` when not a
        letter has come. Closing the iterator hangs up on the endpoint.
        """
        ...
