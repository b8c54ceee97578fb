"""What a provider says of somebody: found, fetched and checked. Needs `callflow[oidc]`.

Sources: OpenID Connect Discovery 1.0, 4.3 (the issuer must be the one that was asked for);
OpenID Connect Core 1.0, 3.1.3.7 (what an ID token must be).
"""

from __future__ import annotations

import asyncio
import time
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

from callflow.access.oidc import NotVouched
from callflow.settings.people import LOOPBACK

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


class Discovered:
    """One provider: where its pages are, and which keys it signs with."""

    def __init__(
        self, issuer: str, client_id: str, secret: str | None, scopes: str, back: str
    ) -> None:
        self._issuer = issuer
        self._client_id = client_id
        self._secret = secret
        self._scopes = scopes
        self._back = back
        self._one_asks = asyncio.Lock()
        self._metadata: dict[str, Any] = {}
        self._keys: KeySet | None = None
        self._asked_at = self._keys_at = float("-inf")

    async def sign_in_url(self, state: str, nonce: str, verifier: str) -> str:
        """The provider's page for one sign-in. Raises NotVouched when it cannot be asked."""
        metadata = await self._known()
        async with self._client() as client:
            url, _ = client.create_authorization_url(
                metadata["authorization_endpoint"],
                state=state,
                nonce=nonce,
                code_verifier=verifier,
            )
        return str(url)

    async def claims(self, code: str, nonce: str, verifier: str) -> dict[str, Any]:
        """What the provider says of the person to whom it gave `code`. Raises NotVouched."""
        metadata = await self._known()
        try:
            async with self._client() as client:
                answer = await client.fetch_token(
                    metadata["token_endpoint"], code=code, code_verifier=verifier
                )
        except (OAuthError, OAuth2Error, ValueError) as error:
            raise NotVouched("not_vouched", f"the code was refused: {error}") from error
        except httpx2.HTTPError as error:
            raise NotVouched("provider", f"no answer to the code: {error!r}") from error
        if not isinstance(answer.get("id_token"), str):
            raise NotVouched("not_vouched", "the provider sent no ID token")
        try:
            return await self._checked(answer, nonce)
        except (JoseError, ValueError) as error:
            raise NotVouched("not_vouched", f"the ID token is not valid: {error}") from error

    async def _checked(self, answer: dict[str, Any], nonce: str) -> dict[str, Any]:
        registry = JWSRegistry(algorithms=list(ALGORITHMS), strict_check_header=False)
        try:
            token = jwt.decode(answer["id_token"], await self._signing(), registry=registry)
        except InvalidKeyIdError:
            token = jwt.decode(
                answer["id_token"], await self._signing(again=True), registry=registry
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
            redirect_uri=self._back,
            code_challenge_method="S256",
            timeout=TIMEOUT_S,
        )

    async def _known(self) -> dict[str, Any]:
        async with self._one_asks:
            if time.monotonic() - self._asked_at > FRESH_S:
                found = await self._get(
                    f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
                )
                if found.get("issuer") != self._issuer:
                    raise NotVouched("provider", "the provider calls itself by another name")
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                    self._refuse_unsafe(found.get(name))
                self._metadata, self._asked_at = found, time.monotonic()
            return self._metadata

    async def _signing(self, *, again: bool = False) -> KeySet:
        metadata = await self._known()
        async with self._one_asks:
            age_s = time.monotonic() - self._keys_at
            if self._keys is None or age_s > FRESH_S or (again and age_s > KEYS_AGAIN_S):
                found = await self._get(metadata["jwks_uri"])
                try:
                    self._keys = KeySet.import_key_set(found)  # type: ignore[arg-type]
                except (AttributeError, KeyError, TypeError) as error:
                    raise NotVouched("provider", f"no set of keys (RFC 7517): {error!r}") from error
                self._keys_at = time.monotonic()
            return self._keys

    def _refuse_unsafe(self, url: object) -> None:
        """An endpoint that is asked by plain http hands the code to whoever listens in."""
        parts = urlsplit(str(url))
        near = urlsplit(self._issuer).hostname in LOOPBACK and parts.hostname in LOOPBACK
        if parts.scheme != "https" and not near:
            raise NotVouched("provider", "one of the provider's addresses is not https")

    async def _get(self, url: str) -> dict[str, Any]:
        try:
            async with httpx2.AsyncClient(timeout=TIMEOUT_S) as client:
                answer = await client.get(url)
            answer.raise_for_status()
            found = answer.json()
        except (httpx2.HTTPError, ValueError) as error:
            raise NotVouched("provider", f"no answer at {url}: {error!r}") from error
        if not isinstance(found, dict):
            raise NotVouched("provider", f"no JSON object at {url}")
        return found
