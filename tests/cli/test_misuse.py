"""Mistakes in commands and settings are answered with one sentence, and soon."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from callflow.cli import deployment
from tests.cli.running import Cli, store_at

COMMANDS = (("calls", "ls"), ("calls", "show", "CA1"), ("calls", "watch"), ("sweep",), ("doctor",))


def test_without_a_server_every_command_says_how_to_get_one(cli: Cli) -> None:
    for command in COMMANDS:
        cli.run(*command).failed_with("start one with `callflow up`")


def test_an_unreachable_server_is_named_without_its_password(cli: Cli) -> None:
    cli.set("CALLFLOW_REDIS_URL", "redis://:geheim@127.0.0.1:1/0")
    for command in COMMANDS[:-1]:
        ran = cli.run(*command)
        ran.failed_with("the Redis server at 127.0.0.1:1/0 cannot be reached")
        assert "geheim" not in ran.err


def test_an_address_that_is_none_is_refused_without_showing_it(cli: Cli) -> None:
    for url in ("http://:geheim@host", "geheim", "redis://:gehe#im@host:6379"):
        cli.set("CALLFLOW_REDIS_URL", url)
        ran = cli.run("calls", "ls")
        ran.failed_with("CALLFLOW_REDIS_URL: is no address of a Redis server")
        assert "gehe" not in ran.err


def test_a_misspelt_setting_is_named_with_the_right_one(cli: Cli) -> None:
    cli.set("CALLFLOW_STALE_AFTER", "3")
    cli.run("calls", "ls").failed_with("did you mean CALLFLOW_STALE_AFTER_S?")


def test_an_unknown_command_or_option_ends_with_2(cli: Cli) -> None:
    assert cli.run("answer").code == 2
    assert cli.run("calls", "ls", "--limit", "0").code == 2
    assert cli.run("up", "--pool", "gevent").code == 2


def test_a_mistake_shows_no_traceback_in_a_real_process(cli: Cli) -> None:
    cli.finish(cli.start("sweep")).failed_with("callflow: CALLFLOW_REDIS_URL: not set")


def test_help_imports_nothing_that_takes_time() -> None:
    heavy = {"asyncio", "celery", "pydantic", "redis", "rich.console", "yaml"}
    code = f"import sys, callflow.cli; print({heavy} & sys.modules.keys() or '')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_sweep_by_hand_says_what_it_found(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    store_at(redis_url).open("CA1", now_ms=1)
    assert "abandoned    1" in cli.run("sweep").out
    nothing = {"reclaimed": 0, "to_worker": 0, "to_human": 0, "woken": 0, "rung": 0}
    nothing |= {"fetched": 0, "abandoned": 0}
    assert cli.run("sweep", "--json").json == nothing


def test_procedures_that_are_all_right_are_said_to_be(cli: Cli) -> None:
    ran = cli.run("sop", "check", str(cli.home))
    assert ran.code == 0
    assert "all right" in ran.out


def test_each_problem_of_a_procedure_is_a_line_with_its_place(cli: Cli) -> None:
    (cli.home / "one.md").write_text("no front matter\n")
    (cli.home / "two.md").write_text("---\nid: two\n")
    ran = cli.run("sop", "check", str(cli.home))
    assert ran.code == 1
    places = [line.split(":")[:2] for line in ran.out.splitlines()]
    assert [Path(path).name for path, _ in places] == ["one.md", "two.md"]
    assert all(number.isdigit() for _, number in places)
    told = cli.run("sop", "check", str(cli.home), "--json").json
    assert [Path(problem["path"]).name for problem in told["problems"]] == ["one.md", "two.md"]
    assert told["ok"] is False


@pytest.mark.parametrize("command", ["up", "call", "demo"])
def test_nothing_is_started_with_a_bad_procedure(cli: Cli, command: str) -> None:
    sops = cli.home / "sops"
    sops.mkdir()
    (sops / "one.md").write_text("no front matter\n")
    cli.set("CALLFLOW_SOP_DIR", str(sops))
    ran = cli.run(command, said=b"hello?\n")
    ran.failed_with(f"callflow: {sops / 'one.md'}:1: ")
    assert len(ran.err.splitlines()) == 1
    assert not (cli.home / "data").exists()


def test_a_data_directory_that_cannot_be_used_is_named(cli: Cli) -> None:
    for place in ("/proc/x", "/etc/passwd/x", "/etc/passwd"):
        ran = cli.run("up", "--no-flower", "--data-dir", place)
        ran.failed_with(f"the data directory {place} cannot be used: ")
        assert "--data-dir" in ran.err
    (cli.home / "data" / "url").mkdir(parents=True)
    ran = cli.run("up", "--no-flower", "--data-dir", str(cli.home / "data"))
    ran.failed_with("cannot be used: Is a directory")


def test_the_address_of_a_local_stack_is_its_owners_secret_and_ends_with_it(cli: Cli) -> None:
    data = cli.home / "data"
    with deployment.announced(data) as announce:
        assert deployment.read_url(data) is None
        announce("redis://127.0.0.1:1/0")
        assert deployment.read_url(data) == "redis://127.0.0.1:1/0"
        assert stat.S_IMODE((data / "url").stat().st_mode) == 0o600
        with pytest.raises(deployment.AlreadyUp):
            deployment.announced(data).__enter__()
        cli.run("calls", "ls").failed_with("the Redis server at 127.0.0.1:1/0 cannot be reached")
    assert not (data / "url").exists()
    assert deployment.read_url(data) is None


def test_the_address_that_a_killed_stack_left_is_stale(cli: Cli) -> None:
    data = cli.home / "data"
    data.mkdir()
    (data / "url").write_text("redis://127.0.0.1:1/0\n")
    assert deployment.read_url(data) is None
    cli.run("calls", "ls").failed_with("no local stack is running here")
    with deployment.announced(data) as announce:
        announce("redis://h:1/0")
        assert (data / "url").read_text() == "redis://h:1/0\n"


def test_a_reader_that_has_seen_enough_ends_us_quietly(cli: Cli, redis_url: str) -> None:
    cli.set("CALLFLOW_REDIS_URL", redis_url)
    listing = cli.start("calls", "ls", "--json")
    assert listing.stdout is not None
    assert listing.stderr is not None
    listing.stdout.close()
    assert listing.stderr.read() == b""
    assert listing.wait(10) == 1
