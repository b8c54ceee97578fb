"""Passwords: what one must be like, and how a hash of it is made and compared."""

from __future__ import annotations

import unicodedata
from functools import cache
from secrets import token_urlsafe

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError, VerifyMismatchError

from callflow.errors import CallflowError

LEAST_LENGTH = 15
"""NIST SP 800-63B-4, 3.1.1.2, for passwords that are the only factor. No rules of composition and
no expiry, as there."""

MOST_LENGTH = 256

_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1, type=Type.ID)
"""The smallest of the OWASP Password Storage Cheat Sheet: 19 MiB and two rounds. A web process
answers callers as well, and what a sign-in takes is taken from them."""


class BadPassword(CallflowError):
    """A password that is not accepted; it was stored nowhere."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"the password {reason}; a few words in a row make a good one")


def refuse_bad(password: str, name: str) -> None:
    """Raises BadPassword for one that somebody called `name` should not have."""
    length = len(_normal(password))
    if length < LEAST_LENGTH:
        raise BadPassword(f"has {length} characters, and at least {LEAST_LENGTH} are needed")
    if length > MOST_LENGTH:
        raise BadPassword(f"has {length} characters, and at most {MOST_LENGTH} are taken")
    if len(set(password)) < 5:
        raise BadPassword("repeats a few characters")
    if name.casefold() in password.casefold() and length - len(name) < LEAST_LENGTH:
        raise BadPassword("is little more than the name")


def hashed(password: str) -> str:
    """The argon2id hash of a password, with its salt and its cost. Takes about 20 ms."""
    return _HASHER.hash(_normal(password))


def matches(password: str, known: str | None) -> bool:
    """Whether `password` is the one of the hash `known`.

    For nobody's (None) it takes as long as for somebody's and is False: how long an answer takes
    must not tell which names exist. Raises BadHash for what is no hash.
    """
    given = _normal(password)
    if len(given) > MOST_LENGTH:
        given, known = given[:MOST_LENGTH], None
    try:
        # A hash is computed either way, and one that nobody has matches nothing.
        return _HASHER.verify(known or _nobodys(), given) and known is not None
    except VerifyMismatchError:
        return False
    except (VerificationError, InvalidHashError) as error:
        raise BadHash from error


class BadHash(CallflowError):
    """What stands in the file of users in place of a hash cannot be one."""

    def __init__(self) -> None:
        super().__init__(
            "a password's hash in the file of users is damaged: set it anew with "
            "`callflow users password NAME`"
        )


def _normal(password: str) -> str:
    """The same letters typed on different keyboards are the same password."""
    return unicodedata.normalize("NFC", password)


@cache
def _nobodys() -> str:
    return hashed(token_urlsafe(32))
