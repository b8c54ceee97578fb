"""Signs people in by OpenID Connect: the code flow with PKCE, state and nonce.

What must be remembered meanwhile is derived from the browser's own token, so nothing is kept, and
nobody else's browser can come back with it.
Needs `callflow[oidc]`. Sources: OpenID Connect Core 1.0, 3.1 (3.1.3.7: what an ID token must be);
OpenID Connect Discovery 1.0, 4.3 (the issuer must be the one that was asked for); RFC 7636 (PKCE);
RFC 9207 (the issuer in the answer).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from authlib.oauth2.base import OAuth2Error
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import InvalidKeyIdError, JoseError
from joserfc.jwk import KeySet
from joserfc.jws import JWSRegistry

from callflow.access.auth import SignInRefused
from callflow.access.sessions import BoardUser, SessionUser, new_token, same_secret
from callflow.call.role import Role, roles_by_claim
from callflow.i18n import choose_language
from callflow.settings import LOOPBACK, Settings

WITHIN_S = 600
"""How long somebody may take at the provider."""

NAME_LENGTH = 64

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures by a key that the provider alone has: none of them can be made by somebody who knows
the client's secret or the provider's public key (CVE-2015-9235)."""

TIMEOUT_S = 5.0

FRESH_S = 3_600.0
"""After so long the provider is asked anew what it is like."""

KEYS_AGAIN_S = 30.0
"""A key that is not known may be new; so often it is looked."""

LEEWAY_S = 60
"""By how much two clocks may differ."""

_E164 = re.compile(r"\+[1-9]\d{6,14}", re.ASCII)


class OidcSignIn:
    """Sends people to the provider, and says who they are when they are back.

    `token` is the browser's own, from its cookie.
    """

    def __init__(self, settings: Settings, board_url: str) -> None:
        self._settings = settings
        self._provider = OidcProvider(settings, f"{board_url}/board/sign-in/oidc/back")
        self._roles = roles_by_claim(settings.oidc_roles)

    async def start(self, token: str, next_page: str) -> str:
        """The provider's address for this browser, who then wants to go to `next_page`. Raises
        SignInRefused when the provider cannot be asked."""
        state = _make_state(token, next_page, time.time())
        return await self._provider.sign_in_url(
            state, _derive(token, "nonce", state), _derive(token, "verifier", state)
        )

    def check_state(self, state: str, token: str) -> str:
        """Where the browser with this state wants to go. Raises SignInRefused for a state that is
        not of this browser, or too old."""
        body, dot, mark = state.partition(".")
        if not token or not dot or not same_secret(mark, _derive(token, "state", body)):
            raise SignInRefused("begin_again", "the state is not of this browser")
        fields = json.loads(base64.urlsafe_b64decode(body))
        if not 0 <= time.time() - fields["at"] <= WITHIN_S:
            raise SignInRefused("begin_again", "the state is too old")
        return str(fields["next"])

    async def finish(self, answer: Mapping[str, str], token: str) -> SessionUser:
        """Who has come back with this answer. Raises SignInRefused."""
        state = answer.get("state", "")
        if answer.get("iss", self._settings.oidc_issuer) != self._settings.oidc_issuer:
            raise SignInRefused("not_vouched", "the answer is another issuer's")
        code = answer.get("code")
        if not code or "error" in answer:
            raise SignInRefused("not_vouched", "the provider sent no code")
        claims = await self._provider.fetch_claims(
            code, _derive(token, "nonce", state), _derive(token, "verifier", state)
        )
        return self._session_user(claims)

    def _session_user(self, claims: Mapping[str, Any]) -> SessionUser:
        subject = str(claims["sub"])
        called = str(claims.get(self._settings.oidc_name_claim) or subject)
        name = "".join(char for char in called if char.isprintable())[:NAME_LENGTH]
        role = Role.highest(
            {
                self._roles[value]
                for value in _claim_values(claims, self._settings.oidc_role_claim)
                if value in self._roles
            }
        )
        if role is None:
            raise SignInRefused("no_role", "none of their roles is mapped", by=name)
        telephone = re.sub(r"[ ()./-]", "", str(claims.get("phone_number") or ""))
        language = choose_language(str(claims.get("locale", "")))
        person = BoardUser(name, role, telephone if _E164.fullmatch(telephone) else None, language)
        return SessionUser(person, "oidc", subject)


def _make_state(token: str, next_page: str, now_s: float) -> str:
    """A state that the browser with this token alone can come back with."""
    fields = json.dumps({"at": now_s, "next": next_page, "one": new_token()[:22]})
    body = base64.urlsafe_b64encode(fields.encode()).decode()
    return f"{body}.{_derive(token, 'state', body)}"


def _derive(token: str, what: str, state: str) -> str:
    """43 characters that nobody knows without the browser's token, others for each use."""
    digest = hmac.new(token.encode(), f"{what} {state}".encode(), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _claim_values(claims: Mapping[str, Any], path: str) -> list[str]:
    """The words of a claim: named as it stands, or with dots that lead into it."""
    found: Any = claims.get(path)
    if found is None:
        found = claims
        for part in path.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
    listed = found if isinstance(found, list) else [found]
    return [value for value in listed if isinstance(value, str)]


class OidcProvider:
    """One provider: where its pages are, which keys it signs with, what it says of somebody."""

    def __init__(self, settings: Settings, redirect_uri: str) -> None:
        secret = settings.oidc_client_secret
        self._issuer = str(settings.oidc_issuer)
        self._client_id = str(settings.oidc_client_id)
        self._secret = None if secret is None else secret.get_secret_value()
        self._scopes = settings.oidc_scopes
        self._redirect_uri = redirect_uri
        self._lock = asyncio.Lock()
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._asked_at = self._keys_at = float("-inf")

    async def sign_in_url(self, state: str, nonce: str, verifier: str) -> str:
        """The provider's page for one sign-in. Raises SignInRefused when it cannot be asked."""
        metadata = await self._discover()
        async with self._client() as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"],
                state=state,
                nonce=nonce,
                code_verifier=verifier,
            )
        return str(url)

    async def fetch_claims(self, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says of the person to whom it gave `code`. Raises SignInRefused."""
        metadata = await self._discover()
        try:
            async with self._client() as client:
                answer = await client.fetch_token(
                    metadata["token_endpoint"], code=code, code_verifier=verifier
                )
        except (OAuthError, OAuth2Error, ValueError) as error:
            raise SignInRefused("not_vouched", f"the code was refused: {error}") from error
        except httpx2.HTTPError as error:
            raise SignInRefused("provider", f"no answer to the code: {error!r}") from error
        if not isinstance(answer.get("id_token"), str):
            raise SignInRefused("not_vouched", "the provider sent no ID token")
        try:
            return await self._verify(answer, nonce)
        except (JoseError, ValueError) as error:
            raise SignInRefused("not_vouched", f"the ID token is not valid: {error}") from error

    async def _verify(self, answer: dict[str, Any], nonce: str) -> dict[str, Any]:
        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        try:
            token = jwt.decode(answer["id_token"], await self._signing_keys(), registry=registry)
        except InvalidKeyIdError:
            token = jwt.decode(
                answer["id_token"], await self._signing_keys(again=True), registry=registry
            )
        claims = CodeIDToken(
            token.claims,
            token.header,
            {
                "iss": {"essential": True, "value": self._issuer},
                "aud": {"essential": True, "value": self._client_id},
            },
            {
                "nonce": nonce,
                "client_id": self._client_id,
                "access_token": answer.get("access_token"),
            },
        )
        claims.validate(leeway=LEEWAY_S)
        return dict(claims)

    def _client(self) -> Any:
        return AsyncOAuth2Client(
            self._client_id,
            self._secret,
            token_endpoint_auth_method="client_secret_basic" if self._secret else "none",
            scope=self._scopes,
            redirect_uri=self._redirect_uri,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )

    async def _discover(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._asked_at > FRESH_S:
                found = await self._get_json(
                    f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
                )
                if found.get("issuer") != self._issuer:
                    raise SignInRefused("provider", "the provider calls itself by another name")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    self._refuse_unsafe(found.get(name))
                self._metadata, self._asked_at = found, time.monotonic()
            return self._metadata

    async def _signing_keys(self, *, again: bool = False) -> KeySet:
        metadata = await self._discover()
        async with self._lock:
            age_s = time.monotonic() - self._keys_at
            if self._keys is None or age_s > FRESH_S or (again and age_s > KEYS_AGAIN_S):
                found = await self._get_json(metadata["jwks_uri"])
                try:
                    self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
                except (AttributeError, KeyError, TypeError) as error:
                    raise SignInRefused(
                        "provider", f"no set of keys (RFC 7517): {error!r}"
                    ) from error
                self._keys_at = time.monotonic()
            return self._keys

    def _refuse_unsafe(self, url: object) -> None:
        """An endpoint that is asked by plain http hands the code to whoever listens in."""
        parts = urlsplit(str(url))
        near = urlsplit(self._issuer).hostname in LOOPBACK and parts.hostname in LOOPBACK
        if parts.scheme != "https" and not near:
            raise SignInRefused("provider", "one of the provider's addresses is not https")

    async def _get_json(self, url: str) -> dict[str, Any]:
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
                answer = await client.get(url)
            answer.raise_for_status()
            found = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise SignInRefused("provider", f"no answer at {url}: {error!r}") from error
        if not isinstance(found, dict):
            raise SignInRefused("provider", f"no JSON object at {url}")
        return found
