"""The company's accounts: OpenID Connect's code flow, with PKCE, state and nonce.

What must be remembered between going there and coming back is derived from the browser's own
token, so that no process and no store keeps it, and nobody else's browser can come back with it.
Sources: OpenID Connect Core 1.0, 3.1; RFC 7636 (PKCE); RFC 9207 (the issuer in the answer).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from callflow.access import tokens
from callflow.access.person import Holder, Person
from callflow.access.reach import Reach
from callflow.call.role import Role
from callflow.errors import CallflowError, SettingsError
from callflow.i18n.words import chosen
from callflow.settings import Settings
from callflow.settings.people import roles_by_claim

if TYPE_CHECKING:
    from callflow.access.id_token import Discovered

WITHIN_S = 600
"""How long somebody may take at the provider."""

NAME_LENGTH = 64

_E164 = re.compile(r"\+[1-9]\d{6,14}", re.ASCII)


class NotVouched(CallflowError):
    """Nobody is let in for this answer. `word` is what the page says, `by` whom it is about, if
    that is known; the reason is for the log."""

    def __init__(self, word: str, reason: str = "", by: str = "") -> None:
        self.word = word
        self.by = by
        super().__init__(f"nobody was let in by OpenID Connect: {reason or word}")


def provider(settings: Settings, reach: Reach) -> Provider | None:
    """The provider that is configured; None where there is none.

    Raises SettingsError when `callflow[oidc]` is not installed.
    """
    if settings.oidc_issuer is None:
        return None
    try:
        from callflow.access import id_token
    except ModuleNotFoundError as error:
        raise SettingsError(
            "CALLFLOW_OIDC_ISSUER",
            f"set, but {error.name} is not installed: pip install 'callflow[oidc]'",
        ) from error
    secret = settings.oidc_client_secret
    discovered = id_token.Discovered(
        settings.oidc_issuer,
        str(settings.oidc_client_id),
        None if secret is None else secret.get_secret_value(),
        settings.oidc_scopes,
        f"{reach.url}/board/sign-in/oidc/back",
    )
    return Provider(settings, discovered)


class Provider:
    """Sends people to the provider, and says who they are when they are back."""

    def __init__(self, settings: Settings, discovered: Discovered) -> None:
        self._settings = settings
        self._discovered = discovered
        self._roles = roles_by_claim(settings.oidc_roles)

    async def leads_to(self, before: str, there: str) -> str:
        """The provider's page for the browser with the token `before`, who then wants to go to
        `there`. Raises NotVouched when the provider cannot be asked."""
        state = _state(before, there, time.time())
        return await self._discovered.sign_in_url(
            state, _derived(before, "nonce", state), _derived(before, "verifier", state)
        )

    def opened(self, state: str, before: str) -> str:
        """Where the browser with this state wants to go. Raises NotVouched for a state that is not
        of this browser, or too old."""
        body, dot, mark = state.partition(".")
        if not before or not dot or not tokens.same(mark, _derived(before, "state", body)):
            raise NotVouched("begin_again", "the state is not of this browser")
        said = json.loads(base64.urlsafe_b64decode(body))
        if not 0 <= time.time() - said["at"] <= WITHIN_S:
            raise NotVouched("begin_again", "the state is too old")
        return str(said["next"])

    async def vouched(self, answer: Mapping[str, str], before: str) -> Holder:
        """Who has come back with this answer. Raises NotVouched."""
        state = answer.get("state", "")
        if answer.get("iss", self._settings.oidc_issuer) != self._settings.oidc_issuer:
            raise NotVouched("not_vouched", "the answer is another issuer's")
        code = answer.get("code")
        if not code or "error" in answer:
            raise NotVouched("not_vouched", "the provider sent no code")
        claims = await self._discovered.claims(
            code, _derived(before, "nonce", state), _derived(before, "verifier", state)
        )
        return self._holder(claims)

    def _holder(self, claims: Mapping[str, Any]) -> Holder:
        subject = str(claims["sub"])
        called = str(claims.get(self._settings.oidc_name_claim) or subject)
        name = "".join(char for char in called if char.isprintable())[:NAME_LENGTH]
        role = Role.highest(
            {
                self._roles[value]
                for value in _values(claims, self._settings.oidc_role_claim)
                if value in self._roles
            }
        )
        if role is None:
            raise NotVouched("no_role", "none of their roles is mapped", by=name)
        telephone = re.sub(r"[ ()./-]", "", str(claims.get("phone_number") or ""))
        language = chosen(str(claims.get("locale", "")))
        person = Person(name, role, telephone if _E164.fullmatch(telephone) else None, language)
        return Holder(person, "oidc", subject)


def _state(before: str, there: str, now_s: float) -> str:
    """A state that the browser with the token `before` alone can come back with."""
    said = json.dumps({"at": now_s, "next": there, "one": tokens.fresh()[:22]})
    body = base64.urlsafe_b64encode(said.encode()).decode()
    return f"{body}.{_derived(before, 'state', body)}"


def _derived(before: str, what: str, state: str) -> str:
    """43 characters that nobody knows without the browser's token, others for each use."""
    digest = hmac.new(before.encode(), f"{what} {state}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _values(claims: Mapping[str, Any], path: str) -> list[str]:
    """The words of a claim: named as it stands, or with dots that lead into it."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return [value for value in listed if isinstance(value, str)]
