"""Keeps the sessions of board users and counts sign-in attempts, in Redis for all web processes.

A session's token is in the browser's cookie alone. The store has its hash, pages have a CSRF token
that is derived from it, and neither leads back to it. All keys of one user carry one hash tag, so
that one script sees a session and whether its user was signed out everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from typing import Literal

from pydantic import TypeAdapter

from callflow.call.role import Role
from callflow.errors import StoreUnreplicated
from callflow.redis.scripts import ScriptReply, Scripts, invoke
from callflow.store.keys import PREFIX

TOKEN_BYTES = 32

_SESSION_TOKEN = re.compile(r"([0-9a-f]{32})\.[A-Za-z0-9_-]{43}", re.ASCII)
"""Whose it is, by `SessionUser.key`, before what nobody can guess."""


@dataclass(frozen=True, slots=True)
class BoardUser:
    """Somebody at the board. `name` is what the journal calls them.

    `telephone`: where they can be rung for a call, E.164. `language`: of the pages, `en` or `zh`.
    """

    name: str
    role: Role
    telephone: str | None = None
    language: str = "en"


@dataclass(frozen=True, slots=True)
class SessionUser:
    """Whose session it is, as they were when it began.

    `source`: the file of users, or the OpenID Connect provider. `subject` names them there for
    ever. `stamp` changes with a local user's role or password, and ends their sessions.
    """

    person: BoardUser
    source: Literal["local", "oidc"]
    subject: str
    stamp: str = ""

    @property
    def key(self) -> str:
        """Stands for them where their sessions are kept, without their name: 32 hex digits."""
        return hashlib.sha256(f"{self.source}:{self.subject}".encode()).hexdigest()[:32]


_SESSION_USERS = TypeAdapter(SessionUser)


def new_token() -> str:
    """43 random characters of 256 bits."""
    return secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str) -> str:
    """What the store keeps of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def csrf_token(token: str) -> str:
    """What a form must bring along that is sent from a page of the session of `token`."""
    return hmac.new(token.encode(), b"csrf", hashlib.sha256).hexdigest()


def same_secret(one: str, other: str) -> bool:
    """Compare two secrets in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long a session lasts: without a request, and at most."""

    idle_ms: int = 1_800_000
    most_ms: int = 43_200_000


class Sessions:
    """Begins, finds and ends sessions by their tokens. All raise StoreUnavailable when the server
    is gone; what is no token of a session has none."""

    def __init__(self, scripts: Scripts, lifetimes: Lifetimes | None = None) -> None:
        self._scripts = scripts
        self._lifetimes = lifetimes or Lifetimes()

    def begin(self, user: SessionUser, token: str = "", *, now_ms: int | None = None) -> str:
        """Let a token, a new one or one that this user had, stand for the user. Returns it."""
        token = token or f"{user.key}.{new_token()}"
        self._run("begin", token, _SESSION_USERS.dump_json(user).decode(), now_ms)
        return token

    def find(self, token: str, *, now_ms: int | None = None) -> SessionUser | None:
        """The user, and the session counts as used now; None when it has ended or never was."""
        user = self._run("look", token, "", now_ms)
        return None if user is None else _SESSION_USERS.validate_json(user)

    def end(self, token: str, *, assured: bool = True) -> None:
        """End one session; one that has ended stays so. Raises StoreUnreplicated when too few
        replicas know that in time, where that must be `assured`: a failover would bring it back.
        """
        self._run("end", token, assured=assured)

    def end_all(self, token: str) -> None:
        """End every session that this token's user has, wherever it was begun. Raises
        StoreUnreplicated as `end` does."""
        self._run("end_all", token, assured=True)

    def _run(
        self,
        what: Literal["begin", "look", "end", "end_all"],
        token: str,
        user: str = "",
        now_ms: int | None = None,
        *,
        assured: bool = False,
    ) -> str | None:
        """Returns the user whom a script has found."""
        found = _SESSION_TOKEN.fullmatch(token)
        if found is None:
            return None
        base = f"{PREFIX}:{{{found[1]}}}"
        asked = invoke(
            "session",
            {"session": f"{base}:session:{hash_token(token)}", "signed_out": f"{base}:signed-out"},
            what=what,
            holder=user,
            idle_ms=self._lifetimes.idle_ms,
            most_ms=self._lifetimes.most_ms,
            now_ms=now_ms,
        )
        if assured:
            reply, enough = self._scripts.run_assured(asked)
            if not enough:
                raise StoreUnreplicated(self._scripts.where, self._scripts.replicas.least)
        else:
            reply = self._scripts.run(asked)
        holder: str | None = reply.facts.get("holder")
        return holder


@dataclass(frozen=True, slots=True)
class Allowed:
    """How many wrong attempts within `within_ms` of the first of them."""

    tries: int
    within_ms: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Allowed attempts: by address, for a name from one address, for a name from anywhere."""

    address: Allowed = Allowed(30, 300_000)
    """A whole control room comes from one address, and may mistype."""
    pair: Allowed = Allowed(4, 300_000)
    """48 an hour, fewer than a name has: one address alone locks nobody out."""
    name: Allowed = Allowed(50, 3_600_000)
    """Higher, since it locks out whoever the name belongs to: somebody who has many addresses
    gets 1,200 guesses a day. Who is signed in already stays so."""


class SignInAttempts:
    """Counts attempts to sign in, so that nobody guesses passwords.

    An attempt is counted before the password is checked, so that many at once are no way around
    it. Whether a name exists makes no difference. Both methods raise StoreUnavailable.
    """

    def __init__(self, scripts: Scripts, limits: Limits | None = None) -> None:
        self._scripts = scripts
        self._limits = limits or Limits()

    def begin(self, name: str, address: str) -> int:
        """Count an attempt; 0 when it may be made, else the ms after which another one may."""
        wait_ms = self._run(name, address, right=False).facts.get("wait_ms")
        return 0 if wait_ms is None else max(1, wait_ms)

    def forgive(self, name: str, address: str) -> None:
        """Count an attempt no more, since it was right. The wrong ones before it still count:
        whoever has one password must not get more attempts at another."""
        self._run(name, address, right=True)

    def _run(self, name: str, address: str, *, right: bool) -> ScriptReply:
        # No names and addresses in names of keys: who reads those need not know who signs in.
        counted = {"address": address, "pair": f"{address} {name}", "name": name}
        keys = {
            kind: f"{PREFIX}:{{sign-in}}:{kind}:{hashlib.sha256(one.encode()).hexdigest()[:32]}"
            for kind, one in counted.items()
        }
        limits = (self._limits.address, self._limits.pair, self._limits.name)
        allowed = [number for one in limits for number in (one.tries, one.within_ms)]
        return self._scripts.run(invoke("count_sign_in", keys, right=right, allowed=allowed))
