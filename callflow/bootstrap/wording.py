"""Who words the replies, and what stands between a model and the caller."""

from __future__ import annotations

from functools import cache

from callflow.bootstrap.base import client, settings, sites
from callflow.call.facts import known
from callflow.call.record import CallRecord
from callflow.errors import SettingsError
from callflow.redis.scripts import Scripts
from callflow.responder.approved import conditions
from callflow.responder.counted import CountedResponder
from callflow.responder.echo import EchoResponder
from callflow.responder.guard import Guard
from callflow.responder.model import Model, ModelUnusable, model
from callflow.responder.paced import PacedResponder
from callflow.responder.prompt import PromptError, Prompts
from callflow.responder.protocol import Responder
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.worded import ModelResponder
from callflow.store.breaker import Breakers


@cache
def models() -> tuple[Model, ...]:
    """The language models, the first one first; none where none is named.

    Their clients are imported here, in the parent, and open their connections at first use.
    Raises SettingsError.
    """
    named = settings()
    wanted = (
        ("MODEL", named.model, named.model_url, named.model_key),
        ("MODEL_2", named.model_2, named.model_2_url, named.model_2_key),
    )
    found = []
    for variable, spec, url, key in wanted:
        if spec is not None:
            try:
                found.append(model(spec, url, None if key is None else key.get_secret_value()))
            except ModelUnusable as error:
                raise SettingsError(f"CALLFLOW_{variable}", str(error)) from error
    return tuple(found)


@cache
def prompts() -> Prompts:
    """What models are asked with. Raises SettingsError."""
    try:
        return Prompts.load(settings().prompts_dir)
    except PromptError as error:
        raise SettingsError("CALLFLOW_PROMPTS_DIR", str(error)) from error


@cache
def guard() -> Guard:
    """What stands between a model and the caller."""
    return Guard()


def responder(script: ScriptedResponder) -> Responder:
    """Who words replies here: `script`, perhaps behind models, or what stands in for them."""
    spoken: Responder = script
    if settings().responder == "echo":
        spoken = EchoResponder()
    elif settings().responder == "counted":
        spoken = CountedResponder()
    elif models():
        spoken = _worded(script)
    return PacedResponder(spoken, settings().pace_s) if settings().pace_s else spoken


def _worded(script: ScriptedResponder) -> Responder:
    return ModelResponder(
        models(),
        script,
        _forbidden,
        Breakers(Scripts(client())),
        first_token_s=settings().model_first_token_s,
        reply_s=settings().model_reply_s,
        prompts=prompts(),
        lift=_lift,
    )


def _forbidden(sentence: str, record: CallRecord) -> str | None:
    """The rule that keeps a sentence from being spoken in this call; None where it may be."""
    return guard().check(
        sentence, language=record.language, facts=known(record), approved=conditions(record)
    )


def _lift(record: CallRecord) -> str:
    site = None if record.site is None else sites().get(record.site)
    return "" if site is None else f"{site.lift}, {site.address}"
