"""Models at their makers' endpoints: OpenAI's chat completions and whatever speaks the same,
Anthropic's messages, and Anthropic's models on AWS Bedrock.

A client library is imported when its first model is named, which takes more than a second: once,
in the parent before it forks. A worker without a model pays for none.
"""

from __future__ import annotations

import importlib.util
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from threading import Event
from typing import Any, Final

from callflow.responder.model import Failure, Model, ModelError, ModelPrompt, ModelUnusable

MOST_TOKENS: Final = 300
"""A reply and its notes take about 120; a model that rambles is cut off long before."""

_DRAIN_S: Final = 0.2
_OPENAI_ENDS: Final[dict[str, Failure]] = {"length": "cut", "content_filter": "refused"}
_ANTHROPIC_ENDS: Final[dict[str, Failure]] = {"max_tokens": "cut", "refusal": "refused"}
_ANTHROPIC_KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")


@cache
def model(spec: str, url: str | None = None, key: str | None = None) -> Model:
    """Return the model that `spec` names: `openai:MODEL`, `anthropic:MODEL` or `bedrock:MODEL`.

    `url` is the endpoint's address where it is not the maker's own; `key` may be left out for a
    server that asks for none. Imports the library of that kind, so call it in the parent before it
    forks; opens no socket. The same arguments give the same model.
    Raises ModelUnusable for an unknown kind, a library that is not installed, a missing key.
    """
    kind, _, model_name = spec.partition(":")
    build = _BUILDERS.get(kind)
    if build is None or not model_name.strip():
        known = ", ".join(f"{each}:MODEL" for each in _BUILDERS)
        raise ModelUnusable(spec, f"write it as one of {known}")
    try:
        return build(model_name.strip(), url, key)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ModelUnusable(
            spec, f"the package {package} is not installed: pip install 'callflow[model]'"
        ) from error


class EndpointModel(ABC):
    """Implements `Model` over a maker's client library, `sdk`; subclasses know its requests."""

    def __init__(
        self, kind: str, model_name: str, url: str | None, key: str | None, sdk: Any
    ) -> None:
        """Opens no socket; what the first request needs is imported and read now, for all
        children."""
        from callflow.responder import model_stream

        self.name = f"{kind}:{model_name}{model_stream.endpoint(url)}"
        self._model_name = model_name
        # `key` "none": a server of one's own seldom asks; the libraries insist on some word.
        needs_word = key is None and url is not None and kind != "bedrock"
        self._account = {"api_key": "none" if needs_word else key, "base_url": url}
        self._sdk = sdk
        self._pool = model_stream.ConnectionPool(self.name, self._client)
        self._stream = model_stream
        model_stream.certificates()

    @property
    def busy(self) -> int:
        """Requests whose threads have not ended yet in this process."""
        return self._pool.busy

    def stream(
        self, prompt: ModelPrompt, timeout_s: float, stop: Event, *, first_s: float | None = None
    ) -> Iterator[str]:
        """See `Model`."""
        first_s = timeout_s if first_s is None else first_s
        ask = partial(self._ask, prompt, self._stream.read_timeout(first_s, timeout_s))
        return self._stream.stream_reply(
            self._pool, ask, first_s=first_s, timeout_s=timeout_s, stop=stop
        )

    def _ask(self, prompt: ModelPrompt, timeout: Any, client: Any) -> Iterator[str | None]:
        answer: Any = None
        try:
            answer = self._request(client, prompt, timeout)
            yield from self._deltas(answer)
        except Exception as error:
            raise self._stream.as_model_error(
                self.name, self._sdk, error, answer is not None
            ) from error
        finally:
            if answer is not None:
                answer.close()

    @abstractmethod
    def _client(self, http: Any) -> Any:
        """A client of the library on an httpx2 client; None: on one of its own."""

    @abstractmethod
    def _request(self, client: Any, prompt: ModelPrompt, timeout: Any) -> Any:
        """Begin a streamed answer."""

    @abstractmethod
    def _deltas(self, answer: Any) -> Iterator[str | None]:
        """Yield the text as it comes, and None once the reply is whole. Raises ModelError."""

    def _end(self, failure: Failure | None, reason: str) -> None:
        if failure is not None:
            raise ModelError(self.name, failure, reason)

    def _broke_off(self, begun: bool) -> ModelError:
        return ModelError(
            self.name, "cut" if begun else "nonsense", "ended without a reason to end"
        )


class OpenAIModel(EndpointModel):
    """OpenAI's own models, and every server that speaks the same."""

    def __init__(self, model_name: str, url: str | None, key: str | None) -> None:
        """Raises ModelUnusable where a key is needed and there is none."""
        import openai

        super().__init__("openai", model_name, url, key, openai)
        # Many servers know the older name of this limit only, OpenAI's newer models only the newer.
        self._older = openai.omit if url is None else MOST_TOKENS
        self._newer = MOST_TOKENS if url is None else openai.omit
        try:
            _ = self._client(None).chat.completions
        except openai.OpenAIError as error:
            spec = f"openai:{model_name}"
            raise ModelUnusable(spec, "its endpoint needs a key: set one") from error

    def _client(self, http: Any) -> Any:
        return self._sdk.OpenAI(**self._account, max_retries=0, http_client=http)

    def _request(self, client: Any, prompt: ModelPrompt, timeout: Any) -> Any:
        return client.chat.completions.create(
            model=self._model_name,
            messages=[
                {"role": "system", "content": prompt.system},
                {"role": "user", "content": prompt.turn},
            ],
            stream=True,
            timeout=timeout,
            max_tokens=self._older,
            max_completion_tokens=self._newer,
        )

    def _deltas(self, answer: Any) -> Iterator[str | None]:
        begun = False
        for chunk in answer:
            begun = True
            for choice in chunk.choices[:1]:
                if choice.delta.content:
                    yield choice.delta.content
                if choice.delta.refusal:
                    raise ModelError(self.name, "refused", "the model declines")
                if choice.finish_reason:
                    self._end(_OPENAI_ENDS.get(choice.finish_reason), choice.finish_reason)
                    yield None
                    self._drain(answer.response)
                    return
        raise self._broke_off(begun)

    def _drain(self, response: Any) -> None:
        """Read what little stands behind the reply: only then can the connection be used again."""
        until = time.monotonic() + _DRAIN_S
        with suppress(*self._stream.READ_ERRORS):
            for _ in response.stream:
                if time.monotonic() > until:
                    return


class AnthropicModel(EndpointModel):
    """Anthropic's models; `bedrock` speaks to AWS, with the keys and the region of its tools."""

    def __init__(
        self, model_name: str, url: str | None, key: str | None, *, bedrock: bool = False
    ) -> None:
        """Raises ModelUnusable where keys are needed and there are none."""
        import anthropic

        kind = "bedrock" if bedrock else "anthropic"
        spec = f"{kind}:{model_name}"
        self._bedrock = bedrock
        if bedrock and importlib.util.find_spec("boto3") is None:
            raise ModelUnusable(
                spec, "the package boto3 is not installed: pip install 'anthropic[bedrock]'"
            )
        keyless = key is None and url is None and not bedrock
        if keyless and not any(os.environ.get(name) for name in _ANTHROPIC_KEYS):
            raise ModelUnusable(spec, "its endpoint needs a key: set one")
        super().__init__(kind, model_name, url, key, anthropic)
        try:
            _ = self._client(None).messages
        except (anthropic.AnthropicError, ValueError) as error:
            if not bedrock:
                raise
            raise ModelUnusable(spec, "AWS credentials or AWS_REGION are not set") from error

    def _client(self, http: Any) -> Any:
        maker = self._sdk.AnthropicBedrock if self._bedrock else self._sdk.Anthropic
        return maker(**self._account, max_retries=0, http_client=http)

    def _request(self, client: Any, prompt: ModelPrompt, timeout: Any) -> Any:
        return client.messages.create(
            model=self._model_name,
            max_tokens=MOST_TOKENS,
            system=prompt.system,
            messages=[{"role": "user", "content": prompt.turn}],
            stream=True,
            timeout=timeout,
        )

    def _deltas(self, answer: Any) -> Iterator[str | None]:
        begun = whole = False
        for event in answer:
            begun = True
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield event.delta.text
            elif event.type == "message_delta":
                reason = event.delta.stop_reason
                self._end(_ANTHROPIC_ENDS.get(reason or ""), str(reason))
            elif event.type == "message_stop":
                whole = True
                yield None
        if not whole:
            raise self._broke_off(begun)


_BUILDERS: Final[dict[str, Callable[[str, str | None, str | None], Model]]] = {
    "openai": OpenAIModel,
    "anthropic": AnthropicModel,
    "bedrock": partial(AnthropicModel, bedrock=True),
}
