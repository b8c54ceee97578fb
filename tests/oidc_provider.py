"""A small OpenID provider on a real port: it signs its tokens, and wrong ones if asked to."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from joserfc import jwt
from joserfc.jwk import RSAKey

CLIENT, SECRET = "callflow-board", "a-secret-of-the-test"

Claims = dict[str, Any]


@cache
def rsa_key(kid: str) -> RSAKey:
    """A key of this name, made once: that takes a while."""
    return RSAKey.generate_key(2048, {"kid": kid})


@dataclass
class OidcProvider:
    """What it says of whoever signs in, and in which ways it is wrong."""

    url: str
    person: Claims = field(default_factory=lambda: {"sub": "u-1", "preferred_username": "dana"})
    key: RSAKey = field(default_factory=lambda: rsa_key("one"))
    signs_with: Any = None
    """Another key than the one that it shows."""
    algorithm: str = "RS256"
    change: Callable[[Claims], Claims] = dict
    """What becomes of the claims before they are signed."""
    jwks: Claims | None = None
    """Other keys than its own."""
    discovery: Claims = field(default_factory=dict)
    """Over what it truthfully says of itself."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def authorize(self, url: str) -> str:
        """What its page does when somebody signs in there: where they are sent back to."""
        given = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        assert given["response_type"] == "code"
        assert given["client_id"] == CLIENT
        assert given["code_challenge_method"] == "S256"
        code = secrets.token_hex(8)
        self.codes[code] = given
        answer = urlencode({"code": code, "state": given["state"], "iss": self.url})
        return f"{given['redirect_uri']}?{answer}"

    def token(self, form: dict[str, str], authorization: str) -> tuple[int, Claims]:
        """Changes a code for tokens, once, for our client and whoever has the verifier."""
        known = self.codes.pop(form.get("code", ""), None)
        basic = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        verifier = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = _coded(verifier)
        if (
            known is None
            or authorization != f"Basic {basic}"
            or form["redirect_uri"] != known["redirect_uri"]
            or challenge != known["code_challenge"]
        ):
            return 400, {"error": "invalid_grant"}
        now = int(time.time())
        claims = {
            "iss": self.url,
            "aud": CLIENT,
            "iat": now,
            "exp": now + 300,
            "nonce": known["nonce"],
            **self.person,
        }
        signed = self._signed(self.change(claims))
        return 200, {"access_token": "at", "token_type": "Bearer", "id_token": signed}

    def _signed(self, claims: Claims) -> str:
        header = {"alg": self.algorithm, "kid": self.key.kid}
        if self.algorithm == "RS256":
            return jwt.encode(header, claims, self.signs_with or self.key)
        # As somebody signs who knows the public key, and hopes that it is taken for a secret.
        public = self.key.as_pem(private=False)
        said = ".".join(_coded(json.dumps(part).encode()) for part in (header, claims))
        mark = hmac.digest(public, said.encode(), "sha256") if self.algorithm == "HS256" else b""
        return f"{said}.{_coded(mark)}"

    def get(self, path: str) -> Claims:
        if path == "/jwks":
            own = {"keys": [self.key.as_dict(private=False)]}
            return own if self.jwks is None else self.jwks
        assert path == "/.well-known/openid-configuration", path
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            **self.discovery,
        }


def _coded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).decode().rstrip("=")


@contextmanager
def oidc_provider() -> Iterator[OidcProvider]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    provider = OidcProvider(f"http://127.0.0.1:{server.server_port}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.asked.append(self.path)
            self._say(200, provider.get(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = {name: values[0] for name, values in parse_qs(body).items()}
            self._say(*provider.token(form, self.headers.get("Authorization", "")))

        def _say(self, status: int, said: Claims) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *args: object) -> None:
            """Says nothing."""

    server.RequestHandlerClass = Handler
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
