"""Addresses come from the public base address, whatever stands between Twilio and us."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from hypothesis import given
from hypothesis import strategies as st

from callflow.twilio.urls import ANSWER, NOTICE, callback_url, signed_url, socket_url


def test_the_path_and_the_query_follow_the_base() -> None:
    for base in ("https://h.example", "https://h.example/"):
        turn = signed_url(base, "/voice/turn", "n=1&u=%20")
        assert turn == "https://h.example/voice/turn?n=1&u=%20"
        assert signed_url(base, "/voice/inbound") == "https://h.example/voice/inbound"


def test_a_path_in_the_base_stays_in_front() -> None:
    for base in ("https://h.example:8443/lifts", "https://h.example:8443/lifts/"):
        assert signed_url(base, "/voice/wait") == "https://h.example:8443/lifts/voice/wait"
        assert socket_url(base, "/voice/relay") == "wss://h.example:8443/lifts/voice/relay"


def test_a_socket_of_a_plain_address_is_plain() -> None:
    assert socket_url("http://127.0.0.1:8000", "/voice/relay") == "ws://127.0.0.1:8000/voice/relay"


@given(said=st.text(st.characters(exclude_categories=["Cs"])), turn=st.integers(1, 999))
def test_what_rides_in_an_address_comes_back_as_it_was(said: str, turn: int) -> None:
    url = callback_url("https://h.example", "/voice/wait", {"n": turn, "u": said})
    query = parse_qs(urlsplit(url).query, keep_blank_values=True)
    assert query == {"n": [str(turn)], "u": [said]}
    assert url.isascii()


def test_the_overrides_stand_behind_the_query() -> None:
    url = callback_url("https://h.example", "/voice/turn", {"n": 1})
    assert url == "https://h.example/voice/turn?n=1#ct=1000&rt=3000&tt=15000&rc=2&rp=all"
    assert callback_url("https://h.example", "/x", patience=None) == "https://h.example/x"


def test_the_overrides_are_within_twilios_limits() -> None:
    for patience in (ANSWER, NOTICE):
        assert 100 <= patience.connect_ms <= 10_000
        assert 100 <= patience.read_ms <= 15_000
        assert 100 <= patience.total_ms <= 15_000
        assert 0 <= patience.retries <= 5
