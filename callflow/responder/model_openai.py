"""Models behind OpenAI's chat completions: OpenAI's own and every server that speaks the same.

Importing this imports the client library, which takes more than a second: `model()` does it once,
in the parent before it forks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any, Final

import httpx2
import openai

from callflow.responder.model import Failure, Model, ModelError, ModelUnusable
from callflow.responder.model_line import Lines, as_failure, certificates, place, read
from callflow.responder.prompt import Prompt

MOST_TOKENS: Final = 300
"""A reply and its notes take about 120; a model that rambles is cut off long before."""

_DRAIN_S: Final = 0.2
_FINISHED: Final[dict[str, Failure]] = {"length": "cut", "content_filter": "refused"}


class OpenAIModel:
    """Implements `Model`."""

    def __init__(self, model_name: str, url: str | None, key: str | None) -> None:
        """Opens no socket. Raises OpenAIError where a key is needed and there is none."""
        self.name = f"openai:{model_name}{place(url)}"
        self._model_name = model_name
        # Many servers know the older name of this limit only, OpenAI's newer models only the newer.
        self._older = openai.omit if url is None else MOST_TOKENS
        self._newer = MOST_TOKENS if url is None else openai.omit
        self._lines = Lines(self.name, partial(_client, url, key))
        # All that the first request needs is imported and read now, for all children.
        certificates()
        _ = _client(url, key, None).chat.completions

    @property
    def busy(self) -> int:
        """Requests whose threads have not ended yet in this process."""
        return self._lines.busy

    def stream(
        self, prompt: Prompt, timeout_s: float, stop: Event, *, first_s: float | None = None
    ) -> Iterator[str]:
        """See `Model`."""
        first_s = timeout_s if first_s is None else first_s
        ask = partial(self._ask, prompt, first_s, timeout_s)
        return read(self._lines, ask, first_s=first_s, timeout_s=timeout_s, stop=stop)

    def _ask(
        self, prompt: Prompt, first_s: float, timeout_s: float, client: openai.OpenAI
    ) -> Iterator[str | None]:
        stream: Any = None
        try:
            stream = client.chat.completions.create(
                model=self._model_name,
                messages=[
                    {"role": "system", "content": prompt.system},
                    {"role": "user", "content": prompt.turn},
                ],
                stream=True,
                timeout=httpx2.Timeout(first_s, read=timeout_s),
                max_tokens=self._older,
                max_completion_tokens=self._newer,
            )
            yield from self._deltas(stream)
        except Exception as error:
            raise as_failure(self.name, openai, error, stream is not None) from error
        finally:
            if stream is not None:
                stream.close()

    def _deltas(self, stream: Any) -> Iterator[str | None]:
        begun = False
        for chunk in stream:
            begun = True
            for choice in chunk.choices[:1]:
                if choice.delta.content:
                    yield choice.delta.content
                if choice.delta.refusal:
                    raise ModelError(self.name, "refused", "the model declines")
                if choice.finish_reason:
                    if failure := _FINISHED.get(choice.finish_reason):
                        raise ModelError(self.name, failure, choice.finish_reason)
                    yield None
                    _drain(stream.response)
                    return
        raise ModelError(self.name, "cut" if begun else "nonsense", "ended without a reason to end")


def build(kind: str, model_name: str, url: str | None, key: str | None) -> Model:
    """Return the model; see `callflow.responder.model.model`."""
    try:
        return OpenAIModel(model_name, url, key)
    except openai.OpenAIError as error:
        raise ModelUnusable(f"{kind}:{model_name}", "its endpoint needs a key: set one") from error


def _client(url: str | None, key: str | None, http: httpx2.Client | None) -> openai.OpenAI:
    if key is None and url is not None:
        key = "none"  # A server of one's own seldom asks; the library insists on some word.
    return openai.OpenAI(api_key=key, base_url=url, max_retries=0, http_client=http)


def _drain(response: httpx2.Response) -> None:
    """Read what little stands behind the reply: only then can the connection be used again."""
    until = time.monotonic() + _DRAIN_S
    with suppress(httpx2.TransportError, httpx2.StreamError):
        for _ in response.stream:  # type: ignore[union-attr]
            if time.monotonic() > until:
                return
