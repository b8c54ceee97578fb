"""Builds what a process needs, once per process, from its settings.

A forked pool child builds its own: threads do not survive a fork, and two processes on one
connection would read each other's answers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from callflow import archive
from callflow import settings as settings_module
from callflow.archive import Archivist
from callflow.call.record import CallRecord
from callflow.errors import SettingsError
from callflow.handover import Ringing
from callflow.heartbeat import Drain, Heartbeat, worker_name
from callflow.intake import Intake
from callflow.procedures.library import Reloader, SopLibrary
from callflow.redis.client import Client, connect
from callflow.redis.scripts import Replicas, Scripts
from callflow.responder import Responder
from callflow.responder.guard import Guard
from callflow.responder.model import Model, ModelUnusable, PromptError, Prompts
from callflow.responder.model_providers import model
from callflow.responder.model_responder import ModelResponder
from callflow.responder.scripted import ScriptedResponder
from callflow.responder.synthetic import CountedResponder, EchoResponder, PacedResponder
from callflow.retrieval.engine import Engine, Retrieval, best_installed, build_engine
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.store.breaker import Breakers
from callflow.store.calls import CallStore
from callflow.store.leases import Leases
from callflow.store.presence import Presence
from callflow.store.reader import CallReader
from callflow.turn import Turns
from callflow.twilio.rest import Telephone
from callflow.understand import Understanding
from callflow.watchdog import Watchdog


@cache
def settings() -> Settings:
    """The environment as it was when it was first asked for."""
    return settings_module.load()


@cache
def client() -> Client:
    """This process's connections to the server that holds the calls."""
    url = settings().redis_url
    if url is None:
        raise SettingsError(
            "CALLFLOW_REDIS_URL",
            "not set, and no local stack is running here: start one with `callflow up`, or name "
            "the server that holds the calls (redis://… or rediss://…)",
        )
    return connect(url)


@cache
def sites() -> Sites:
    """The lifts and whom to ring for them; none where no file is named. Raises SitesError."""
    path = settings().sites
    return Sites(()) if path is None else Sites.load(path)


@cache
def telephone() -> Telephone | None:
    """The carrier's REST API; None where its credentials are not set."""
    known = settings()
    if known.twilio_account_sid is None or known.twilio_auth_token is None:
        return None
    return Telephone(
        known.twilio_account_sid, known.twilio_auth_token.get_secret_value(), known.twilio_api_url
    )


@cache
def store() -> CallStore:
    """Every transition of a call."""
    return _store(patience_s=0.0)


def _store(patience_s: float) -> CallStore:
    known = settings()
    scripts = Scripts(client(), replicas=Replicas(*known.replicas), patience_s=patience_s)
    return CallStore(scripts, known.timing, known.thread_most_entries, known.archiving)


@cache
def leases() -> Leases:
    """Reads leases and presence, for a watchdog."""
    return Leases(Scripts(client()), settings().timing)


@cache
def reader() -> CallReader:
    """Reads records and journals."""
    return CallReader(client())


@cache
def intake() -> Intake:
    """Stores what callers say."""
    return Intake(store())


@cache
def ringing() -> Ringing:
    """Rings humans."""
    return Ringing(store().handovers, sites(), telephone(), settings().public_url)


@cache
def watchdog() -> Watchdog:
    """Sweeps."""
    return Watchdog(store(), leases())


@cache
def archivist() -> Archivist | None:
    """For a process that keeps records for good; None where they do not last."""
    known = settings()
    if known.keeping is None:
        return None
    models = {"model": known.model, "model_2": known.model_2}
    return archive.archivist(client(), known.timing, known.keeping, models)


@cache
def library() -> SopLibrary:
    """The procedures. Raises SopError for one that cannot be used.

    Forked children share their parent's: a document that is damaged later must not keep a worker
    that is replaced from starting.
    """
    return SopLibrary.load(settings().sop_dir)


def retrieval() -> Retrieval:
    """How procedures are found here: as it is set, else the best that is installed."""
    return settings().retrieval or best_installed()


def index_dir() -> Path:
    """Where this machine keeps what it has built of the procedures: as it is set, else where its
    user's caches are, so that all workers find it wherever they are started."""
    given = settings().index_dir
    if given is not None:
        return given
    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(caches) / "callflow" / "index"


@cache
def procedures() -> Reloader[Engine]:
    """The procedures and what finds them, as the operator's folder has them at any time.

    Built in the parent, so that the children of one machine share it. Raises SopError,
    EncoderMissing and IndexFolderUnusable.
    """
    how, folder = retrieval(), index_dir()

    def build(found: SopLibrary) -> Engine:
        if how == "semantic" and found is not first:
            _index_elsewhere()
        return build_engine(found, how, folder)

    first = library()
    return Reloader(settings().sop_dir, first, build)


def _index_elsewhere() -> None:
    """Build the index in a process of its own, with what the machine has to spare: in this one a
    caller is being answered. Another worker that does the same waits, and finds it built."""
    niced = ["nice", "-n", "15"] if shutil.which("nice") else []
    subprocess.run(
        [*niced, sys.executable, "-m", "callflow", "sop", "index", "--json"],
        stdout=subprocess.DEVNULL,
        # Where it fails the engine is built here, and says why that cannot be done.
        check=False,
    )


def prepare() -> None:
    """Build what children of a fork can share. Raises SopError, SettingsError and the like."""
    Understanding(procedures().current)
    if models():
        prompts(), guard()


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
        spoken = _model_responder(script)
    return PacedResponder(spoken, settings().pace_s) if settings().pace_s else spoken


def _model_responder(script: ScriptedResponder) -> Responder:
    return ModelResponder(
        models(),
        script,
        _broken_rule,
        Breakers(Scripts(client())),
        first_token_s=settings().model_first_token_s,
        reply_s=settings().model_reply_s,
        prompts=prompts(),
        lift=_describe_lift,
    )


def _broken_rule(sentence: str, record: CallRecord) -> str | None:
    """The rule that keeps a sentence from being spoken in this call; None where it may be."""
    return guard().check_in_call(sentence, record)


def _describe_lift(record: CallRecord) -> str:
    site = None if record.site is None else sites().get(record.site)
    return "" if site is None else f"{site.lift}, {site.address}"


@cache
def drain() -> Drain:
    """Whether this worker is to end. Asked for in the parent first: its children share it."""
    return Drain(settings().drain_s)


@cache
def turns(node: str) -> Turns:
    """For a process that runs turns; `node` is the name of its Celery worker."""
    name = worker_name(node)
    script = ScriptedResponder()
    return Turns(
        # A turn that has begun outlives a failover: what it writes waits for the new primary.
        store=_store(patience_s=settings().turn_deadline_s),
        heartbeat=Heartbeat(store(), Presence(client(), name), name, drain()),
        understanding=Understanding(procedures().current),
        responder=responder(script),
        script=script,
    )


def forget() -> None:
    """Build everything anew when it is next asked for: after a fork, or for another server."""
    of_calls = (store, leases, reader, intake, watchdog, turns, ringing, archivist)
    for built in (settings, client, sites, telephone, *of_calls):
        built.cache_clear()


os.register_at_fork(after_in_child=forget)
