"""Builds what a process needs, once per process, from its settings.

A forked pool child builds its own: threads do not survive a fork, and two processes on one
connection would read each other's answers.
"""

from __future__ import annotations

import os
from functools import cache

import callflow.settings
from callflow.errors import SettingsError
from callflow.heartbeat import Heartbeat, worker_name
from callflow.intake import Intake
from callflow.responder.echo import EchoResponder
from callflow.responder.paced import PacedResponder
from callflow.responder.protocol import Responder
from callflow.responder.scripted import ScriptedResponder
from callflow.ringing import Ringing
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.sop.classifier import LexicalClassifier
from callflow.sop.library import SopLibrary
from callflow.sop.retriever import LexicalRetriever
from callflow.store.calls import CallStore
from callflow.store.journal import Journal
from callflow.store.leases import Leases
from callflow.store.presence import Presence
from callflow.store.script import Client, Scripts, connect
from callflow.store.snapshot import Snapshots
from callflow.turn import Turns
from callflow.twilio.rest import Telephone
from callflow.watchdog import Watchdog


@cache
def settings() -> Settings:
    """The environment as it was when it was first asked for."""
    return callflow.settings.load()


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
def store() -> CallStore:
    """Every transition of a call."""
    return CallStore(Scripts(client()), settings().timing)


@cache
def leases() -> Leases:
    """The watchdog's eyes."""
    return Leases(Scripts(client()), settings().timing)


@cache
def snapshots() -> Snapshots:
    """Whole records."""
    return Snapshots(client())


@cache
def journal() -> Journal:
    """What happened to calls."""
    return Journal(client())


@cache
def intake() -> Intake:
    """For a process that meets callers."""
    return Intake(store())


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
def ringing() -> Ringing:
    """For a process that rings humans."""
    return Ringing(store().handovers, sites(), telephone(), settings().public_url)


@cache
def watchdog() -> Watchdog:
    """For a process that sweeps."""
    return Watchdog(store(), leases())


@cache
def library() -> SopLibrary:
    """The procedures. Raises SopError for one that cannot be used.

    Forked children share their parent's: a document that is damaged later must not keep a worker
    that is replaced from starting.
    """
    return SopLibrary.load(settings().sop_dir)


@cache
def turns(node: str) -> Turns:
    """For a process that runs turns; `node` is the name of its Celery worker."""
    name = worker_name(node)
    script = ScriptedResponder()
    return Turns(
        store=store(),
        heartbeat=Heartbeat(store(), Presence(client(), name), name),
        classifier=LexicalClassifier(library()),
        retriever=LexicalRetriever(library()),
        responder=_responder(script),
        script=script,
    )


def _responder(script: ScriptedResponder) -> Responder:
    spoken: Responder = EchoResponder() if settings().responder == "echo" else script
    return PacedResponder(spoken, settings().pace_s) if settings().pace_s else spoken


def forget() -> None:
    """Build everything anew when it is next asked for: after a fork, or for another server."""
    for built in (
        *(settings, client, store, leases, snapshots, journal, intake, watchdog, turns),
        *(sites, telephone, ringing),
    ):
        built.cache_clear()


os.register_at_fork(after_in_child=forget)
