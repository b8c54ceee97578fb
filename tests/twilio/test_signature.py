"""Only what Twilio signed, exactly as it signed it, is believed; nothing odd raises."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from itertools import product
from urllib.parse import urlsplit

from hypothesis import assume, given
from hypothesis import strategies as st

from callflow.twilio.urls import signed_url, socket_url
from callflow.web.webhook import SETTINGS_HEADER, SIGNATURE_HEADER, Signatures
from tests.twilio.webhooks import (
    AUTH_TOKEN,
    GENUINE,
    SOCKET_SIGNATURE,
    SOCKET_URL,
    WEBHOOKS,
    Webhook,
)

OURS = Signatures([AUTH_TOKEN])
URL = "https://voice.example.org/voice/turn?n=1"


def signed(
    key: str, url: str, params: Sequence[tuple[str, str]] = (), algorithm: str = "sha1"
) -> str:
    """What Twilio's documentation says a signature is, written down a second time."""
    text = url + "".join(name + value for name, value in sorted(set(params)))
    digest = hmac.new(key.encode(), text.encode(), getattr(hashlib, algorithm)).digest()
    return base64.b64encode(digest).decode()


def announced(signature: str, algorithm: str = "HMAC_SHA256") -> dict[str, str]:
    return {SIGNATURE_HEADER: signature, SETTINGS_HEADER: f"key=WK1,algorithm={algorithm}"}


def test_each_recorded_webhook_is_judged_as_marked() -> None:
    judged = {each.name: OURS.valid(each.url, each.params, each.headers) for each in WEBHOOKS}
    assert judged == {each.name: each.genuine for each in WEBHOOKS}


def test_the_address_is_rebuilt_from_the_public_one() -> None:
    for webhook in GENUINE:
        parts = urlsplit(webhook.url)
        url = signed_url("https://arc.example/", parts.path, parts.query)
        assert OURS.valid(url, webhook.params, webhook.headers), webhook.name


def test_the_socket_handshake_is_signed_over_its_wss_address() -> None:
    headers = {SIGNATURE_HEADER: SOCKET_SIGNATURE}
    assert OURS.valid(SOCKET_URL, (), headers)
    assert OURS.valid(socket_url("https://arc.example", "/relay"), (), headers)
    assert not OURS.valid(SOCKET_URL.replace("wss", "https"), (), headers)


@given(webhook=st.sampled_from(GENUINE), data=st.data())
def test_a_webhook_with_one_field_changed_is_refused(webhook: Webhook, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(webhook.params) - 1))
    name = webhook.params[at][0]
    other = data.draw(
        st.tuples(st.just(name), st.text(max_size=20)) | st.tuples(st.text(), st.text())
    )
    # Twilio signs names and values without anything between them, so the same characters in the
    # same order are the same to it.
    params = [*webhook.params[:at], other, *webhook.params[at + 1 :]]
    assume(_as_signed(params) != _as_signed(webhook.params))
    assert not OURS.valid(webhook.url, params, webhook.headers)


@given(webhook=st.sampled_from(GENUINE), data=st.data())
def test_a_webhook_with_a_field_more_or_less_is_refused(
    webhook: Webhook, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(webhook.params) - 1))
    less = [*webhook.params[:at], *webhook.params[at + 1 :]]
    more = [*webhook.params, (data.draw(st.text(min_size=1)), data.draw(st.text()))]
    for params in (less, more):
        assume(_as_signed(params) != _as_signed(webhook.params))
        assert not OURS.valid(webhook.url, params, webhook.headers)


@given(webhook=st.sampled_from(GENUINE), data=st.data())
def test_a_webhook_sent_to_another_address_is_refused(
    webhook: Webhook, data: st.DataObject
) -> None:
    at = data.draw(st.integers(len("https://"), len(webhook.url) - 1))
    char = data.draw(st.sampled_from("abcxyz0189/?&=%"))
    assume(char != webhook.url[at])
    url = webhook.url[:at] + char + webhook.url[at + 1 :]
    assert not OURS.valid(url, webhook.params, webhook.headers)


@given(webhook=st.sampled_from(GENUINE), data=st.data())
def test_a_webhook_with_another_signature_is_refused(webhook: Webhook, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(webhook.signature) - 1))
    char = data.draw(st.characters())
    assume(char != webhook.signature[at])
    signature = webhook.signature[:at] + char + webhook.signature[at + 1 :]
    assert not OURS.valid(webhook.url, webhook.params, {SIGNATURE_HEADER: signature})


@given(
    url=st.text(),
    params=st.lists(st.tuples(st.text(), st.text())),
    headers=st.dictionaries(
        st.sampled_from([SIGNATURE_HEADER, SETTINGS_HEADER]),
        st.text(st.characters(exclude_categories=[])) | st.just("key=,algorithm=HMAC_SHA256"),
    ),
)
def test_garbage_is_refused_and_does_not_raise(
    url: str, params: list[tuple[str, str]], headers: dict[str, str]
) -> None:
    assert not OURS.valid(url, params, headers)


def test_an_address_that_is_none_is_refused() -> None:
    for url in ("https://[", "https://h:port/", "https://h/\ud800", "", "\x00"):
        assert not OURS.valid(url, [("a", "b")], {SIGNATURE_HEADER: "AAAA"})
    assert not OURS.valid(URL, [("a", "\udfff")], {SIGNATURE_HEADER: "AAAA"})


def test_without_a_signature_nothing_is_valid() -> None:
    assert not OURS.valid(URL, (), {})
    assert not OURS.valid(URL, (), {SIGNATURE_HEADER: ""})


def test_while_a_token_is_changed_both_are_good() -> None:
    both = Signatures(["new", "old"])
    for token, good in (("new", True), ("old", True), ("older", False)):
        assert both.valid(URL, (), {SIGNATURE_HEADER: signed(token, URL)}) is good


def test_a_blank_token_opens_nothing() -> None:
    for blank in ("", " ", "\n"):
        ours = Signatures([blank], [blank])
        for header in ({SIGNATURE_HEADER: signed(blank, URL)}, announced(signed(blank, URL))):
            assert not ours.valid(URL, (), header)
        assert not ours.valid(URL, (), announced(signed(blank, URL, algorithm="sha256")))


def test_blank_values_and_repeated_names_are_signed_in_any_order() -> None:
    params = [("Digits", ""), ("Label", "b"), ("Label", "a"), ("CallSid", "CA1")]
    headers = {SIGNATURE_HEADER: signed(AUTH_TOKEN, URL, params)}
    assert OURS.valid(URL, params, headers)
    assert OURS.valid(URL, params[::-1], headers)
    assert not OURS.valid(URL, params[1:], headers)
    assert not OURS.valid(URL, [*params[:1], *params[2:]], headers)


def test_a_port_may_be_signed_or_not() -> None:
    for asked, was_signed in (
        ("https://h.example/x", "https://h.example:443/x"),
        ("https://h.example:443/x", "https://h.example/x"),
        ("https://h.example:8443/x", "https://h.example/x"),
        ("wss://h.example/x", "wss://h.example:443/x"),
        ("http://h.example/x", "http://h.example:80/x"),
        ("https://[2001:db8::1]:8443/x", "https://[2001:db8::1]/x"),
    ):
        assert OURS.valid(asked, (), {SIGNATURE_HEADER: signed(AUTH_TOKEN, was_signed)})
        assert OURS.valid(asked, (), {SIGNATURE_HEADER: signed(AUTH_TOKEN, asked)})


def test_the_announced_scheme_is_checked_with_the_shared_key_or_the_token() -> None:
    ours = Signatures([AUTH_TOKEN], ["shared"])
    params = [("CallSid", "CA1")]
    for key in ("shared", AUTH_TOKEN):
        assert ours.valid(URL, params, announced(signed(key, URL, params, "sha256")))
    assert not ours.valid(URL, params, announced(signed("other", URL, params, "sha256")))
    assert not ours.valid(URL, [], announced(signed("shared", URL, params, "sha256")))
    # Each only under its own name.
    assert not ours.valid(URL, params, announced(signed("shared", URL, params)))
    assert not ours.valid(
        URL, params, {SIGNATURE_HEADER: signed(AUTH_TOKEN, URL, params, "sha256")}
    )
    # A shared key signs nothing that does not announce it.
    assert not ours.valid(URL, params, {SIGNATURE_HEADER: signed("shared", URL, params)})


def test_an_unknown_algorithm_is_refused() -> None:
    ours = Signatures([AUTH_TOKEN], ["shared"])
    for algorithm, known, key in product(
        ("HMAC_MD5", "NONE", "RSA_SHA256", "é"), ("sha1", "sha256"), (AUTH_TOKEN, "shared")
    ):
        assert not ours.valid(URL, (), announced(signed(key, URL, (), known), algorithm))


def _as_signed(params: Sequence[tuple[str, str]]) -> str:
    return "".join(name + value for name, value in sorted(set(params)))
