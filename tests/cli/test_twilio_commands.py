"""`callflow twilio`: the carrier's fallback document, and how a number is set."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.running import Cli
from tests.twilio.rest_api import ACCOUNT, TOKEN, Answer, Asked, RestApi, rest_api

NUMBER = "+441632960010"
BIN = "https://handler.twilio.com/twiml/EH1"


@pytest.fixture
def api(cli: Cli) -> Iterator[RestApi]:
    """Twilio's API holding NUMBER, for a command line that is set to it."""
    with rest_api() as serving:
        cli.set("CALLFLOW_PUBLIC_URL", "https://h.example")
        cli.set("CALLFLOW_TWILIO_ACCOUNT_SID", ACCOUNT)
        cli.set("CALLFLOW_TWILIO_AUTH_TOKEN", TOKEN)
        cli.set("CALLFLOW_TWILIO_API_URL", serving.url)
        held = {"sid": "PN1", "phone_number": NUMBER, "voice_url": "https://old.example/"}

        def answer(asked: Asked) -> Answer:
            if asked.method == "GET":
                return 200, json.dumps({"incoming_phone_numbers": [held]})
            held.update(
                voice_url=asked.form["VoiceUrl"][0],
                voice_method="POST",
                status_callback=asked.form["StatusCallback"][0],
                status_callback_method="POST",
                voice_fallback_url=asked.form["VoiceFallbackUrl"][0],
                voice_fallback_method="POST",
            )
            return 200, json.dumps(held)

        serving.answer = answer
        yield serving


SITES = """
sites:
  - id: tower
    called: ["+441632960010"]
    lift: North lift
    address: 1 High Street
    language: zh-CN
    humans:
      - {number: "+441632960001", name: Ann, ring_s: 20}
      - {number: "+441632960002", name: Bob}
"""
SECOND = """
  - id: harbour
    called: ["+441632960011"]
    caller_id: "+441632960012"
    lift: Goods lift
    address: 2 Quay
    humans: [{number: "+441632960003", name: Cy}]
"""


@pytest.fixture
def one_site(cli: Cli) -> Path:
    """A file with one site."""
    path = cli.home / "one.yaml"
    path.write_text(SITES, encoding="utf-8")
    return path


@pytest.fixture
def two_sites(cli: Cli) -> Path:
    """A file with two sites."""
    path = cli.home / "two.yaml"
    path.write_text(SITES + SECOND, encoding="utf-8")
    return path


def rung(xml: str) -> list[str | None]:
    """The numbers that a document rings, in order; it must be nothing but a document."""
    return [each.text for each in ET.fromstring(xml.encode()).iter("Number")]


def test_the_fallback_of_the_only_site_is_all_of_stdout(cli: Cli, one_site: Path) -> None:
    cli.set("CALLFLOW_SITES", str(one_site))
    ran = cli.run("twilio", "fallback")
    assert ran.code == 0
    assert ran.out.startswith("<?xml")
    assert rung(ran.out)[:3] == ["+441632960001", "+441632960002", "+441632960001"]
    assert "请不要挂断" in ran.out
    assert 'timeout="20"' in ran.out
    assert f'callerId="{NUMBER}"' in ran.out
    assert "for site tower" in ran.err


def test_a_fallback_needs_no_server_and_no_address_of_ours(cli: Cli, two_sites: Path) -> None:
    cli.set("CALLFLOW_PUBLIC_URL", "https://h.example")
    ran = cli.run("twilio", "fallback", "--sites", str(two_sites), "--site", "harbour")
    assert ran.code == 0
    assert set(rung(ran.out)) == {"+441632960003"}
    assert 'callerId="+441632960012"' in ran.out
    assert "Please stay on the line" in ran.out
    assert "h.example" not in ran.out


def test_of_several_sites_one_must_be_named(cli: Cli, two_sites: Path) -> None:
    cli.set("CALLFLOW_SITES", str(two_sites))
    cli.run("twilio", "fallback").failed_with("there are 2 sites; name one with --site: tower, har")
    cli.run("twilio", "fallback", "--site", "nowhere").failed_with("there is no site 'nowhere'")


def test_a_fallback_without_sites_says_where_to_name_them(cli: Cli) -> None:
    cli.run("twilio", "fallback").failed_with("CALLFLOW_SITES: not set")
    cli.run("twilio", "fallback", "--sites", "nowhere.yaml").failed_with("nowhere.yaml:1")


def changed(api: RestApi) -> int:
    """How often the number was set."""
    return sum(asked.method == "POST" for asked in api.asked)


def test_without_credentials_setup_prints_what_to_set(cli: Cli) -> None:
    cli.set("CALLFLOW_PUBLIC_URL", "https://h.example/lifts")
    ran = cli.run("twilio", "setup", "--number", NUMBER, "--fallback-url", BIN)
    assert ran.code == 0
    lines = dict(line.split(maxsplit=1) for line in ran.out.splitlines())
    assert lines["voice_url"].startswith("https://h.example/lifts/voice/inbound#ct=")
    assert lines["status_callback"].startswith("https://h.example/lifts/voice/status#ct=")
    assert lines["voice_fallback_url"] == BIN
    assert "--apply" in ran.err


def test_with_credentials_setup_shows_what_differs_and_changes_nothing(
    cli: Cli, api: RestApi
) -> None:
    ran = cli.run("twilio", "setup", "--number", NUMBER, "--fallback-url", BIN)
    assert ran.code == 0
    assert "now  https://old.example/" in ran.out
    assert "to change; --apply does it" in ran.err
    assert changed(api) == 0
    found = cli.run("twilio", "setup", "--number", NUMBER, "--json").json
    assert found["present"]["voice_url"] == "https://old.example/"
    assert "voice_url" in found["different"]
    assert found["applied"] is False


def test_setup_applied_twice_changes_the_number_once(cli: Cli, api: RestApi) -> None:
    asked = ("twilio", "setup", "--number", NUMBER, "--fallback-url", BIN, "--apply")
    first = cli.run(*asked)
    assert first.code == 0
    assert "was  https://old.example/" in first.out
    assert "changed at Twilio: voice_url, " in first.err
    for_programs = cli.run(*asked, "--json").json
    assert for_programs["applied"] is True
    assert (for_programs["number"], for_programs["different"]) == (NUMBER, [])
    assert for_programs["wanted"]["voice_fallback_url"] == BIN
    second = cli.run(*asked)
    assert second.code == 0
    assert "this is how it is set at Twilio" in second.err
    assert changed(api) == 1
    assert TOKEN not in f"{first}{second}"


def test_setup_says_that_our_own_fallback_dies_with_us(cli: Cli) -> None:
    cli.set("CALLFLOW_PUBLIC_URL", "https://h.example")
    ran = cli.run("twilio", "setup", "--number", NUMBER)
    assert "voice_fallback_url      https://h.example/voice/fallback#" in ran.out
    assert "--fallback-url" in ran.err


def test_setup_prints_what_to_set_while_twilio_cannot_be_asked(cli: Cli, api: RestApi) -> None:
    api.refuses(401, 20003, f"Authenticate {TOKEN}")
    asked = ("twilio", "setup", "--number", NUMBER, "--fallback-url", BIN)
    ran = cli.run(*asked)
    assert ran.code == 0
    assert "voice_url" in ran.out
    assert "what is set now cannot be told" in ran.err
    applied = cli.run(*asked, "--apply")
    applied.failed_with("check CALLFLOW_TWILIO_ACCOUNT_SID")
    assert TOKEN not in f"{ran}{applied}"


def test_setup_names_what_is_missing_or_wrong(cli: Cli, api: RestApi) -> None:
    asked = ("twilio", "setup", "--number", NUMBER)
    cli.run(*asked, "--fallback-url", "http://h.example").failed_with("https://")
    cli.run("twilio", "setup", "--number", "999").failed_with("is no telephone number")
    cli.run("twilio", "setup", "--number", "+441632960011", "--apply").failed_with("has no number")
    cli.set("CALLFLOW_TWILIO_AUTH_TOKEN", "")
    cli.run(*asked, "--apply").failed_with("CALLFLOW_TWILIO_AUTH_TOKEN")
    cli.set("CALLFLOW_PUBLIC_URL", "")
    cli.run(*asked).failed_with("CALLFLOW_PUBLIC_URL: not set")
    assert changed(api) == 0
