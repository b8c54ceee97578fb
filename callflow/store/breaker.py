"""A circuit breaker for each model, shared by all workers through the server.

A dead model costs a worker its deadline once; then all of them leave it alone for a while, and one
of them tries again. All raise StoreUnavailable when the server cannot be reached.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal
from urllib.parse import quote

from callflow.redis.scripts import Scripts, invoke
from callflow.store.keys import PREFIX
from callflow.store.result import Result

_What = Literal["ask", "succeeded", "failed", "barred"]


@dataclass(frozen=True, slots=True)
class Pauses:
    """When a breaker opens and for how long."""

    failures: int = 2
    """So many in a row open it, whichever workers they happened to."""
    first_ms: int = 10_000
    longest_ms: int = 60_000
    """The pause doubles with every probe that fails, up to this."""
    probe_ms: int = 10_000
    """A probe that has not reported for so long is given up, and another worker tries."""
    remembered_ms: int = 600_000
    """After so long without a word the failures before count no more."""


class Breakers:
    """The breakers of one deployment; `attempt` names one request to a model, unique for ever."""

    def __init__(self, scripts: Scripts, pauses: Pauses | None = None) -> None:
        self._scripts = scripts
        self._pauses = pauses or Pauses()

    def may_ask(self, model: str, attempt: str, *, now_ms: int | None = None) -> bool:
        """Whether this attempt may go ahead. Asked twice for one attempt, the answer is the same.

        While a model is being left alone, one attempt at a time may try it once its pause is over.
        """
        return self._run("ask", model, attempt, now_ms) is not Result.OPEN

    def succeeded(self, model: str, attempt: str, *, now_ms: int | None = None) -> None:
        """It answered: everybody may ask it again."""
        self._run("succeeded", model, attempt, now_ms)

    def failed(
        self, model: str, attempt: str, *, barred: bool = False, now_ms: int | None = None
    ) -> bool:
        """It did not answer; returns whether it is left alone from now on.

        `barred`: asking again is no use (a wrong key), so once is enough. Reported twice for one
        attempt, it counts once.
        """
        return self._run("barred" if barred else "failed", model, attempt, now_ms) is Result.OPEN

    def _run(self, what: _What, model: str, attempt: str, now_ms: int | None) -> Result:
        reply = self._scripts.run(
            invoke(
                "breaker",
                {"breaker": f"{PREFIX}:breaker:{quote(model, safe=':@')}"},
                what=what,
                attempt=attempt,
                now_ms=now_ms,
                **asdict(self._pauses),
            )
        )
        return Result(reply.word)
