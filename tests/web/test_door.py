"""Who is let in: what the carrier has signed, over our public address, with one of our tokens."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from twilio.request_validator import RequestValidator

from callflow.errors import SettingsError
from callflow.settings import Settings, load
from callflow.sites.directory import Sites
from callflow.web.app import check_settings, create
from callflow.web.webhook import MAX_BODY_BYTES
from tests.exchange import PUBLIC, TOKEN, Exchange, Line, open_exchange
from tests.parts import SID, Parts


def test_nothing_is_touched_by_a_request_that_nobody_signed(exchange: Exchange, line: Line) -> None:
    before = exchange.parts.client.dbsize()
    forged = line.post("/voice/inbound", None, {"X-Twilio-Signature": "AAAA"})
    assert forged.status == 403
    assert exchange.parts.client.dbsize() == before


def test_a_signature_of_the_wrong_kind_is_none(line: Line) -> None:
    for headers in (
        {"X-Twilio-Signature": ""},
        {"X-Twilio-Webhooks-Signature-Settings": "key=x,algorithm=HMAC_MD5"},
        {"X-Twilio-Webhooks-Signature-Settings": "algorithm=HMAC_SHA256"},
    ):
        assert line.post("/voice/inbound", None, headers).status == 403, headers


def test_a_signed_request_for_another_turn_is_forged(exchange: Exchange, line: Line) -> None:
    form = {"CallSid": SID, "SpeechResult": "hello"}
    signature = RequestValidator(TOKEN).compute_signature(f"{PUBLIC}/voice/turn?n=1", form)
    sent = httpx.post(
        f"http://127.0.0.1:{exchange.port}/voice/turn?n=2",
        data=form,
        headers={"X-Twilio-Signature": signature},
    )
    assert sent.status_code == 403


def test_both_tokens_open_the_door_while_one_is_changed(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    second = "second-test-token"
    with open_exchange(
        parts, redis_url, tmp_path, twilio_auth_token_2=SecretStr(second)
    ) as exchange:
        line = exchange.line()
        assert line.arrives().status == 200
        line.token = second
        assert line.arrives().status == 200
        line.token = "third"
        assert line.arrives().status == 403


def test_the_newer_scheme_is_believed_with_its_key(
    parts: Parts, redis_url: str, tmp_path: Path
) -> None:
    key = "shared-key-of-the-test"
    with open_exchange(parts, redis_url, tmp_path, twilio_shared_key=SecretStr(key)) as exchange:
        form = {"CallSid": SID, "To": "", "From": "anonymous"}
        url = f"{PUBLIC}/voice/inbound"
        sent = httpx.post(
            f"http://127.0.0.1:{exchange.port}/voice/inbound",
            data=form,
            headers={
                "X-Twilio-Signature": RequestValidator(key).compute_signature(
                    url, form, "HMAC_SHA256"
                ),
                "X-Twilio-Webhooks-Signature-Settings": "key=k1,algorithm=HMAC_SHA256",
            },
        )
        assert sent.status_code == 200


def test_webhooks_are_posted(exchange: Exchange) -> None:
    url = f"http://127.0.0.1:{exchange.port}/voice/inbound"
    for method in ("GET", "PUT", "DELETE", "PATCH"):
        assert httpx.request(method, url).status_code == 405, method


def test_a_body_that_no_webhook_has_is_refused_before_it_is_read(exchange: Exchange) -> None:
    url = f"http://127.0.0.1:{exchange.port}/voice/inbound"
    assert httpx.post(url, content=b"a" * (MAX_BODY_BYTES + 1)).status_code == 413
    assert httpx.post(url, content="&".join(["a=1"] * 501)).status_code == 400


def _settings(**given: str) -> Settings:
    return load({f"CALLFLOW_{name.upper()}": value for name, value in given.items()})


def test_unsigned_requests_are_believed_on_loopback_only(tmp_path: Path) -> None:
    settings = _settings(unsigned="1", public_url=PUBLIC, sites=str(tmp_path / "sites.yaml"))
    for host in ("127.0.0.1", "::1", "localhost"):
        check_settings(settings, host)
    for host in ("0.0.0.0", "::", "192.168.1.5", "voice.example.org"):
        with pytest.raises(SettingsError, match="CALLFLOW_UNSIGNED"):
            check_settings(settings, host)


def test_a_process_that_could_not_answer_calls_does_not_start() -> None:
    needed = {"twilio_auth_token": "t", "public_url": PUBLIC, "sites": "sites.yaml"}
    for missing in needed:
        given = {name: value for name, value in needed.items() if name != missing}
        with pytest.raises(SettingsError, match=f"CALLFLOW_{missing.upper()}"):
            check_settings(_settings(**given), "127.0.0.1")


def test_the_app_is_not_made_without_a_server(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="CALLFLOW_REDIS_URL"):
        create(_settings(public_url=PUBLIC), Sites(()), None)


def test_a_public_address_that_is_none_is_refused() -> None:
    for url in ("voice.example.org", "ftp://x.example", "https://", "https://x.example/?a=1"):
        with pytest.raises(SettingsError, match="CALLFLOW_PUBLIC_URL"):
            _settings(public_url=url)


def test_no_secret_is_shown_by_the_settings() -> None:
    settings = _settings(twilio_auth_token="very-hidden", twilio_shared_key="as-hidden")
    assert "hidden" not in f"{settings!r} {settings}"
