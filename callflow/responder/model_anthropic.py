"""Anthropic's models, at Anthropic's own endpoint or on AWS Bedrock.

Importing this imports the client library, which takes more than a second: `model()` does it once,
in the parent before it forks.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from functools import partial
from threading import Event
from typing import Any, Final

import anthropic
import httpx2

from callflow.responder.model import Failure, Model, ModelError, ModelUnusable
from callflow.responder.model_line import Lines, as_failure, certificates, place, read
from callflow.responder.prompt import Prompt

MOST_TOKENS: Final = 300
"""A reply and its notes take about 120; a model that rambles is cut off long before."""

_FINISHED: Final[dict[str, Failure]] = {"max_tokens": "cut", "refusal": "refused"}
_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


class AnthropicModel:
    """Implements `Model`; `bedrock` speaks to AWS, with the keys and the region of its tools."""

    def __init__(self, model_name: str, url: str | None, key: str | None, bedrock: bool) -> None:
        """Opens no socket."""
        self.name = f"{'bedrock' if bedrock else 'anthropic'}:{model_name}{place(url)}"
        self._model_name = model_name
        client = partial(_bedrock if bedrock else _direct, url, key)
        self._lines = Lines(self.name, client)
        # All that the first request needs is imported and read now, for all children.
        certificates()
        _ = client(None).messages

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
        self,
        prompt: Prompt,
        first_s: float,
        timeout_s: float,
        client: anthropic.Anthropic | anthropic.AnthropicBedrock,
    ) -> Iterator[str | None]:
        stream: Any = None
        try:
            stream = client.messages.create(
                model=self._model_name,
                max_tokens=MOST_TOKENS,
                system=prompt.system,
                messages=[{"role": "user", "content": prompt.turn}],
                stream=True,
                timeout=httpx2.Timeout(first_s, read=timeout_s),
            )
            yield from self._deltas(stream)
        except Exception as error:
            raise as_failure(self.name, anthropic, error, stream is not None) from error
        finally:
            if stream is not None:
                stream.close()

    def _deltas(self, stream: Any) -> Iterator[str | None]:
        begun = whole = False
        for event in stream:
            begun = True
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield event.delta.text
            elif event.type == "message_delta":
                reason = event.delta.stop_reason
                if failure := _FINISHED.get(reason or ""):
                    raise ModelError(self.name, failure, str(reason))
            elif event.type == "message_stop":
                whole = True
                yield None
        if not whole:
            raise ModelError(
                self.name, "cut" if begun else "nonsense", "ended without a reason to end"
            )


def build(kind: str, model_name: str, url: str | None, key: str | None) -> Model:
    """Return the model; see `callflow.responder.model.model`."""
    spec = f"{kind}:{model_name}"
    if kind == "bedrock":
        if importlib.util.find_spec("boto3") is None:
            raise ModelUnusable(
                spec, "the package boto3 is not installed: pip install 'anthropic[bedrock]'"
            )
        try:
            _bedrock(url, key, None)
        except (anthropic.AnthropicError, ValueError) as error:
            raise ModelUnusable(spec, "AWS credentials or AWS_REGION are not set") from error
    elif key is None and url is None and not any(os.environ.get(name) for name in _KEYS):
        raise ModelUnusable(spec, "its endpoint needs a key: set one")
    return AnthropicModel(model_name, url, key, kind == "bedrock")


def _direct(url: str | None, key: str | None, http: httpx2.Client | None) -> anthropic.Anthropic:
    if key is None and url is not None:
        key = "none"  # A server of one's own seldom asks; the library insists on some word.
    return anthropic.Anthropic(api_key=key, base_url=url, max_retries=0, http_client=http)


def _bedrock(
    url: str | None, key: str | None, http: httpx2.Client | None
) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(api_key=key, base_url=url, max_retries=0, http_client=http)
