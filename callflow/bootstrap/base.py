"""What everything else is built from: the settings, and the lines to the server and the carrier."""

from __future__ import annotations

from functools import cache

import callflow.settings
from callflow.errors import SettingsError
from callflow.redis.client import Client, connect
from callflow.settings import Settings
from callflow.sites.directory import Sites
from callflow.twilio.rest import Telephone


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
